/**
 * Looks at a shard of a checkpoint on its way to the disk: every number is one that donors send each other, no second moment
 * is negative, and how far the values are from those of an earlier checkpoint is summed up. What a donor says of its own upload is not asked.
 */
import { at, outside, type Range } from '../../swarm/base.ts';
import { isOf, type StateKind } from '../../swarm/plan/stateKinds.ts';
import type { StateSums } from '../../swarm/run/plausibleState.ts';

const FLOAT_BYTES = 4;
/** As much as is looked at, and read of the earlier checkpoint, at once. */
const PIECE_ELEMENTS = 1 << 16;

/** Kinds that have a bound of their own. */
const SUMMED = ['m', 'v', 'velocity', 'leftOver'] as const;

/** Values of the earlier checkpoint. */
type ReadValues = (range: Range) => Promise<Float32Array>;

/** What is wrong with an upload: what to answer, and what it was. */
export class UploadError extends Error {
  readonly status: number;
  constructor(status: number, sentence: string) {
    super(sentence);
    this.status = status;
  }
}

type Sums = { -readonly [Field in keyof StateSums]: StateSums[Field] };

export class UploadCheck {
  readonly sums: Sums;
  readonly #range: Range;
  readonly #kinds: readonly StateKind[];
  readonly #before: ReadValues;
  readonly #piece = new Float32Array(PIECE_ELEMENTS);
  readonly #bytes = new Uint8Array(this.#piece.buffer);
  #filledBytes = 0;
  /** Of the kind that is looked at. */
  #sum = 0;
  /** Elements of all kinds that were looked at. */
  #done = 0;

  /** `kinds`: of a shard, one after the other, the run's weights first where they are among them. */
  constructor(range: Range, kinds: readonly StateKind[], before: ReadValues) {
    this.#range = range;
    this.#kinds = kinds;
    this.#before = before;
    this.sums = { elements: range[1] - range[0], before: 0, moved: 0, m: 0, v: 0, velocity: 0, leftOver: 0 };
  }

  get #total(): number {
    return this.sums.elements * this.#kinds.length;
  }

  /** The chunks as they come; throws an `UploadError` at the first one that cannot be part of such a shard. */
  async *through(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of body) {
      for (let at = 0; at < chunk.length; ) at += await this.#take(chunk.subarray(at));
      yield chunk;
    }
    if (this.#done < this.#total)
      throw new UploadError(400, `the upload ended early: a shard of ${this.#total * FLOAT_BYTES} bytes was asked for`);
  }

  /** How many of these bytes there was room for. */
  async #take(bytes: Uint8Array): Promise<number> {
    const left = Math.min(PIECE_ELEMENTS, this.sums.elements - (this.#done % this.sums.elements)) * FLOAT_BYTES;
    if (this.#done === this.#total)
      throw new UploadError(413, `the upload is too long: a shard of ${this.#total * FLOAT_BYTES} bytes was asked for`);
    const part = bytes.subarray(0, left - this.#filledBytes);
    this.#bytes.set(part, this.#filledBytes);
    this.#filledBytes += part.length;
    if (this.#filledBytes === left) {
      await this.#look(this.#piece.subarray(0, left / FLOAT_BYTES));
      this.#done += left / FLOAT_BYTES;
      this.#filledBytes = 0;
    }
    return part.length;
  }

  async #look(piece: Float32Array): Promise<void> {
    const kind = at(this.#kinds, Math.floor(this.#done / this.sums.elements));
    const first = this.#range[0] + (this.#done % this.sums.elements);
    const wrong = piece.findIndex((value) => !Number.isFinite(value) || (isOf(kind, 'v') && value < 0));
    if (wrong >= 0)
      throw new UploadError(
        422,
        `element ${first + wrong} of its ${words(kind)} is ${piece[wrong]}: expected a finite number${isOf(kind, 'v') ? ' from 0' : ''}`,
      );
    if (first === this.#range[0]) this.#sum = 0;
    const of = SUMMED.find((one) => isOf(kind, one));
    const isFirst = this.#done < this.sums.elements;
    const before = isFirst || of === undefined ? await this.#before([first, first + piece.length]) : null;
    if (isFirst) for (const earlier of before ?? []) this.sums.before += earlier ** 2;
    // The run's weights, and what islands begin with, which follows them.
    if (of === undefined) return this.#compare(piece, before ?? new Float32Array());
    this.#sum += piece.reduce((sum, value) => sum + (of === 'v' ? value : value * value), 0);
    this.sums[of] = Math.max(this.sums[of], this.#sum);
  }

  #compare(piece: Float32Array, before: Float32Array): void {
    for (let i = 0; i < piece.length; i++) {
      const earlier = before[i] ?? outside(before, i);
      this.#sum += ((piece[i] ?? outside(piece, i)) - earlier) ** 2;
    }
    this.sums.moved = Math.max(this.sums.moved, this.#sum);
  }
}

const words = (kind: StateKind): string =>
  kind === 'value' ? 'values' : isOf(kind, 'm') ? 'first moments' : isOf(kind, 'v') ? 'second moments' : kind;
