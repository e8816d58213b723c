/** The benchmark of the kernels: each in its largest case, how long a launch takes and its error against the CPU. */

import { matmul } from '../../../shaders/family/matmul.ts';
import { forDevice } from '../../../shaders/forDevice.ts';
import type { AdapterFamily, Dims, Kernel } from '../../../shaders/kernel/kernel.ts';
import { PipelineCache } from '../../../shaders/kernel/launch.ts';
import { compareKernel } from '../../../shaders/kernel/verify.ts';
import { kernels } from '../../../shaders/kernels.ts';
import type { OpenDevice } from '../../../web/src/gpu/device.ts';
import { learnFromProduct, timeKernel } from './timing.ts';

export interface KernelBench {
  readonly kernel: string;
  readonly dims: Dims;
  readonly ms: number;
  readonly gflops: number;
  readonly gigabytesPerSecond: number;
  /** Largest |gpu − cpu| over all outputs. */
  readonly error: number;
  /** False where the error is beyond the kernel's tolerance. */
  readonly right: boolean;
}

/** Products of a GPT-2 of width 128 over 256 rows, beside the kernels' own cases. */
const PRODUCTS: readonly (readonly [Kernel, Dims])[] = [
  [matmul({ layout: 'NN', epilogue: { bias: true } }), { M: 256, N: 384, K: 128 }],
  [matmul({ layout: 'NN', epilogue: { bias: true, gelu: true } }), { M: 256, N: 512, K: 128 }],
  [matmul({ layout: 'NN', epilogue: { bias: true, residual: true } }), { M: 256, N: 128, K: 512 }],
  [matmul({ layout: 'NT' }), { M: 256, N: 128, K: 384 }],
  [matmul({ layout: 'TN', epilogue: { accumulate: true, biasGradient: true } }), { M: 128, N: 512, K: 256 }],
  [matmul({ layout: 'NT' }), { M: 512, N: 512, K: 512 }],
];

/** Weight gradients in slices of a micro-batch's rows, which only GPUs make. */
const SLICED: readonly Kernel[] = [{}, { biasGradient: true }].map((epilogue) =>
  matmul({ layout: 'TN', epilogue, slices: true }),
);

export function benchCases(family: AdapterFamily): readonly (readonly [Kernel, Dims])[] {
  const all = family === 'gpu' ? [...kernels, ...SLICED] : kernels;
  return [...PRODUCTS, ...all.map((kernel): readonly [Kernel, Dims] => [kernel, largestCase(kernel)])];
}

export async function benchKernels(opened: OpenDevice): Promise<KernelBench[]> {
  const pipelines = new PipelineCache(opened.device);
  await learnFromProduct(opened, pipelines);
  const results: KernelBench[] = [];
  for (const [whole, dims] of benchCases(opened.family)) {
    const kernel = forDevice(opened, 'f32', whole);
    const { error, excess } = await compareKernel(opened.device, opened.family, kernel, dims, { pipelines });
    const ms = await timeKernel(opened, kernel, dims, pipelines);
    const { flops, bytes } = kernel.cost(dims);
    results.push({
      kernel: kernel.name,
      dims,
      ms,
      gflops: flops / ms / 1e6,
      gigabytesPerSecond: bytes / ms / 1e6,
      error,
      right: excess <= 0,
    });
  }
  return results;
}

function largestCase(kernel: Kernel): Dims {
  return kernel.cases.reduce((best, dims) => (kernel.cost(dims).bytes > kernel.cost(best).bytes ? dims : best));
}
