/**
 * A meeting of islands: what each of them changed since the last one, their mean weighed by steps done, and the outer
 * step with it (DiLoCo, arXiv 2311.08105). Every operation is rounded to float32, a store into a Float32Array included;
 * means are in float64 by ascending index. So the same planes give the same bits on every donor. Rules IS in SPEC.md.
 *
 * Donors that keep a part of a tensor hold a meeting of that part alone. It is the same arithmetic, as long as the part
 * begins where a sparse run and an int8 block do.
 */
import { at, invariant, type Range } from '../base.ts';
import type { Islands } from '../run/runFile.ts';
import { INT8_BLOCK, int8Code, int8Scale } from '../wire.ts';
import type { PublishedCodes } from './codes.ts';
import { placeOf, type SparseExchange, type SparseRun, sentValue, sparsify } from './sparse.ts';

/** The part of a run file's `train.islands` that a meeting depends on. */
export type MeetingSettings = Pick<Islands, 'outer' | 'exchange' | 'publish'>;

export interface IslandPlanes {
  readonly own: Float32Array;
  /** What was not sent so far; null with exchange f32. */
  readonly leftOver: Float32Array | null;
}

export interface SharedPlanes {
  readonly shared: Float32Array;
  readonly velocity: Float32Array;
  /** What islands begin their rounds with; null where that is `shared` itself, with publish f32. */
  readonly published: Float32Array | null;
}

/** Differences of one piece of a tensor: all of them, or the run that is sent in their place. */
export type Contribution = Float32Array | SparseRun;

/** Elements that are worked on at a time with exchange f32, where no run says. */
const PIECE = 4096;
/** Elements that are published at a time: whole blocks of codes. */
const PUBLISHED_ELEMENTS = 1024 * INT8_BLOCK;

/**
 * Changes the shared planes and the left-overs. `tensors`: the ranges of the planes that are a tensor or a part of one.
 * `steps`: how many steps each island did in this round; who did none is left as it is. A large meeting takes seconds: it
 * stops after every piece, of so many elements of all islands together, and is held when no more pieces come.
 */
export function* meet(
  settings: MeetingSettings,
  tensors: readonly Range[],
  shared: SharedPlanes,
  islands: readonly IslandPlanes[],
  steps: readonly number[],
): Generator<number> {
  invariant(steps.length === islands.length, 'a meeting follows steps of its islands');
  yield* meetSaid(settings, tensors, shared, steps, (island, piece) =>
    contribution(settings.exchange, piece, shared, at(islands, island)),
  );
}

/**
 * The same, of what the islands say of each piece; each is asked once, before the shared planes change there. `codes`: of
 * these tensors, where others are to publish the same.
 */
export function* meetSaid(
  settings: MeetingSettings,
  tensors: readonly Range[],
  shared: SharedPlanes,
  steps: readonly number[],
  said: (island: number, piece: Range) => Contribution,
  codes?: PublishedCodes,
): Generator<number> {
  const total = steps.reduce((sum, own) => sum + own, 0);
  invariant(total > 0, 'a meeting follows steps of its islands');
  invariant((shared.published !== null) === (settings.publish === 'int8'), 'int8 publishes a plane of its own');
  for (const tensor of tensors) {
    for (const piece of pieces(settings.exchange, tensor)) {
      const sum = new Float32Array(piece[1] - piece[0]);
      for (const [island, done] of steps.entries()) if (done > 0) add(sum, said(island, piece), done);
      outerStep(settings, piece, shared, sum, total);
      yield sum.length * steps.length;
    }
    for (const part of shared.published ? cuts(tensor, PUBLISHED_ELEMENTS) : []) {
      publish(part, shared, codes);
      yield part[1] - part[0];
    }
  }
}

/** The runs of a tensor. */
export const pieces = (exchange: MeetingSettings['exchange'], tensor: Range): Generator<Range> =>
  cuts(tensor, exchange === 'f32' ? PIECE : exchange.chunk);

function* cuts([from, to]: Range, length: number): Generator<Range> {
  for (let start = from; start < to; start += length) yield [start, Math.min(start + length, to)];
}

