/**
 * `shoal bench gpu`: the figures of a real GPU, by Dawn for Node, in one table. It wants no browser, no file and no
 * network: a checkout with `dist/` and, of `node_modules`, commander, zod and webgpu is enough.
 */
import { totalmem } from 'node:os';
import { type Command, Option } from 'commander';
import type { Compute } from '../../swarm/precision.ts';
import type { OpenDevice } from '../../web/src/gpu/device.ts';
import { badInput, failed, need } from '../commands/failure.ts';
import { wholeNumber } from '../commands/options.ts';
import { wallMs } from '../monitoring/clock.ts';
import { computeOption, inDawn } from './benchDawn.ts';
import { benchGpu, type GpuFigures, type StepFigures } from './page/gpuFigures.ts';
import type { ShapeTime } from './page/profile.ts';
import { BENCH_SIZES, type BenchSize } from './page/sizes.ts';
import { tuneProducts } from './page/tune.ts';
import { printTuned } from './printTuned.ts';

const isSize = (name: string): name is BenchSize => Object.hasOwn(BENCH_SIZES, name);

interface GpuOptions {
  readonly size: readonly BenchSize[];
  readonly steps: number;
  readonly peak?: number;
  readonly adapter: 'gpu' | 'dawn';
  readonly compute: Compute;
  readonly toggles: readonly string[];
  readonly units: boolean;
  readonly tune?: boolean;
  readonly json?: boolean;
}

/** Nothing new is begun later than this: the whole ends within ten minutes. */
const MODELS_END_MS = 4 * 60_000;
const TUNING_END_MS = 8 * 60_000;
/** Rows of a model's profile that are printed. */
const SHAPES_SHOWN = 16;

const PUBLISHED: readonly BenchSize[] = ['distilgpt2', 'gpt2-small'];

export function addGpuBench(bench: Command): void {
  gpuBench(bench.command('gpu'));
}

/** As a command of `shoal bench`, and by itself. */
export function gpuBench(command: Command): Command {
  const size = new Option('--size <names>', Object.keys(BENCH_SIZES).join(','));
  return command
    .description('steps of published models on this machine’s GPU, and how near its kernels come to its best')
    .addOption(size.argParser(sizesOf).default(PUBLISHED, PUBLISHED.join(',')))
    .option('--steps <n>', 'steps to time', wholeNumber('--steps', 2), 12)
    .option('--peak <teraflops>', 'the GPU’s f32 peak by its maker: prints the share of it that is reached', teraflops)
    .addOption(new Option('--adapter <name>', 'the GPU, or a software adapter').choices(['gpu', 'dawn']).default('gpu'))
    .addOption(computeOption())
    .addOption(
      new Option(
        '--toggles <names>',
        'Dawn toggles to switch on, separated by commas: disable_robustness, vulkan_enable_f16_on_nvidia',
      )
        .argParser(togglesOf)
        .default([], 'none'),
    )
    .option('--no-units', 'leave matrix units alone, which browsers do not offer yet')
    .option('--tune', 'also try every tile on every product of the last model, and print the best')
    .option('--json', 'one JSON document on standard output')
    .action(gpu);
}

function sizesOf(text: string): BenchSize[] {
  return text.split(',').map((name) => {
    if (isSize(name)) return name;
    throw badInput(`--size: "${name}" is unknown: expected ${Object.keys(BENCH_SIZES).join(', ')}`);
  });
}

function teraflops(text: string): number {
  const value = Number(text);
  if (!(value > 0 && Number.isFinite(value))) throw badInput(`--peak must be a number above 0, not "${text}"`);
  return value;
}

function togglesOf(text: string): string[] {
  const names = text.split(',');
  const wrong = names.find((name) => !/^[a-z0-9_]+$/.test(name));
  if (wrong !== undefined) throw badInput(`--toggles: "${wrong}" is no toggle’s name`);
  return names;
}

