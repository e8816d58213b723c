/**
 * `shoal doctor --model FOLDER`: whether a model as the Hub has it can be trained, what is in its folder, and how much memory
 * its donors need.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { invariant, peerId, type Result, refusal, success } from '../../swarm/base.ts';
import { plannedBytes } from '../../swarm/memory/memory.ts';
import { adapterModel, adapterTargets } from '../../swarm/model/adapter.ts';
import { modelFromConfig } from '../../swarm/model/families.ts';
import { type Model, parameters } from '../../swarm/model/model.ts';
import type { Plan } from '../../swarm/plan/plan.ts';
import { equalSplit, splitProblem } from '../../swarm/planner/equalSplit.ts';
import { bytesText, counted, groupedText } from '../../swarm/quantityText.ts';
import { initialAdapter } from '../../swarm/run/runDraft.ts';
import { readJsonFile } from '../files/jsonFile.ts';
import { IS_TERMS } from '../store/dataDirectory.ts';
import { CHAT_TEMPLATE_FILE, chatTextOf } from '../texts/chatText.ts';
import { openTokenizer, TOKENIZER_FILE } from '../texts/tokenizer.ts';
import { SPECIAL_TOKENS_FILE, TOKENIZER_CONFIG_FILE } from '../texts/tokenizerConfig.ts';
import { ADAPTER_CONFIG } from '../weights/adapterFiles.ts';
import { openWeights } from '../weights/weights.ts';

interface Finding {
  readonly name: string;
  readonly ok: boolean;
  readonly finding: string;
}

interface Memory {
  readonly donors: number;
  readonly sequenceLength: number;
  /** Of the donor that needs most, with one sample a micro-batch. */
  readonly bytes: number;
  /** The same where an adapter is trained beside the model's own weights. */
  readonly adapterBytes: number;
}

interface ModelFindings {
  readonly ok: boolean;
  readonly findings: readonly Finding[];
  /** None where the model is not one that is trained. */
  readonly memory: readonly Memory[];
}

export const CONFIG_FILE = 'config.json';
const DONORS = [1, 2, 4, 8];
const SEQUENCES = [256, 1_024];
/** Micro-batches of one sample that a step has for each donor. */
const SAMPLES_EACH = 4;
const BYTES = 257;

/** What is wrong with the folder is a finding; only one that cannot be read is refused. */
export async function findingsOf(folder: string): Promise<Result<ModelFindings>> {
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch {
    return refusal(`--model: ${folder} cannot be read: a folder of a model was expected, with a ${CONFIG_FILE}`);
  }
  if (!names.includes(CONFIG_FILE) && names.includes(ADAPTER_CONFIG)) return adapterIn(folder);
  if (!names.includes(CONFIG_FILE))
    return refusal(`--model: ${folder} has no ${CONFIG_FILE}: a folder of a model was expected`);
  const config = await readJsonFile(join(folder, CONFIG_FILE), 'a config.json of a model');
  if (!config.ok) return refusal(`--model: ${config.reason}`);
  const model = modelFromConfig(config.value);
  const terms = names.filter((name) => IS_TERMS.test(name));
  const others: Finding[] = [
    await weightsIn(folder, model),
    await tokenizerIn(folder, names, model),
    { name: 'terms', ok: true, finding: terms.length > 0 ? terms.join(', ') : 'no licence file beside it' },
  ];
  const findings = [modelFinding(model), ...others];
  const memory = model.ok ? memoryOf(model.value) : [];
  return success({ ok: findings.every(({ ok }) => ok), findings, memory });
}

/** As PEFT writes them. */
const adapterSchema = z.looseObject({
  base_model_name_or_path: z.string().nullish(),
  r: z.number().exactOptional(),
  target_modules: z.union([z.array(z.string()), z.string()]).nullish(),
});

/** No model that could be trained by itself: what it is of, and what it is good for. */
async function adapterIn(folder: string): Promise<Result<ModelFindings>> {
  const path = join(folder, ADAPTER_CONFIG);
  const json = await readJsonFile(path, 'an adapter_config.json of PEFT');
  if (!json.ok) return refusal(`--model: ${json.reason}`);
  const parsed = adapterSchema.safeParse(json.value);
  if (!parsed.success) return refusal(`--model: ${path} is no ${ADAPTER_CONFIG} as PEFT writes it`);
  const { base_model_name_or_path: base, r: rank, target_modules: targets } = parsed.data;
  const size = rank === undefined ? '' : `, of rank ${rank}`;
  const modules = targets ? `, of ${[targets].flat().join(', ')}` : '';
  const unknown = `${ADAPTER_CONFIG} does not say which: ask whoever made it`;
  const toDo = `check the folder of ${base || 'its base'} with doctor --model; to train this adapter on, name that folder in "init" of a run file and this one in "train.adapter.init"`;
  const findings: Finding[] = [
    { name: 'model', ok: false, finding: `an adapter of PEFT without its base${size}${modules}` },
    { name: 'base', ok: Boolean(base), finding: base || unknown },
    { name: 'to do', ok: true, finding: toDo },
  ];
  return success({ ok: false, findings, memory: [] });
}

