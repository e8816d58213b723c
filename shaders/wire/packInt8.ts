/**
 * The stream as eight-bit codes, before it is read back for the wire: each block of INT8_BLOCK elements has a scale s,
 * and the code of x is x/s rounded to even, from -127 to 127. A block with something that is not finite has the scale
 * NaN, so that a step whose numbers are broken does not pass for a sound one.
 *
 * With feedback (gradients) the packing k of a step sends x_k + r_{k-1} and keeps r_k, what its codes miss; r_0 = 0. So
 * what the packings of a step send adds up to the sum of all x less the last r, and a sum over micro-batches (a weight's
 * gradient is one) is not biased by the rounding. `rest` does the same in place: r lies where the next x is added to it.
 *
 * A difference is of x to what others have: its codes are added to that, here and there.
 */
import { at } from '../../swarm/base.ts';
import { INT8_BLOCK, INT8_BLOCK_WORDS, int8Code, int8Scale, packedWords, unpackedInt8 } from '../../swarm/wire.ts';
import { type Arrays, type Dims, kernel, type Source } from '../kernel/kernel.ts';
import { laneSource, laneWidth } from '../kernel/lanes.ts';
import { half, read, readWrite, u32 } from '../kernel/slots.ts';
import block from './int8Block.wgsl?raw';
import plain from './packInt8.wgsl?raw';
import difference from './packInt8Difference.wgsl?raw';
import differenceNarrow from './packInt8DifferenceNarrow.wgsl?raw';
import feedback from './packInt8Feedback.wgsl?raw';
import feedbackNarrow from './packInt8FeedbackNarrow.wgsl?raw';
import plainNarrow from './packInt8Narrow.wgsl?raw';
import rest from './packInt8Rest.wgsl?raw';
import restNarrow from './packInt8RestNarrow.wgsl?raw';

const CASES: readonly Dims<'n'>[] = [{ n: 1 }, { n: 259 }, { n: 320 }, { n: 4096 }];

/** An invocation takes a block, whose elements it reads by fours, or one by one where four does not divide n. */
function sourceOf(name: string, n: number, wide: string, narrow: string): Source<'n'> {
  const width = laneWidth(n);
  const code = (width === 4 ? wide : narrow) + block;
  const constants = { BLOCK: INT8_BLOCK };
  return laneSource({ name, code, width, constants }, (dims) => Math.ceil(dims.n / INT8_BLOCK) * width);
}

export const packInt8 = kernel({
  name: 'packInt8',
  tensors: [half(read('x')), readWrite('packed', 'u32')],
  dims: [u32('n')],
  sizes: ({ n }) => ({ x: n, packed: packedWords('int8', n) }),
  source: (_family, { n }) => sourceOf('packInt8', n, plain, plainNarrow),
  cpu: (arrays, { n }) => packInt8Cpu(arrays, n, new Float32Array(n)),
  cases: CASES,
  fill: fillOdd,
  tolerance: { absolute: 0, relative: 0 },
  cost: ({ n }) => ({ flops: 4 * n, bytes: 9 * n }),
});

export const packInt8Feedback = kernel({
  name: 'packInt8.feedback',
  tensors: [half(read('x')), readWrite('packed', 'u32'), readWrite('residual')],
  dims: [u32('n')],
  sizes: ({ n }) => ({ x: n, packed: packedWords('int8', n), residual: n }),
  source: (_family, { n }) => sourceOf('packInt8.feedback', n, feedback, feedbackNarrow),
  cpu: ({ x, packed, residual }, { n }) => packInt8Cpu({ x, packed }, n, residual),
  cases: CASES,
  fill({ x, residual }) {
    fillOdd({ x });
    for (let i = 0; i < residual.length; i++) residual[i] = at(residual, i) * 0.01;
  },
  // The codes are exact, and so is what they miss, but for the rounding of one subtraction.
  tolerance: { absolute: 1e-7, relative: 0 },
  cost: ({ n }) => ({ flops: 6 * n, bytes: 21 * n }),
});

export const packInt8Rest = kernel({
  name: 'packInt8.rest',
  tensors: [readWrite('x'), readWrite('packed', 'u32')],
  dims: [u32('n')],
  sizes: ({ n }) => ({ x: n, packed: packedWords('int8', n) }),
  source: (_family, { n }) => sourceOf('packInt8.rest', n, rest, restNarrow),
  cpu({ x, packed }, { n }) {
    const residual = new Float32Array(n);
    packInt8Cpu({ x, packed }, n, residual);
    x.set(residual);
  },
  cases: CASES,
  fill: fillOdd,
  tolerance: { absolute: 1e-7, relative: 0 },
  cost: ({ n }) => ({ flops: 5 * n, bytes: 13 * n }),
});

export const packInt8Difference = kernel({
  name: 'packInt8.difference',
  tensors: [read('x'), readWrite('packed', 'u32'), readWrite('held')],
  dims: [u32('n')],
  sizes: ({ n }) => ({ x: n, packed: packedWords('int8', n), held: n }),
  source: (_family, { n }) => sourceOf('packInt8.difference', n, difference, differenceNarrow),
  cpu({ x, packed, held }, { n }) {
    const missing = Float32Array.from({ length: n }, (_, i) => at(x, i) - at(held, i));
    packInt8Cpu({ x: missing, packed }, n, new Float32Array(n));
    const sent = unpackedInt8(new Float32Array(packed.buffer, packed.byteOffset, packed.length), n);
    // Of a block that is not finite there is nothing to be added.
    for (let i = 0; i < n; i++) held[i] = at(held, i) + (Number.isNaN(at(sent, i)) ? 0 : at(sent, i));
  },
  cases: CASES,
  fill({ x, held }) {
    fillOdd({ x });
    for (let i = 0; i < held.length; i++) held[i] = at(x, i) + at(held, i) * 0.01;
  },
  tolerance: { absolute: 0, relative: 0 },
  cost: ({ n }) => ({ flops: 6 * n, bytes: 21 * n }),
});

/** Some blocks of the middle cases: zeros, ties, one large element, something that is not finite. */
function fillOdd({ x }: Arrays<'x'>): void {
  if (x.length !== 259 && x.length !== 320) return;
  x.fill(0, 0, 64);
  x.set([16, 0.0625, 0.1875, -0.0625, -16], 64);
  x[130] = 1e30;
  x[200] = Number.NaN;
}

function packInt8Cpu({ x, packed }: Arrays<'x' | 'packed'>, n: number, residual: Float32Array | Uint32Array): void {
  const floats = new Float32Array(packed.buffer, packed.byteOffset, packed.length);
  for (let from = 0, word = 0; from < n; from += INT8_BLOCK, word += INT8_BLOCK_WORDS) {
    const values = new Float32Array(Math.min(INT8_BLOCK, n - from));
    for (let i = 0; i < values.length; i++) values[i] = at(x, from + i) + at(residual, from + i);
    const scale = int8Scale(values);
    floats[word] = scale;
    for (const [i, value] of values.entries()) {
      const code = int8Code(value, scale);
      const place = word + 1 + (i >> 2);
      packed[place] = ((i % 4 === 0 ? 0 : at(packed, place)) | ((code & 255) << (8 * (i % 4)))) >>> 0;
      residual[from + i] = Number.isNaN(scale) ? value : value - code * scale;
    }
  }
}