/** What an island says of a piece; takes it out of what is left over. */
export function contribution(
  exchange: MeetingSettings['exchange'],
  piece: Range,
  shared: Pick<SharedPlanes, 'shared' | 'published'>,
  island: IslandPlanes,
): Contribution {
  const [from, to] = piece;
  if (exchange === 'f32') {
    const base = shared.published ?? shared.shared;
    const deltas = new Float32Array(to - from);
    for (let i = from; i < to; i++) deltas[i - from] = (base[i] ?? 0) - (island.own[i] ?? 0);
    return deltas;
  }
  const leftOver = grown(exchange, piece, shared, island);
  const run = sparsify(leftOver.subarray(from, to), exchange);
  takeOut(leftOver, from, run);
  return run;
}

/** What is left over of a piece with what is new, before anything of it is sent. */
export function grown(
  { feedback: share }: SparseExchange,
  [from, to]: Range,
  { shared, published }: Pick<SharedPlanes, 'shared' | 'published'>,
  { own, leftOver }: IslandPlanes,
): Float32Array {
  invariant(leftOver !== null, 'a sparse exchange keeps what is left over');
  const base = published ?? shared;
  const feedback = Math.fround(share);
  for (let i = from; i < to; i++) {
    const delta = Math.fround((base[i] ?? 0) - (own[i] ?? 0));
    leftOver[i] = Math.fround(feedback * (leftOver[i] ?? 0)) + delta;
  }
  return leftOver;
}

/** What a run that begins here sends is left over no more. */
export function takeOut(leftOver: Float32Array, from: number, run: SparseRun): void {
  for (const entry of run.entries) {
    const i = from + placeOf(entry);
    leftOver[i] = (leftOver[i] ?? 0) - sentValue(run, entry);
  }
}

/** Adds what an island said, as often as it did steps. In the order of islands. */
function add(sum: Float32Array, said: Contribution, steps: number): void {
  if (said instanceof Float32Array)
    for (let i = 0; i < sum.length; i++) sum[i] = (sum[i] ?? 0) + Math.fround(steps * (said[i] ?? 0));
  else
    for (const entry of said.entries) {
      const i = placeOf(entry);
      sum[i] = (sum[i] ?? 0) + Math.fround(steps * sentValue(said, entry));
    }
}

/** Nesterov's momentum over the mean difference. `total`: the steps of all islands. */
function outerStep(
  { outer }: Pick<MeetingSettings, 'outer'>,
  [from]: Range,
  { shared, velocity }: Pick<SharedPlanes, 'shared' | 'velocity'>,
  sum: Float32Array,
  total: number,
): void {
  const [rate, momentum] = [Math.fround(outer.learningRate), Math.fround(outer.momentum)];
  for (let i = 0; i < sum.length; i++) {
    const mean = Math.fround((sum[i] ?? 0) / total);
    const speed = Math.fround(Math.fround(momentum * (velocity[from + i] ?? 0)) + mean);
    velocity[from + i] = speed;
    const change = momentum === 0 ? mean : Math.fround(mean + Math.fround(momentum * speed));
    shared[from + i] = (shared[from + i] ?? 0) - Math.fround(rate * change);
  }
}

/** What is published of a tensor follows `shared` by int8 codes of what it lacks (WI4). */
function publish(
  [from, to]: Range,
  { shared, published }: Pick<SharedPlanes, 'shared' | 'published'>,
  codes?: PublishedCodes,
): void {
  if (published === null) return;
  const lacking = new Float32Array(INT8_BLOCK);
  for (let start = from; start < to; start += INT8_BLOCK) {
    const length = Math.min(INT8_BLOCK, to - start);
    for (let i = 0; i < length; i++) lacking[i] = (shared[start + i] ?? 0) - (published[start + i] ?? 0);
    const scale = int8Scale(lacking, length);
    const made = codes?.begin(start, scale, length);
    for (let i = 0; i < length; i++) {
      const code = int8Code(lacking[i] ?? 0, scale);
      if (made) made[i] = code;
      published[start + i] = (published[start + i] ?? 0) + code * scale;
    }
  }
}
