/**
 * A kernel whose activations and weights are stored as f16: its table says so, and text.ts loads and stores them. The
 * software family has no such form: SwiftShader has no shader-f16.
 */
import { invariant } from '../../swarm/base.ts';
import { halfValue } from '../../swarm/wire.ts';
import { halfBits } from './half.ts';
import type { Arrays, Dims, Kernel } from './kernel.ts';

const made = new WeakMap<Kernel, Kernel>();

/** The same kernel over halves; itself where no tensor of it may be one. */
export function inHalves(kernel: Kernel): Kernel {
  if (!kernel.tensors.some(({ half }) => half)) return kernel;
  const known = made.get(kernel) ?? makeInHalves(kernel);
  made.set(kernel, known);
  return known;
}

function makeInHalves(kernel: Kernel): Kernel {
  return {
    ...kernel,
    name: `${kernel.name}.halves`,
    tensors: kernel.tensors.map((slot) => (slot.half ? { ...slot, type: 'f16' } : slot)),
    source: (family, dims) => {
      invariant(family === 'gpu', `${kernel.name} over halves is for GPUs`);
      return kernel.source(family, dims);
    },
    fill: (arrays, dims, random) => {
      kernel.fill?.(arrays, dims, random);
      for (const { name, half } of kernel.tensors) if (half) roundToHalves(arrays[name]);
    },
    cost: (dims) => {
      const { flops, bytes } = kernel.cost(dims);
      return { flops, bytes: bytes * shareOfBytes(kernel, dims) };
    },
  };
}

export function roundToHalves(values: Arrays[string] | undefined): void {
  values?.forEach((value, i) => {
    values[i] = halfValue(halfBits(value));
  });
}

/** What a kernel's tensors take with halves, as a share of what they take without. */
function shareOfBytes(kernel: Kernel, dims: Dims): number {
  const sizes = kernel.sizes(dims);
  let [whole, all] = [0, 0];
  for (const { name, half } of kernel.tensors) {
    const size = sizes[name] ?? Number.NaN;
    whole += 4 * size;
    all += (half ? 2 : 4) * size;
  }
  // A table's length is no dim of a launch that reads it: then bytes are taken for what floats would be.
  return whole > 0 ? all / whole : 1;
}