function modelFinding(model: Result<Model>): Finding {
  if (!model.ok) return { name: 'model', ok: false, finding: `${CONFIG_FILE}: ${model.reason}` };
  const { family, layers, width, positions, vocabulary } = model.value;
  const size = `${counted(layers, 'layer')} of width ${width}, ${groupedText(positions)} positions, ${groupedText(vocabulary)} tokens`;
  return { name: 'model', ok: true, finding: `${family}, ${groupedText(parameters(model.value))} parameters: ${size}` };
}

async function weightsIn(folder: string, model: Result<Model>): Promise<Finding> {
  const name = 'weights';
  if (!model.ok) return { name, ok: false, finding: 'not looked at: what their names mean is not known' };
  const weights = await openWeights(folder, model.value);
  if (!weights.ok) return { name, ok: false, finding: weights.reason };
  const tensors = Object.keys(weights.value.tensorNames ?? {}).length;
  await weights.value.close();
  return { name, ok: true, finding: `${counted(tensors, 'tensor')}, all there` };
}

async function tokenizerIn(folder: string, names: readonly string[], model: Result<Model>): Promise<Finding> {
  const name = 'tokenizer';
  if (!names.includes(TOKENIZER_FILE)) {
    const isOfBytes = model.ok && model.value.vocabulary <= BYTES;
    const finding = isOfBytes ? `no ${TOKENIZER_FILE}: it reads bytes` : `no ${TOKENIZER_FILE}`;
    return { name, ok: isOfBytes, finding };
  }
  const opened = await openTokenizer(join(folder, TOKENIZER_FILE));
  if (!opened.ok) return { name, ok: false, finding: opened.reason };
  const { ids } = opened.value;
  opened.value.close();
  if (model.ok && ids > model.value.vocabulary)
    return { name, ok: false, finding: `${groupedText(ids)} tokens, and the model has ${model.value.vocabulary}` };
  return { name, ok: true, finding: `${groupedText(ids)} tokens, ${templateWords(folder, names)}` };
}

function templateWords(folder: string, names: readonly string[]): string {
  const text = (name: string): string | null =>
    names.includes(name) ? readFileSync(join(folder, name), 'utf8') : null;
  const files = { template: text(CHAT_TEMPLATE_FILE), config: text(TOKENIZER_CONFIG_FILE) };
  const chat = chatTextOf(
    { ...files, specialTokens: text(SPECIAL_TOKENS_FILE), tokenizer: text(TOKENIZER_FILE) },
    new Date(0),
  );
  if (chat === null) return 'no chat template: for texts and completions';
  const written = chat([{ role: 'user', content: 'Hello' }]);
  return written.ok ? 'a chat template' : `a chat template that cannot be used: ${written.reason}`;
}

/** The adapter that the dashboard offers first. */
const offered = (model: Model) => initialAdapter(adapterTargets(model));

/** In float32. */
function memoryOf(model: Model): Memory[] {
  const adapted = adapterModel(model, { ...offered(model), rslora: false });
  invariant(adapted.ok, 'an adapter of the model’s own modules');
  const sequences = [...new Set(SEQUENCES.map((sequence) => Math.min(sequence, model.positions)))];
  return DONORS.flatMap((donors) => {
    const samples = SAMPLES_EACH * donors;
    const options = { microBatches: samples };
    if (splitProblem(model, samples, donors, options) !== null) return [];
    const peers = Array.from({ length: donors }, (_, donor) => peerId(`donor-${donor}`));
    const plan = equalSplit(model, samples, peers, options);
    return sequences.map((sequenceLength): Memory => {
      const most = (of: Model, its: Plan): number =>
        Math.max(...peers.map((peer) => plannedBytes(of, its, peer, { sequence: sequenceLength })));
      const adapterBytes = most(adapted.value, equalSplit(adapted.value, samples, peers, options));
      return { donors, sequenceLength, bytes: most(model, plan), adapterBytes };
    });
  });
}

/** One screen. */
export function findingsText({ ok, findings, memory }: ModelFindings): string {
  const lines = findings.map(
    ({ name, ok: isWell, finding }) => `${isWell ? 'ok     ' : 'missing'}  ${name}: ${finding}`,
  );
  const needed = memory.map(
    ({ donors, sequenceLength, bytes, adapterBytes }) =>
      `         ${counted(donors, 'donor')}, windows of ${sequenceLength} tokens: ${bytesText(bytes)}, with an adapter ${bytesText(adapterBytes)}`,
  );
  const verdict = ok
    ? 'It can be trained: all of its weights, with "init" and "data.tokenizer" of a run file naming this folder, or, with "train.adapter" beside them, an adapter.'
    : 'It cannot be trained as it is.';
  return [
    ...lines,
    ...(needed.length > 0
      ? ['GPU memory of a donor, float32 (the adapter: rank 16 of the attention):', ...needed]
      : []),
    '',
    verdict,
    '',
  ].join('\n');
}
