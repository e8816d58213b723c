/**
 * The base of an adapter's run as it is kept and sent: each standing block is cut into pieces of whole rows, and each piece
 * is encoded as `train.base` says. Matrices alone are packed: f16 two halves a word, int8 each row of the stored tensor for
 * itself in WI4's blocks; norms and biases stay float32. Server and donors cut alike, so a list of hashes says everything.
 */
import { invariant, overlap, type Range, type Result, refusal, success, totalOf } from '../base.ts';
import type { Block, BlockName, TensorSpec } from '../model/model.ts';
import { int8Scale, packedBytes, packedWords, packInt8, roundToEven, unpackedF16, unpackedInt8 } from '../wire.ts';
import type { BaseEncoding } from './runFile.ts';

/** Of one block: the SHA-256 of each piece, in order. */
export interface BaseBlock {
  readonly block: BlockName;
  readonly pieces: readonly string[];
}

/** At most; a longer row is a piece of its own. */
const PIECE_ELEMENTS = 4 * 2 ** 20;

const columnsOf = ({ shape, elements }: TensorSpec): number =>
  shape.length > 1 ? elements / (shape[0] ?? 1) : elements;

/** Where a block is cut: the ranges of its pieces, side by side. */
export function pieceRanges({ tensors, elements }: Block, most = PIECE_ELEMENTS): Range[] {
  const cuts = [0];
  const begin = (): number => cuts.at(-1) ?? 0;
  for (const tensor of tensors) {
    const columns = columnsOf(tensor);
    const end = tensor.offset + tensor.elements;
    while (end - begin() > most) {
      const rows = Math.floor((begin() + most - tensor.offset) / columns);
      const cut = tensor.offset + Math.max(0, rows) * columns;
      cuts.push(cut > begin() ? cut : begin() + columns);
    }
  }
  if (begin() < elements) cuts.push(elements);
  return cuts.slice(1).map((to, index): Range => [cuts[index] ?? 0, to]);
}

/** Runs of elements that are encoded alike, in order. */
function runsOf({ tensors }: Block, range: Range, encoding: BaseEncoding) {
  return tensors.flatMap((tensor) => {
    const part = overlap(range, [tensor.offset, tensor.offset + tensor.elements]);
    if (!part) return [];
    const isPacked = encoding !== 'f32' && tensor.shape.length > 1;
    const whole = part[1] - part[0];
    const columns = isPacked && encoding === 'int8' ? columnsOf(tensor) : whole;
    const as: BaseEncoding = isPacked ? encoding : 'f32';
    return Array.from({ length: whole / columns }, (_, row) => {
      const from = part[0] - range[0] + row * columns;
      return { tensor, as, from, to: from + columns };
    });
  });
}

export const pieceBytes = (block: Block, range: Range, encoding: BaseEncoding): number =>
  totalOf(runsOf(block, range, encoding), ({ as, from, to }) => packedBytes(as, to - from));

/** The bytes of a piece, as words; a value that its encoding cannot hold is refused by tensor. */
export function encodePiece(
  block: Block,
  range: Range,
  encoding: BaseEncoding,
  values: Float32Array,
): Result<Uint32Array<ArrayBuffer>> {
  const runs = runsOf(block, range, encoding);
  const words = new Uint32Array(totalOf(runs, ({ as, from, to }) => packedWords(as, to - from)));
  let at = 0;
  for (const { tensor, as, from, to } of runs) {
    const [own, into] = [values.subarray(from, to), words.subarray(at, at + packedWords(as, to - from))];
    at += into.length;
    if (as === 'f32') new Float32Array(into.buffer, into.byteOffset, into.length).set(own);
    else if (as === 'int8') packInt8(own, into, int8Scale);
    else {
      const index = packHalves(own, into);
      if (index !== null)
        return refusal(
          `${tensor.name} has ${own[index]} at its element ${range[0] + from + index - tensor.offset}, more than a half holds: train.base "f16" needs numbers up to 65504`,
        );
    }
  }
  return success(words);
}

/** The values of a piece. Throws where there are not as many bytes as it has. */
export function decodePiece(
  block: Block,
  range: Range,
  encoding: BaseEncoding,
  bytes: ArrayBuffer,
): Float32Array<ArrayBuffer> {
  const values = new Float32Array(range[1] - range[0]);
  let at = 0;
  for (const { as, from, to } of runsOf(block, range, encoding)) {
    const length = packedWords(as, to - from);
    const [floats, into] = [new Float32Array(bytes, 4 * at, length), values.subarray(from, to)];
    at += length;
    if (as === 'f32') into.set(floats);
    else if (as === 'int8') into.set(unpackedInt8(floats, to - from));
    else into.set(unpackedF16(floats, to - from));
  }
  invariant(4 * at === bytes.byteLength, `a piece of ${block.name} has ${bytes.byteLength} bytes`);
  return values;
}

/** Answers with the first element that no half can hold; null: all are held. */
function packHalves(values: Float32Array, into: Uint32Array): number | null {
  for (const [i, value] of values.entries()) {
    const bits = halfBits(value);
    if (bits === null) return i;
    into[i >> 1] = (into[i >> 1] ?? 0) | (bits << (16 * (i & 1)));
  }
  return null;
}

/** From here on a number rounds to infinity. */
const HALF_OVERFLOW = 65_520;
const HALF_LEAST_NORMAL = 2 ** -14;
const HALF_LEAST = 2 ** -24;
const MANTISSA = 1_024;

/** Rounded to the nearest half, to even where two are as near. */
function halfBits(value: number): number | null {
  const size = Math.abs(value);
  if (!(size < HALF_OVERFLOW)) return null;
  const sign = Object.is(value, -0) || value < 0 ? 0x8000 : 0;
  if (size < HALF_LEAST_NORMAL) return sign | roundToEven(size / HALF_LEAST);
  const exponent = Math.floor(Math.log2(size));
  // Past the last mantissa it goes on in the exponent.
  return sign | ((exponent + 15) * MANTISSA + roundToEven((size / 2 ** exponent - 1) * MANTISSA));
}
