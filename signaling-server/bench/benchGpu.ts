/**
 * `shoal bench gpu`: the figures of a real GPU, by Dawn for Node, in one table. It wants no browser, no file and no
 * network: a checkout with `dist/` and, of `node_modules`, commander, zod and webgpu is enough.
 */
import { totalmem } from 'node:os';
import { type Command, Option } from 'commander';
import { badInput, failed, need } from '../commands/failure.ts';
import { wholeNumber } from '../commands/options.ts';
import { wallMs } from '../monitoring/clock.ts';
import { inDawn } from './benchDawn.ts';
import { benchGpu, type GpuFigures, type StepFigures } from './page/gpuFigures.ts';
import { BENCH_SIZES, type BenchSize } from './page/sizes.ts';

const isSize = (name: string): name is BenchSize => Object.hasOwn(BENCH_SIZES, name);

interface GpuOptions {
  readonly size: readonly BenchSize[];
  readonly steps: number;
  readonly peak?: number;
  readonly adapter: 'gpu' | 'dawn';
  readonly json?: boolean;
}

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
    .option('--steps <n>', 'steps to time', wholeNumber('--steps', 2), 6)
    .option('--peak <teraflops>', 'the GPU’s f32 peak by its maker, for the share of it', teraflops)
    .addOption(new Option('--adapter <name>', 'the GPU, or a software adapter').choices(['gpu', 'dawn']).default('gpu'))
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

async function gpu({ size, steps, peak, adapter, json }: GpuOptions): Promise<void> {
  const measured = await inDawn(adapter, 'f32', (opened) => benchGpu(opened, size, steps, totalmem()));
  const figures = need(measured, failed);
  if (json) console.log(JSON.stringify(figures));
  else printFigures(figures, peak);
}

const percent = (share: number): string => `${(100 * share).toFixed(0)} %`;

function printFigures({ adapter, peaks, steps }: GpuFigures, peak?: number): void {
  console.log(
    `${adapter.architecture || adapter.vendor} (${adapter.description}), ${adapter.family} kernels, ${adapter.browser}, ${new Date(wallMs()).toISOString().slice(0, 10)}`,
  );
  const best = peaks.productGflops / 1000;
  const ofPeak = peak === undefined ? '' : `, ${percent(best / peak)} of the f32 peak`;
  console.log(
    `best product ${best.toPrecision(3)} TFLOP/s${ofPeak}; copy ${peaks.copyGigabytesPerSecond.toPrecision(3)} GB/s`,
  );
  console.log(
    '| model | first step | step | tokens/s | TFLOP/s | of peak | of product | attention forward, backward | AdamW of copy | submits | GPU memory |',
  );
  console.log('| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |');
  for (const step of steps) console.log(row(step, best, peak));
}

function row(step: StepFigures, best: number, peak?: number): string {
  const cells = [
    `${step.size} (${(step.parameters / 1e6).toPrecision(3)} M)`,
    `${(step.firstStepMs / 1000).toFixed(1)} s`,
    `${step.medianMs.toFixed(1)} ms`,
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
