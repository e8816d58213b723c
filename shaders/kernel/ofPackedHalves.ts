/**
 * A kernel some of whose inputs lie in storage as halves, two a word, and are unpacked where they are read: all else stays
 * floats, and no shader-f16 is needed. What an adapter's base is kept as.
 */
import { invariant } from '../../swarm/base.ts';
import { roundToHalves } from './inHalves.ts';
import type { Kernel } from './kernel.ts';

const made = new WeakMap<Kernel, Map<string, Kernel>>();

/** The same kernel with these inputs in halves; itself where there are none. */
export function ofPackedHalves(kernel: Kernel, names: readonly string[]): Kernel {
  if (names.length === 0) return kernel;
  const known = made.get(kernel) ?? new Map<string, Kernel>();
  made.set(kernel, known);
  const found = known.get(names.join()) ?? makeOfPackedHalves(kernel, new Set(names));
  known.set(names.join(), found);
  return found;
}

function makeOfPackedHalves(kernel: Kernel, names: ReadonlySet<string>): Kernel {
  invariant(
    [...names].every((name) => kernel.tensors.some((slot) => slot.name === name)),
    `${kernel.name} has these inputs`,
  );
  return {
    ...kernel,
    name: `${kernel.name}.packed`,
    tensors: kernel.tensors.map((slot) => (names.has(slot.name) ? { ...slot, type: 'packedF16' } : slot)),
    fill: (arrays, dims, random) => {
      kernel.fill?.(arrays, dims, random);
      for (const name of names) roundToHalves(arrays[name]);
    },
    cost: (dims) => {
      const sizes = kernel.sizes(dims);
      const { flops, bytes } = kernel.cost(dims);
      return { flops, bytes: bytes - [...names].reduce((sum, name) => sum + 2 * (sizes[name] ?? 0), 0) };
    },
  };
}
