/** `shoal sample`: text from an exported folder. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Command } from 'commander';
import { modelFromConfig } from '../../swarm/families.ts';
import type { Model } from '../../swarm/model.ts';
import { readFault } from '../runFileOnDisk.ts';
import { sampleText } from '../sampleText.ts';
import { openWeights } from '../weights.ts';
import { badInput, need } from './failure.ts';
import { wholeNumber } from './options.ts';

interface SampleOptions {
  readonly weights: string;
  readonly prompt: string;
  readonly tokens: number;
  readonly temperature: number;
  readonly seed: number;
  readonly json?: boolean;
}

export function addSampleCommand(program: Command): void {
  program
    .command('sample')
    .description('text from an exported model, one byte a token')
    .requiredOption('--weights <dir>', 'a folder with config.json and model.safetensors')
    .requiredOption('--prompt <text>', 'what the text begins with')
    .option('--tokens <n>', 'tokens to add', wholeNumber('--tokens', 1), 200)
    .option('--temperature <x>', '0 takes the likeliest token each time', temperature, 0.8)
    .option('--seed <s>', 'the same seed gives the same text', wholeNumber('--seed', 0), 1)
    .option('--json', 'one JSON document')
    .action(sample);
}

function temperature(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value) || value < 0) {
    throw badInput(`--temperature must be a number of 0 or more, not "${text}"`);
  }
  return value;
}

async function sample(options: SampleOptions): Promise<void> {
  const { prompt } = options;
  const model = await readModel(join(options.weights, 'config.json'));
  const outside = [...Buffer.from(prompt, 'utf8')].find((byte) => byte >= model.vocabulary);
  if (prompt === '') throw badInput('--prompt must be one byte or more');
  if (outside !== undefined) throw badInput(`--prompt has the byte ${outside}, but vocab_size is ${model.vocabulary}`);
  const weights = need(await openWeights(join(options.weights, 'model.safetensors'), model), badInput);
  try {
    const text = await sampleText(model, weights.readBlock, options);
    process.stdout.write(options.json ? `${JSON.stringify({ prompt, text })}\n` : `${prompt}${text}\n`);
  } finally {
    await weights.close();
  }
}

async function readModel(path: string): Promise<Model> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    throw badInput(`${path}: ${readFault(error)}: the config.json of an export was expected`);
  }
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    throw badInput(`${path} is not JSON`);
  }
  const model = modelFromConfig(json);
  if (!model.ok) throw badInput(`${path}: ${model.reason}`);
  return model.value;
}
