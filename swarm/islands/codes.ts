/**
 * What is published of a range at a meeting, as it travels: of each tensor, or part of one, WI4's blocks of int8 codes from
 * its beginning on, tensor after tensor. Whoever has what was published before adds them, and comes to the bits of who made
 * them: a code times its scale is exact. Rules IS in SPEC.md.
 */
import { invariant, type Range, totalOf } from '../base.ts';
import { INT8_BLOCK, INT8_BLOCK_WORDS, isSound, packedWords, unpackedInt8 } from '../wire.ts';

/** Words for these tensors. */
export const codeWords = (tensors: readonly Range[]): number =>
  totalOf(tensors, ([from, to]) => packedWords('int8', to - from));

/** The codes of these tensors, as they are made. */
export class PublishedCodes {
  readonly #tensors: readonly (readonly [range: Range, firstWord: number])[];
  readonly #words: Float32Array<ArrayBuffer>;
  readonly #codes: Int8Array;

  constructor(tensors: readonly Range[]) {
    let sum = 0;
    this.#tensors = tensors.map((tensor) => {
      const first = sum;
      sum += codeWords([tensor]);
      return [tensor, first];
    });
    this.#words = new Float32Array(sum);
    this.#codes = new Int8Array(this.#words.buffer);
  }

  /** Of the block that begins here; its codes are to be written there. */
  begin(start: number, scale: number, length: number): Int8Array {
    const word = this.#wordAt(start);
    this.#words[word] = scale;
    return this.#codes.subarray(4 * (word + 1), 4 * (word + 1) + length);
  }

  /** Of parts that begin where blocks do. */
  of(parts: readonly Range[]): Float32Array<ArrayBuffer> {
    const found = new Float32Array(codeWords(parts));
    let end = 0;
    for (const part of parts) {
      const first = this.#wordAt(part[0]);
      found.set(this.#words.subarray(first, first + codeWords([part])), end);
      end += codeWords([part]);
    }
    return found;
  }

  #wordAt(place: number): number {
    const found = this.#tensors.find(([[from, to]]) => from <= place && place < to);
    invariant(found && (place - found[0][0]) % INT8_BLOCK === 0, `no block of codes begins at ${place}`);
    return found[1] + ((place - found[0][0]) / INT8_BLOCK) * INT8_BLOCK_WORDS;
  }
}

/** Whether every scale is a number of a believable size. */
export const areSoundCodes = (tensors: readonly Range[], words: Float32Array): boolean =>
  wordsOfEach(tensors, words).every(([, own]) =>
    isSound('int8', new Uint32Array(own.buffer, own.byteOffset, own.length)),
  );

/** Adds them to what was published before; `tensors` are places in that plane. Stops after each. */
export function* addCodes(tensors: readonly Range[], words: Float32Array, published: Float32Array): Generator<number> {
  for (const [[from, to], own] of wordsOfEach(tensors, words)) {
    const grown = unpackedInt8(own, to - from);
    for (let i = 0; i < grown.length; i++) published[from + i] = (published[from + i] ?? 0) + (grown[i] ?? 0);
    yield to - from;
  }
}

function wordsOfEach(tensors: readonly Range[], words: Float32Array): [Range, Float32Array][] {
  let end = 0;
  return tensors.map((tensor) => {
    const first = end;
    end += codeWords([tensor]);
    return [tensor, words.subarray(first, end)];
  });
}