async function gpu({ size, steps, peak, adapter, compute, toggles, units, tune, json }: GpuOptions): Promise<void> {
  const begun = performance.now();
  const work = async (found: OpenDevice) => {
    const opened = units ? found : { ...found, units: [] };
    const asked = { steps, memoryBytes: totalmem(), compute, endsAt: begun + MODELS_END_MS };
    const figures = need(await benchGpu(opened, size, asked), failed);
    const last = size.slice(-1);
    return { figures, tuned: tune ? await tuneProducts(opened, last, compute, begun + TUNING_END_MS) : null };
  };
  const { figures, tuned } = await inDawn(adapter, compute, work, toggles);
  if (json) return console.log(JSON.stringify({ ...figures, toggles, ...(tuned && { tuned }) }));
  printFigures(figures, peak);
  if (toggles.length > 0) console.log(`\ntoggles on: ${toggles.join(', ')}`);
  if (tuned) {
    console.log('');
    printTuned(tuned);
  }
}

const percent = (share: number): string => `${(100 * share).toFixed(0)} %`;

function printFigures({ adapter, peaks, compute, steps, leftOut }: GpuFigures, peak?: number): void {
  console.log(
    `${adapter.architecture || adapter.vendor} (${adapter.description}), ${adapter.family} kernels, ${compute}, ${adapter.browser}, ${new Date(wallMs()).toISOString().slice(0, 10)}`,
  );
  const best = peaks.productGflops / 1000;
  const ofPeak = peak === undefined ? '' : `, ${percent(best / peak)} of the f32 peak`;
  console.log(
    `best product ${best.toPrecision(3)} TFLOP/s${ofPeak}; copy ${peaks.copyGigabytesPerSecond.toPrecision(3)} GB/s`,
  );
  console.log(
    '| model | first step | step, median | least | tokens/s | TFLOP/s | of peak | of product | attention forward, backward | AdamW of copy | submits | GPU memory |',
  );
  console.log('| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |');
  for (const step of steps) console.log(row(step, best, peak));
  for (const name of leftOut) console.log(`${name}: no time was left`);
  for (const { size, shapes } of steps) {
    console.log(`\n${size}, by kernel and shape:${shapes ? '' : ' this adapter has no timestamps'}`);
    for (const shape of shapes?.slice(0, SHAPES_SHOWN) ?? []) console.log(shapeRow(shape, peak));
  }
}

function shapeRow({ name, dims, calls, ms, share, gflops, gigabytesPerSecond }: ShapeTime, peak?: number): string {
  const isProduct = /^(matmul|attention)\./.test(name);
  const rate = isProduct ? gflops : gigabytesPerSecond;
  const columns = [
    name.padEnd(36),
    `${calls} ×`.padStart(6),
    `${ms.toFixed(3)} ms`.padStart(12),
    percent(share).padStart(5),
    rate === null ? '' : `${rate.toPrecision(3)} ${isProduct ? 'GFLOP/s' : 'GB/s'}`.padStart(14),
    peak !== undefined && isProduct && gflops !== null ? `${percent(gflops / 1000 / peak)} of the peak` : '',
    Object.entries(dims)
      .map(([dim, value]) => `${dim}=${value}`)
      .join(' '),
  ];
  return columns.join('  ');
}

function row(step: StepFigures, best: number, peak?: number): string {
  const cells = [
    `${step.size} (${(step.parameters / 1e6).toPrecision(3)} M)`,
    `${(step.firstStepMs / 1000).toFixed(1)} s`,
    `${step.medianMs.toFixed(1)} ms`,
    `${step.minMs.toFixed(1)} ms`,
    step.tokensPerSecond.toFixed(0),
    step.teraflops.toPrecision(3),
    peak === undefined ? '' : percent(step.teraflops / peak),
    percent(step.teraflops / best),
    `${percent(step.attentionForward)}, ${percent(step.attentionBackward)}`,
    percent(step.adamw),
    String(step.submits),
    `${(step.gpuBytes / 1e9).toPrecision(3)} GB`,
  ];
  return `| ${cells.join(' | ')} |`;
}
