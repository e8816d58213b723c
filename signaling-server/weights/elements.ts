/** Elements of a tensor's bytes as float32, in every type that weights are kept in, and which of them are no numbers. */
import { getFloat16 } from '@petamoriken/float16';
import { outside } from '../../swarm/base.ts';
import { decodeElements } from '../../swarm/model/safetensors.ts';

const BYTES = { F32: 4, F16: 2, BF16: 2 } as const;
export type WeightType = keyof typeof BYTES;

export const WEIGHT_TYPES = Object.keys(BYTES).join(', ');
export const elementBytes = (dtype: WeightType): number => BYTES[dtype];
export const isWeightType = (dtype: string): dtype is WeightType => Object.hasOwn(BYTES, dtype);

/** The library converts one number at a time; there are only 65,536 of them. */
let halves: Float32Array | undefined;
function halfTable(): Float32Array {
  const bits = new DataView(new ArrayBuffer(2));
  return Float32Array.from({ length: 65_536 }, (_, value) => {
    bits.setUint16(0, value);
    return getFloat16(bits, 0);
  });
}

/** `bytes` start on a boundary of their buffer. */
export function elementsOf(dtype: WeightType, bytes: Uint8Array<ArrayBuffer>): Float32Array<ArrayBuffer> {
  if (dtype !== 'F16') return decodeElements(dtype, bytes);
  halves ??= halfTable();
  const table = halves;
  const source = new Uint16Array(bytes.buffer, bytes.byteOffset, bytes.length / 2);
  const values = new Float32Array(source.length);
  for (let i = 0; i < source.length; i++) {
    const bits = source[i] ?? outside(source, i);
    values[i] = table[bits] ?? outside(table, bits);
  }
  return values;
}

/** Index of the first element that is NaN or infinite; -1: all are numbers. */
export function firstNonFinite(values: Float32Array): number {
  for (let i = 0; i < values.length; i++) if (!Number.isFinite(values[i])) return i;
  return -1;
}
