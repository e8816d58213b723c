/** The benchmark's page: `shoal bench` drives it in a headless browser through `shoalBench`. Nothing links to it. */
import type { BlockName } from '../../../swarm/model.ts';
import { type OpenDevice, openDevice } from '../gpu/device.ts';
import { benchKernels, type KernelBench } from './kernels.ts';
import { benchStep, type StepBench, type StepBenchResult } from './step.ts';

export interface BenchPage {
  /** `weights`: folder of the page's server with one file of floats a block; null: drawn from a seed. */
  step(bench: StepBench, weights: string | null): Promise<StepBenchResult>;
  kernels(): Promise<KernelBench[]>;
}

async function open(): Promise<OpenDevice> {
  const opened = await openDevice(navigator.gpu, navigator.userAgent);
  if (!opened.ok) throw new Error(opened.reason);
  return opened.value;
}

async function readBlock(folder: string, block: BlockName): Promise<Float32Array> {
  return new Float32Array(await (await fetch(`${folder}/${block}`)).arrayBuffer());
}

const page: BenchPage = {
  step: async (bench, weights) =>
    benchStep(
      await open(),
      bench,
      weights === null ? null : async (block, [from, to]) => (await readBlock(weights, block)).subarray(from, to),
    ),
  kernels: async () => benchKernels(await open()),
};

Object.assign(globalThis, { shoalBench: page });
