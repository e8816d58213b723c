/** `shoal bench kernels`: every kernel in its own cases, or in the shapes of a training step, beside the adapter's best. */

import type { Command } from 'commander';
import { totalOf } from '../../swarm/base.ts';
import type { Compute } from '../../swarm/precision.ts';
import { badInput, failed, need } from '../commands/failure.ts';
import { inBrowser } from './benchBrowser.ts';
import { adapterOption, type BenchAdapter, computeOption, type DawnAdapter, inDawn } from './benchDawn.ts';
import { benchKernels, type KernelBench } from './page/kernels.ts';
import type { BenchPage } from './page/main.ts';
import { BENCH_SIZES, type BenchSize } from './page/sizes.ts';
import { benchStepKernels, type StepKernel, type StepKernels } from './page/stepKernels.ts';
import { tuneProducts } from './page/tune.ts';
import { printTuned, shapeOf } from './printTuned.ts';

/** Larger ones take a reference in JavaScript, and a table of this kind, too long. */
const SIZES: readonly BenchSize[] = ['xs', 's', 'm'];
const isSize = (name: string): name is BenchSize => SIZES.some((size) => size === name);

interface KernelsOptions {
  readonly adapter: BenchAdapter;
  readonly step?: readonly BenchSize[];
  readonly tune?: boolean;
  readonly compute: Compute;
  readonly json?: boolean;
}

export function addKernelsBench(bench: Command): void {
  bench
    .command('kernels')
    .description('time, rate and error against the CPU reference of every kernel')
    .option('--step <sizes>', `in the shapes of a training step: ${SIZES.join(',')}`, sizesOf)
    .option(
      '--tune',
      'try every tile of the matrix product in the shapes of --step (default: all), and print the table anew',
    )
    .addOption(computeOption())
    .addOption(adapterOption())
    .option('--json', 'one JSON document on standard output')
    .action(kernels);
}

function sizesOf(text: string): BenchSize[] {
  return text.split(',').map((name) => {
    if (isSize(name)) return name;
    throw badInput(`--step: "${name}" is unknown: expected ${SIZES.join(', ')}`);
  });
}

async function kernels({ adapter, step, tune, compute, json }: KernelsOptions): Promise<void> {
  if (compute === 'f16' && !tune && !step) throw badInput('--compute f16 needs --step or --tune');
  if (tune) return tuneTiles(adapter, step ?? SIZES, compute, json === true);
  const { cases, steps } = await (adapter === 'browser'
    ? measureInBrowser(compute, step)
    : measureInDawn(adapter, compute, step));
  if (json) console.log(JSON.stringify(step ? { steps } : { kernels: cases }));
  else {
    for (const result of cases) console.log(kernelLine(result));
    for (const result of steps) printStepKernels(result);
  }
  const wrong = [...cases, ...steps.flatMap((one) => one.kernels)].filter(({ right }) => !right);
  if (wrong.length > 0) {
    throw failed(`wrong against the CPU reference: ${wrong.map(({ kernel }) => kernel).join(', ')}`);
  }
}

async function tuneTiles(
  adapter: BenchAdapter,
  sizes: readonly BenchSize[],
  compute: Compute,
  json: boolean,
): Promise<void> {
  const tuned =
    adapter === 'browser'
      ? await inBrowser(
          async () => null,
          async (page) => {
            const found = await page.evaluate(
              ([asked, precision]) =>
                (globalThis as unknown as { shoalBench: BenchPage }).shoalBench.tune(asked, precision),
              [sizes, compute] as const,
            );
            return need(found, failed);
          },
        )
      : await inDawn(adapter, compute, (opened) => tuneProducts(opened, sizes, compute));
  if (json) console.log(JSON.stringify(tuned));
  else printTuned(tuned);
}

interface Measured {
  readonly cases: readonly KernelBench[];
  readonly steps: readonly StepKernels[];
}

function measureInDawn(adapter: DawnAdapter, compute: Compute, sizes?: readonly BenchSize[]): Promise<Measured> {
  return inDawn(adapter, compute, async (opened) => {
    if (!sizes) return { cases: await benchKernels(opened), steps: [] };
    const steps: StepKernels[] = [];
    for (const size of sizes) steps.push(await benchStepKernels(opened, size, compute));
    return { cases: [], steps };
  });
}

function measureInBrowser(compute: Compute, sizes?: readonly BenchSize[]): Promise<Measured> {
  return inBrowser(
    async () => null,
    async (page) => {
      if (!sizes) {
        const cases = await page.evaluate(() =>
          (globalThis as unknown as { shoalBench: BenchPage }).shoalBench.kernels(),
        );
        return { cases: need(cases, failed), steps: [] };
      }
      const steps: StepKernels[] = [];
      for (const size of sizes) {
        const found = await page.evaluate(
          ([asked, precision]) =>
            (globalThis as unknown as { shoalBench: BenchPage }).shoalBench.stepKernels(asked, precision),
          [size, compute] as const,
        );
        steps.push(need(found, failed));
      }
      return { cases: [], steps };
    },
  );
}

function kernelLine({ kernel, dims, ms, gflops, gigabytesPerSecond, error }: KernelBench): string {
  const rate = `${gflops.toFixed(2).padStart(7)} GFLOP/s ${gigabytesPerSecond.toFixed(2).padStart(7)} GB/s`;
  return `${kernel.padEnd(36)} ${ms.toFixed(3).padStart(9)} ms ${rate}  error ${error.toExponential(1)}  ${shapeOf(dims)}`;
}

function printStepKernels({ size, peaks, kernels: rows }: StepKernels): void {
  const { layers, width, sequence, batch, vocabulary } = BENCH_SIZES[size];
  const total = totalOf(rows, ({ calls, ms }) => calls * ms);
  console.log(
    `${size}: ${layers} layers of width ${width}, ${batch}×${sequence} tokens, ${vocabulary} ids; kernels alone ${total.toFixed(1)} ms`,
  );
  console.log(
    `best product ${peaks.productGflops.toFixed(2)} GFLOP/s, copy ${peaks.copyGigabytesPerSecond.toFixed(2)} GB/s`,
  );
  for (const row of rows) console.log(stepLine(row));
}

function stepLine({ kernel, dims, calls, ms, share, bound, ofBest, error, ...rates }: StepKernel): string {
  const rate =
    bound === 'compute' ? `${rates.gflops.toFixed(2)} GFLOP/s` : `${rates.gigabytesPerSecond.toFixed(2)} GB/s`;
  const percent = (part: number): string => `${(100 * part).toFixed(1).padStart(5)} %`;
  const columns = [
    kernel.padEnd(40),
    `${calls} ×`.padStart(6),
    `${ms.toFixed(3)} ms`.padStart(11),
    percent(share),
    rate.padStart(15),
    `${percent(ofBest)} of best`,
    `error ${error.toExponential(0)}`,
    shapeOf(dims),
  ];
  return columns.join('  ');
}
