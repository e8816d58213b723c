/** `shoal bench`: one donor's training step, and every kernel, in a headless browser or in Dawn for Node; the links. */
import { totalmem } from 'node:os';
import { type Command, Option } from 'commander';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { FAMILY_NAMES, modelFromConfig } from '../../swarm/model/families.ts';
import { shown } from '../../swarm/model/inputFields.ts';
import type { Model } from '../../swarm/model/model.ts';
import type { Compute } from '../../swarm/precision.ts';
import { badInput, failed, need } from '../commands/failure.ts';
import { learningRate, tryIt, wholeNumber } from '../commands/options.ts';
import { readJsonFile } from '../files/jsonFile.ts';
import { terminalLog } from '../monitoring/log.ts';
import { openWeights, type Weights } from '../weights/weights.ts';
import { inBrowser } from './benchBrowser.ts';
import { addDashboardBench } from './benchDashboard.ts';
import { adapterOption, type BenchAdapter, computeOption, inDawn } from './benchDawn.ts';
import { addFaultsBench } from './benchFaults.ts';
import { addGpuBench } from './benchGpu.ts';
import { addHomesBench } from './benchHomes.ts';
import { addKernelsBench } from './benchKernels.ts';
import { addLearnBench } from './benchLearn.ts';
import { addPlanBench } from './benchPlan.ts';
import { addPlannerBench } from './benchPlanner.ts';
import { addServerBench } from './benchSite.ts';
import { addSizeBench } from './benchSize.ts';
import { addTransportBench } from './benchTransport.ts';
import { addTrustBench } from './benchTrust.ts';
import { addWanBench } from './benchWan.ts';
import type { BenchPage } from './page/main.ts';
import { benchConfig, benchStep, type ReadWeights, type StepBench, type StepBenchResult } from './page/step.ts';

interface StepOptions {
  readonly layers: number;
  readonly width: number;
  readonly heads: number;
  readonly sequence: number;
  readonly batch: number;
  readonly vocabulary: number;
  readonly steps: number;
  readonly learningRate: number;
  readonly clip: boolean;
  readonly family: Model['family'];
  readonly init?: string;
  readonly tokens?: string;
  readonly adapter: BenchAdapter;
  readonly compute: Compute;
  readonly profile?: boolean;
  readonly json?: boolean;
}

export function addBenchCommand(program: Command): void {
  const bench = program
    .command('bench')
    .description(
      'measure this machine: step, kernels, gpu, transport, server, faults, plan, planner, wan, homes, learn, trust, dashboard or size',
    )
    .addHelpText('after', tryIt('bench step'));
  bench
    .command('step')
    .description('one donor, one tab: forward, backward, clip and AdamW, step after step')
    .option('--layers <n>', 'transformer layers', wholeNumber('--layers', 1), 2)
    .option('--width <n>', 'width of the model', wholeNumber('--width', 1), 128)
    .option('--heads <n>', 'attention heads', wholeNumber('--heads', 1), 4)
    .option('--sequence <n>', 'positions of a sample', wholeNumber('--sequence', 1), 64)
    .option('--batch <n>', 'samples of a step', wholeNumber('--batch', 1), 4)
    .option('--vocabulary <n>', 'token ids', wholeNumber('--vocabulary', 1), 256)
    .option('--steps <n>', 'steps to time', wholeNumber('--steps', 1), 20)
    .addOption(new Option('--family <name>', 'model family').choices(FAMILY_NAMES).default('gpt2'))
    .option('--init <file>', 'weights of the first step, a safetensors file')
    .option('--tokens <file>', 'JSON: B lists of T+1 token ids, the same batch at every step')
    .option('--learning-rate <x>', 'constant', learningRate, 1e-3)
    .option('--no-clip', 'do not clip the gradient norm at 1')
    .addOption(computeOption())
    .addOption(adapterOption())
    .option('--profile', 'also time each kernel in a step of its own, by timestamp queries')
    .option('--json', 'one JSON document on standard output')
    .action(step);
  addKernelsBench(bench);
  addGpuBench(bench);
  addTransportBench(bench);
  addHomesBench(bench);
  addFaultsBench(bench);
  addPlanBench(bench);
  addPlannerBench(bench);
  addWanBench(bench);
  addLearnBench(bench);
  addDashboardBench(bench);
  addServerBench(bench);
  addSizeBench(bench);
  addTrustBench(bench);
}

