/**
 * How the stream is written on its way from peer to peer: the activations that go to the next stage, the gradients that
 * come back. The run file's `precision.wire` decides for the whole run; gradient sums, values and moments always travel
 * as float32. A packed tensor is a whole number of 32-bit words, whatever its encoding, so it goes through buffers,
 * readbacks and frames as floats do. Rules WI in SPEC.md.
 *
 * f16: two halves a word. int8: blocks of INT8_BLOCK elements, each a float32 scale and four codes a word.
 */
import { assertNever } from './base.ts';

export const WIRE_ENCODINGS = ['f32', 'f16', 'int8'] as const;
export type WireEncoding = (typeof WIRE_ENCODINGS)[number];

/** Elements that share a scale: 17 words for 64 elements are 0.27 of float32. */
export const INT8_BLOCK = 64;
/** Words of a whole block: its scale, and its codes. */
export const INT8_BLOCK_WORDS = 1 + INT8_BLOCK / 4;

export function packedWords(encoding: WireEncoding, elements: number): number {
  switch (encoding) {
    case 'f32':
      return elements;
    case 'f16':
      return Math.ceil(elements / 2);
    case 'int8':
      return Math.ceil(elements / INT8_BLOCK) + Math.ceil(elements / 4);
    default:
      return assertNever(encoding);
  }
}

export const packedBytes = (encoding: WireEncoding, elements: number): number => 4 * packedWords(encoding, elements);

/**
 * What gradients are multiplied with before they become halves. Their sum over a step is a mean over its B·T tokens, so a
 * single one is some B·T times too small for a half, whose least normal value is 6e-5. A power of two, hence exact; a
 * token's own gradient then saturates at 65504/256 and is exact to eleven bits down to 2e-7.
 */
export const gradientGain = (tokens: number): number => 256 * 2 ** Math.ceil(Math.log2(Math.max(1, tokens)));
