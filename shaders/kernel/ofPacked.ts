/**
 * A kernel some of whose inputs lie in storage packed, and are unpacked where they are read: halves, two a word, or blocks of
 * int8 codes behind their scale (WI4's, of the flat tensor). All else stays floats, and no shader-f16 is needed. What an
 * adapter's base is kept as.
 */
import { invariant } from '../../swarm/base.ts';
import { packedInt8, unpackedInt8 } from '../../swarm/wire.ts';
import { roundToHalves } from './inHalves.ts';
import type { Arrays, Kernel } from './kernel.ts';

/** How a tensor lies in storage. */
export type PackedAs = 'f16' | 'int8';

const TYPES = { f16: 'packedF16', int8: 'packedInt8' } as const;
/** Of an element; a scale is shared by 64. */
const SPARED_BYTES = { f16: 2, int8: 4 - 68 / 64 } as const;

const made = new WeakMap<Kernel, Map<string, Kernel>>();

/** The same kernel with these inputs packed; itself where there are none. */
export function ofPacked(kernel: Kernel, inputs: readonly (readonly [name: string, as: PackedAs])[]): Kernel {
  if (inputs.length === 0) return kernel;
  const known = made.get(kernel) ?? new Map<string, Kernel>();
  made.set(kernel, known);
  const found = known.get(inputs.join()) ?? makeOfPacked(kernel, new Map(inputs));
  known.set(inputs.join(), found);
  return found;
}

function makeOfPacked(kernel: Kernel, inputs: ReadonlyMap<string, PackedAs>): Kernel {
  const hasAll = [...inputs.keys()].every((name) => kernel.tensors.some((slot) => slot.name === name));
  invariant(hasAll, `${kernel.name} has these inputs`);
  return {
    ...kernel,
    name: `${kernel.name}.packed`,
    tensors: kernel.tensors.map((slot) => {
      const as = inputs.get(slot.name);
      return as ? { ...slot, type: TYPES[as] } : slot;
    }),
    fill: (arrays, dims, random) => {
      kernel.fill?.(arrays, dims, random);
      for (const [name, as] of inputs) as === 'f16' ? roundToHalves(arrays[name]) : roundToCodes(arrays[name]);
    },
    cost: (dims) => {
      const sizes = kernel.sizes(dims);
      const { flops, bytes } = kernel.cost(dims);
      const spared = [...inputs].reduce((sum, [name, as]) => sum + SPARED_BYTES[as] * (sizes[name] ?? 0), 0);
      return { flops, bytes: bytes - spared };
    },
  };
}

function roundToCodes(values: Arrays[string] | undefined): void {
  values?.set(unpackedInt8(packedInt8(values), values.length));
}
