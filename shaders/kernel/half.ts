/**
 * Half floats (IEEE 754 binary16) for the CPU references of the packing kernels, and as what a device keeps. The library
 * makes what is finite and too large infinite; here it saturates, while infinity and NaN stay what they are, so that a
 * step whose numbers are broken does not pass for a sound one.
 */
import { setFloat16 } from '@petamoriken/float16';
import { LARGEST_HALF } from '../../swarm/wire.ts';

const word = new DataView(new ArrayBuffer(2));

export function halfBits(value: number): number {
  setFloat16(word, 0, Number.isFinite(value) ? Math.max(-LARGEST_HALF, Math.min(LARGEST_HALF, value)) : value);
  return word.getUint16(0);
}
