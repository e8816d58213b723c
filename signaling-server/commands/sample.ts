/** `shoal sample`: text from an exported folder. */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Command } from 'commander';
import { modelFromConfig } from '../../swarm/model/families.ts';
import type { Model } from '../../swarm/model/model.ts';
import { MODEL_CONFIG } from '../files/fileKinds.ts';
import { readJsonFile } from '../files/jsonFile.ts';
import { endTokens, GENERATION_CONFIG_FILE } from '../texts/endTokens.ts';
import { sampleText } from '../texts/sampleText.ts';
import {
  BYTES,
  NoTokenError,
  openTokenizer,
  type TextTokenizer,
  TOKENIZER_FILE,
  TokenizerFault,
} from '../texts/tokenizer.ts';
import { TOKENIZER_CONFIG_FILE } from '../texts/tokenizerConfig.ts';
import { ADAPTER_CONFIG } from '../weights/adapterFiles.ts';
import { openWeights, type Weights } from '../weights/weights.ts';
import { badInput, mustHave, need } from './failure.ts';
import { tryIt, wholeNumber } from './options.ts';

interface SampleOptions {
  readonly weights?: string;
  readonly prompt?: string;
  readonly tokens: number;
  readonly temperature: number;
  readonly seed: number;
  readonly json?: boolean;
}

const EXAMPLE = 'sample --weights .shoal/model --prompt "The server"';

export function addSampleCommand(program: Command): void {
  program
    .command('sample')
    .description('let an exported model write; without a tokenizer.json each token is one byte')
    .option('--weights <dir>', 'a folder with config.json, weights and perhaps tokenizer.json')
    .option('--prompt <text>', 'what the text begins with')
    .option('--tokens <n>', 'tokens to add', wholeNumber('--tokens', 1), 200)
    .option('--temperature <x>', '0 takes the likeliest token each time', temperature, 0.8)
    .option('--seed <s>', 'the same seed gives the same text', wholeNumber('--seed', 0), 1)
    .option('--json', 'one JSON document')
    .addHelpText('after', tryIt(EXAMPLE, 'export'))
    .action(sample);
}

function temperature(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value) || value < 0) {
    throw badInput(`--temperature must be a number of 0 or more, not "${text}"`);
  }
  return value;
}

/** With everything that it needs. */
type Sampled = SampleOptions & { readonly weights: string; readonly prompt: string };

async function sample(options: SampleOptions): Promise<void> {
  const weights = mustHave('--weights <dir>', options.weights, EXAMPLE);
  const prompt = mustHave('--prompt <text>', options.prompt, EXAMPLE);
  const config = join(weights, 'config.json');
  if (existsSync(join(weights, ADAPTER_CONFIG)) && !existsSync(config))
    throw badInput(
      `--weights ${weights} has an adapter without its base: give the folder of the merged model, which export --merged or swarm --export-merged writes`,
    );
  if (!existsSync(config))
    throw badInput(
      existsSync(weights)
        ? `--weights ${weights} has no config.json: export did not write this folder (export --help)`
        : `--weights ${weights}: there is no such folder; export makes one (export --help), then for example: ${EXAMPLE}`,
    );
  const model = await readModel(config);
  const tokenizer = await readTokenizer(join(weights, TOKENIZER_FILE), model);
  try {
    await sampleWith(tokenizer, model, { ...options, weights, prompt });
  } catch (error) {
    if (error instanceof NoTokenError) throw badInput(`--prompt ${error.message}`);
    throw error instanceof TokenizerFault ? badInput(error.message) : error;
  } finally {
    tokenizer.close();
  }
}

async function sampleWith(tokenizer: TextTokenizer, model: Model, options: Sampled): Promise<void> {
  const { prompt } = options;
  const ids = await tokenizer.encode(prompt);
  if (ids.length === 0) throw badInput('--prompt must be one token or more');
  const outside = ids.find((id) => id >= model.vocabulary);
  if (outside !== undefined) throw badInput(`--prompt has the token ${outside}, but vocab_size is ${model.vocabulary}`);
  const [generationConfig, tokenizerConfig] = await Promise.all(
    [GENERATION_CONFIG_FILE, TOKENIZER_CONFIG_FILE].map((name) => textIn(options.weights, name)),
  );
  const files = { generationConfig: generationConfig ?? null, tokenizerConfig: tokenizerConfig ?? null };
  const ends = await endTokens(tokenizer, { config: model.config, vocabulary: model.vocabulary, ...files });
  const weights = need(await openWeights(options.weights, model), badInput);
  try {
    const text = await sampleText(weights.model, finite(weights), { ...options, ends }, tokenizer);
    process.stdout.write(options.json ? `${JSON.stringify({ prompt, text })}\n` : `${prompt}${text}\n`);
  } finally {
    await weights.close();
  }
}

const textIn = (folder: string, name: string): Promise<string | null> =>
  readFile(join(folder, name), 'utf8').catch(() => null); // there is none

/** NaN or infinity would write some text as well. */
const finite =
  ({ readBlock, fault }: Weights): Weights['readBlock'] =>
  async (name, from, to) => {
    const values = await readBlock(name, from, to);
    const reason = fault(name, from, values);
    if (reason !== null) throw badInput(reason);
    return values;
  };

async function readTokenizer(path: string, { vocabulary }: Model): Promise<TextTokenizer> {
  if (!existsSync(path)) return BYTES;
  const tokenizer = need(await openTokenizer(path), badInput);
  if (tokenizer.ids <= vocabulary) return tokenizer;
  tokenizer.close();
  throw badInput(`${path} has ${tokenizer.ids} ids, but vocab_size is ${vocabulary}`);
}

async function readModel(path: string): Promise<Model> {
  const json = need(await readJsonFile(path, MODEL_CONFIG), badInput);
  const model = modelFromConfig(json, 'inference');
  if (!model.ok) throw badInput(`${path}: ${model.reason}`);
  return model.value;
}
