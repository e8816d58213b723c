/** `shoal bench`: one donor's training step, and every kernel, in a headless browser or in Dawn for Node; the links. */
import { readFile } from 'node:fs/promises';
import { type Command, Option } from 'commander';
import { z } from 'zod';
import { modelFromConfig } from '../../swarm/model/families.ts';
import type { Model } from '../../swarm/model/model.ts';
import type { Compute } from '../../swarm/precision.ts';
import type { BenchPage } from '../../web/src/bench/main.ts';
import { benchConfig, benchStep, type StepBench, type StepBenchResult } from '../../web/src/bench/step.ts';
import { openWeights, type Weights } from '../weights/weights.ts';
import { inBrowser } from './benchBrowser.ts';
import { addDashboardBench } from './benchDashboard.ts';
import { adapterOption, type BenchAdapter, computeOption, driverOf, openDawn } from './benchDawn.ts';
import { addGpuBench } from './benchGpu.ts';
import { addKernelsBench } from './benchKernels.ts';
import { addMemoryBench } from './benchMemory.ts';
import { addPlanBench } from './benchPlan.ts';
import { addPlannerBench } from './benchPlanner.ts';
import { benchServer, printServerBench } from './benchServer.ts';
import { addTransportBench } from './benchTransport.ts';
import { badInput, failed, need } from './failure.ts';
import { wholeNumber } from './options.ts';

const tokensSchema = z.array(z.array(z.int().min(0)));

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
    .description('measure this machine: a training step, every kernel, a link between tabs, a server full of donors');
  bench
    .command('step')
    .description('one donor, one tab: forward, backward, clip and AdamW, step after step')
    .option('--layers <n>', 'transformer layers', wholeNumber('--layers', 1), 2)
    .option('--width <n>', 'width of the stream', wholeNumber('--width', 1), 128)
    .option('--heads <n>', 'attention heads', wholeNumber('--heads', 1), 4)
    .option('--sequence <n>', 'positions of a sample', wholeNumber('--sequence', 1), 64)
    .option('--batch <n>', 'samples of a step', wholeNumber('--batch', 1), 4)
    .option('--vocabulary <n>', 'token ids', wholeNumber('--vocabulary', 1), 256)
    .option('--steps <n>', 'steps to time', wholeNumber('--steps', 1), 20)
    .addOption(new Option('--family <name>', 'model family').choices(['gpt2', 'llama']).default('gpt2'))
    .option('--init <file>', 'weights of the first step, a safetensors file')
    .option('--tokens <file>', 'JSON: B lists of T+1 token ids, the same batch at every step')
    .option('--learning-rate <x>', 'constant', positive, 1e-3)
    .option('--no-clip', 'do not clip the gradient norm at 1')
    .addOption(computeOption())
    .addOption(adapterOption())
    .option('--profile', 'time of each kernel, from timestamp queries, in a step apart')
    .option('--json', 'one JSON document on standard output')
    .action(step);
  addKernelsBench(bench);
  addMemoryBench(bench);
  addGpuBench(bench);
  addTransportBench(bench);
  addPlanBench(bench);
  addPlannerBench(bench);
  addDashboardBench(bench);
  bench
    .command('server')
    .description('donors that one server holds, how fast they join, messages it passes on')
    .option('--json', 'one JSON document on standard output')
    .action(async ({ json }: { readonly json?: boolean }) => {
      const result = await benchServer();
      if (json) console.log(JSON.stringify(result));
      else printServerBench(result);
    });
}

function positive(text: string): number {
  const value = Number(text);
  if (!(value > 0 && Number.isFinite(value))) throw badInput(`--learning-rate must be a number above 0, not "${text}"`);
  return value;
}

async function step(options: StepOptions): Promise<void> {
  const { family, layers, width, heads, sequence, batch, vocabulary, steps, learningRate, clip, compute } = options;
  const model = need(modelFromConfig(benchConfig(options)), badInput);
  const tokens = options.tokens === undefined ? null : await readTokens(options.tokens, options);
  const weights = options.init === undefined ? null : need(await openWeights(options.init, model), badInput);
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
    tokens,
  };
  try {
    const result = await (options.adapter === 'browser'
      ? stepInBrowser(bench, model, weights)
      : stepInDawn(bench, options.adapter, weights));
    if (options.json) console.log(JSON.stringify(result));
    else printStep(result);
  } finally {
    await weights?.close();
  }
  // Dawn's threads would keep the process alive.
  if (options.adapter !== 'browser') process.exit(0);
}

async function readTokens(path: string, { batch, sequence, vocabulary }: StepOptions): Promise<number[][]> {
  let json: unknown;
  try {
    json = JSON.parse(await readFile(path, 'utf8'));
  } catch (error) {
    throw badInput(
      `${path}: ${error instanceof Error ? error.message : error}: a JSON list of token lists was expected`,
    );
  }
  const parsed = tokensSchema.safeParse(json);
  const fits =
    parsed.success &&
    parsed.data.length === batch &&
    parsed.data.every((row) => row.length === sequence + 1 && row.every((id) => id < vocabulary));
  if (!fits) {
    throw badInput(`${path} must hold ${batch} lists of ${sequence + 1} token ids below ${vocabulary} each`);
  }
  return parsed.data;
}

async function stepInDawn(
  bench: StepBench,
  adapter: Exclude<BenchAdapter, 'browser'>,
  weights: Weights | null,
): Promise<StepBenchResult> {
  const opened = need(await openDawn(driverOf(adapter)), failed);
  return benchStep(opened, bench, weights && ((block, [from, to]) => weights.readBlock(block, from, to)));
}

const WEIGHTS = 'weights';

function stepInBrowser(bench: StepBench, model: Model, weights: Weights | null): Promise<StepBenchResult> {
  const block = async (path: string): Promise<Buffer | null> => {
    const found = model.blocks.find(({ name }) => path === `${WEIGHTS}/${name}`);
    if (!found || !weights) return null;
    return Buffer.from((await weights.readBlock(found.name, 0, found.elements)).buffer);
  };
  return inBrowser(block, (page) =>
    page.evaluate(
      ([asked, folder]) => (globalThis as unknown as { shoalBench: BenchPage }).shoalBench.step(asked, folder),
      [bench, weights ? `/${WEIGHTS}` : null] as const,
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