async function step(options: StepOptions): Promise<void> {
  const { family, layers, width, heads, sequence, batch, vocabulary, steps, learningRate, clip, compute } = options;
  const asked = need(modelFromConfig(benchConfig(options)), (reason) => badInput(inOptions(reason)));
  const tokens = options.tokens === undefined ? null : await readTokens(options.tokens, options);
  const weights = options.init === undefined ? null : need(await openWeights(options.init, asked), badInput);
  const model = weights?.model ?? asked;
  if (model.tied !== asked.tied)
    terminalLog()('warn', `${options.init} has an lm_head.weight that differs from the embedding: the head is its own`);
  const profile = options.profile === true;
  const bench: StepBench = {
    family,
    layers,
    width,
    heads,
    sequence,
    batch,
    vocabulary,
    steps,
    learningRate,
    clip,
    profile,
    compute,
    memoryBytes: totalmem(),
    tokens,
    tied: model.tied,
  };
  try {
    const read = weights && (await soundReader(weights, model));
    const measured = await (options.adapter === 'browser'
      ? stepInBrowser(bench, model, read)
      : inDawn(options.adapter, compute, (opened) => benchStep(opened, bench, read)));
    const result = need(measured, failed);
    if (options.json) console.log(JSON.stringify(result));
    else printStep(result);
  } finally {
    await weights?.close();
  }
}

/** The config's fields that come from options. */
const OPTION_OF: Readonly<Record<string, string>> = {
  n_layer: '--layers',
  num_hidden_layers: '--layers',
  n_embd: '--width',
  hidden_size: '--width',
  n_head: '--heads',
  num_attention_heads: '--heads',
  n_positions: '--sequence',
  max_position_embeddings: '--sequence',
  vocab_size: '--vocabulary',
};

/** A sentence about a config, about what was typed. */
const inOptions = (reason: string): string => reason.replaceAll(/\w+/g, (word) => OPTION_OF[word] ?? word);

async function readTokens(path: string, options: StepOptions): Promise<readonly number[][]> {
  const expected = 'a list of token lists';
  const tokens = tokensOf(need(await readJsonFile(path, expected), badInput), options);
  return need(tokens, (reason) => badInput(`${path} ${reason}`));
}

function tokensOf(json: unknown, { batch, sequence, vocabulary }: StepOptions): Result<number[][]> {
  const wrong = (what: string): Result<number[][]> =>
    refusal(`must hold ${batch} lists of ${sequence + 1} token ids below ${vocabulary} each, but ${what}`);
  if (!Array.isArray(json)) return wrong(`it holds ${shown(json)}`);
  if (json.length !== batch) return wrong(`it holds ${json.length}`);
  for (const [index, row] of json.entries()) {
    if (!Array.isArray(row)) return wrong(`list ${index + 1} is ${shown(row)}`);
    if (row.length !== sequence + 1) return wrong(`list ${index + 1} has ${row.length}`);
    const at = row.findIndex((id) => !(Number.isInteger(id) && id >= 0 && id < vocabulary));
    if (at >= 0) return wrong(`list ${index + 1} has ${shown(row[at])} at its place ${at + 1}`);
  }
  return success(json);
}

/** Reads weights in which every element was found to be a number. */
async function soundReader(weights: Weights, { blocks }: Model): Promise<ReadWeights> {
  for (const { name, elements } of blocks) {
    const fault = weights.fault(name, 0, await weights.readBlock(name, 0, elements));
    if (fault !== null) throw badInput(fault);
  }
  return (block, [from, to]) => weights.readBlock(block, from, to);
}

const WEIGHTS = 'weights';

function stepInBrowser(bench: StepBench, model: Model, read: ReadWeights | null): Promise<Result<StepBenchResult>> {
  const block = async (path: string): Promise<Buffer | null> => {
    const found = model.blocks.find(({ name }) => path === `${WEIGHTS}/${name}`);
    if (!found || !read) return null;
    return Buffer.from((await read(found.name, [0, found.elements])).buffer);
  };
  return inBrowser(block, (page) =>
    page.evaluate(
      ([asked, folder]) => (globalThis as unknown as { shoalBench: BenchPage }).shoalBench.step(asked, folder),
      [bench, read ? `/${WEIGHTS}` : null] as const,
    ),
  );
}

function printStep({ medianMs, minMs, firstStepMs, tokensPerSecond, losses, ...rest }: StepBenchResult): void {
  console.log(
    `step: median ${medianMs.toFixed(1)} ms, least ${minMs.toFixed(1)} ms, first ${firstStepMs.toFixed(0)} ms`,
  );
  console.log(`${tokensPerSecond.toFixed(0)} tokens/s; ${rest.dispatches} dispatches, ${rest.submits} submits a step`);
  console.log(`loss ${losses[0]} -> ${losses.at(-1)}; GPU buffers ${(rest.gpuBytes / 1e6).toFixed(1)} MB`);
  for (const { name, calls, ms } of rest.kernels ?? []) {
    console.log(`${name.padEnd(36)} ${String(calls).padStart(4)} calls ${ms.toFixed(2).padStart(9)} ms`);
  }
}
