/**
 * Places a batch on peers so that the most room is left. Given, for each peer, the room it has left when it takes b
 * samples (any function of b: divisors make it jagged), it finds b with Σb = batch and the greatest total room.
 *
 * It rests on the Lagrangian bound. At any price λ a sample, no placement has more room than
 *   U = λ·batch + Σ_i max_b (room_i(b) − λ·b)
 * and one that takes b_i on peer i misses U by the sum of the slacks
 *   slack_i(b) = max_b' (room_i(b') − λ·b') − (room_i(b) − λ·b) ≥ 0.
 * So a placement that misses U by at most δ takes no b of a greater slack. At the price that makes U least (read off the
 * concave hulls of the rooms) few b are left, and dynamic programming over them is exact: δ is widened until it covers
 * what the best placement found misses. Where that is too much work, the sums stay near those of the relaxed solution; the
 * answer then says that it is not proven.
 */
import { at, float, int } from '../base.ts';

/** The room that a peer has left when it takes b samples, b from 0 on; −Infinity where it cannot take b. */
export type Rooms = Float64Array;

interface Placement {
  /** Of each peer, in the order given. */
  readonly samples: readonly number[];
  readonly room: number;
}

interface PlacementSearch {
  readonly placement: Placement | null;
  /** No placement has more room; where there is no placement, none has enough. */
  readonly isProven: boolean;
}

/** Steps of the inner loop that one round of dynamic programming may take. */
const MOST_WORK = 2e7;
/** The first δ, as a part of all that may have to be looked at, and how it grows. */
const FIRST_WIDTH = 1 / 1024;
const WIDENING = 4;
/** Rooms are sums of measured sizes; what differs by less is equal. */
const ROUNDING = 1e-9;

/** The roomiest placement; with `enough`, the first one found that leaves so much, or none. */
export function roomiestPlacement(
  peers: readonly Rooms[],
  batch: number,
  enough?: number,
  mostWork = MOST_WORK,
): PlacementSearch {
  const relaxed = relax(peers, batch);
  if (relaxed === null) return { placement: null, isProven: true };
  const { bound, slacks, path } = relaxed;
  const goal = enough === undefined ? Number.NEGATIVE_INFINITY : enough - ROUNDING;
  if (bound < goal) return { placement: null, isProven: true };
  const widest = Math.max(
    ...slacks.map((own) => own.reduce((most, slack) => (Number.isFinite(slack) ? Math.max(most, slack) : most), 0)),
  );
  const reach = Math.min(bound - goal, widest);
  for (let width = reach * FIRST_WIDTH; ; ) {
    const { samples, isWhole } = cheapest(slacks, width + ROUNDING, path, batch, mostWork);
    const room =
      samples?.reduce((sum, taken, peer) => sum + float(at(peers, peer), taken), 0) ?? Number.NEGATIVE_INFINITY;
    const placement = samples === null || room < goal ? null : { samples, room };
    const isProven = isWhole && (bound - room <= width + ROUNDING || width >= reach);
    const isEnough = placement !== null && enough !== undefined;
    if (isProven || isEnough || !isWhole) return { placement, isProven };
    // What the best one misses is wide enough to see whatever is better.
    width = Math.min(reach, samples === null || enough !== undefined ? width * WIDENING : bound - room);
  }
}

interface Relaxed {
  readonly bound: number;
  /** Of each peer, by samples. */
  readonly slacks: readonly Float64Array[];
  /** Samples of each peer where rooms are replaced by their concave hulls. */
  readonly path: readonly number[];
}

interface Segment {
  readonly peer: number;
  readonly length: number;
  readonly slope: number;
}

/** The least bound, its slacks and its solution; null where no placement can have this sum. */
function relax(peers: readonly Rooms[], batch: number): Relaxed | null {
  const path: number[] = [];
  const segments: Segment[] = [];
  for (const [peer, rooms] of peers.entries()) {
    const corners = hull(rooms);
    const [first] = corners;
    if (first === undefined) return null;
    path.push(first);
    for (let index = 1; index < corners.length; index++) {
      const [from, to] = [at(corners, index - 1), at(corners, index)];
      segments.push({ peer, length: to - from, slope: (float(rooms, to) - float(rooms, from)) / (to - from) });
    }
  }
  segments.sort((a, b) => b.slope - a.slope);
  let left = batch - path.reduce((sum, samples) => sum + samples, 0);
  if (left < 0) return null;
  let price = segments[0]?.slope ?? 0;
  for (const { peer, length, slope } of segments) {
    if (left === 0) break;
    const taken = Math.min(left, length);
    path[peer] = at(path, peer) + taken;
    left -= taken;
    price = slope;
  }
  if (left > 0) return null;
  let bound = price * batch;
  const slacks = peers.map((rooms) => {
    let best = Number.NEGATIVE_INFINITY;
    const slack = rooms.map((room, samples) => {
      const worth = room - price * samples;
      if (worth > best) best = worth;
      return worth;
    });
    for (let samples = 0; samples < slack.length; samples++) slack[samples] = best - float(slack, samples);
    bound += best;
    return slack;
  });
  return { bound, slacks, path };
}

/** The samples at the corners of the least concave function above the rooms, ascending. */
function hull(rooms: Rooms): number[] {
  const corners: number[] = [];
  for (let samples = 0; samples < rooms.length; samples++) {
    const room = float(rooms, samples);
    if (room === Number.NEGATIVE_INFINITY) continue;
    while (corners.length > 1) {
      const [before, last] = [at(corners, corners.length - 2), at(corners, corners.length - 1)];
      const rise = float(rooms, last) - float(rooms, before);
      if (rise * (samples - before) > (room - float(rooms, before)) * (last - before)) break;
      corners.pop();
    }
    corners.push(samples);
  }
  return corners;
}

/**
 * Samples of each peer, of slacks up to `width`, whose sum is the batch and whose slacks add up to the least; null where
 * there are none. The first peers' sums are those from which the batch can be reached, and as near to the relaxed path's
 * as the work allows.
 */
function cheapest(
  slacks: readonly Float64Array[],
  width: number,
  path: readonly number[],
  batch: number,
  mostWork: number,
): { readonly samples: number[] | null; readonly isWhole: boolean } {
  const choices = slacks.map((slack) => {
    const own: number[] = [];
    for (let samples = 0; samples < slack.length; samples++) if (float(slack, samples) <= width) own.push(samples);
    return own;
  });
  const half = Math.floor(mostWork / choices.reduce((sum, { length }) => sum + 2 * length, 0));
  let [least, most] = [0, 0];
  for (const own of choices) [least, most] = [least + at(own, 0), most + at(own, own.length - 1)];
  let [from, to, along, isWhole] = [0, 0, 0, true];
  let costs = Float64Array.of(0);
  const taken: { readonly from: number; readonly samples: Int32Array }[] = [];
  for (const [peer, own] of choices.entries()) {
    const before = from;
    const [low, high] = [at(own, 0), at(own, own.length - 1)];
    [least, most, along] = [least - low, most - high, along + at(path, peer)];
    const [first, last] = [Math.max(from + low, batch - most), Math.min(to + high, batch - least)];
    [from, to] = [Math.max(first, along - half), Math.min(last, along + half)];
    if (from > first || to < last) isWhole = false;
    if (to < from) return { samples: null, isWhole };
    const next = new Float64Array(to - from + 1).fill(Number.POSITIVE_INFINITY);
    const samples = new Int32Array(next.length).fill(-1);
    for (const size of own) {
      const cost = float(at(slacks, peer), size);
      const shift = before + size - from;
      const end = Math.min(costs.length, next.length - shift);
      for (let sum = Math.max(0, -shift); sum < end; sum++) {
        const total = float(costs, sum) + cost;
        if (total >= float(next, sum + shift)) continue;
        next[sum + shift] = total;
        samples[sum + shift] = size;
      }
    }
    taken.push({ from, samples });
    costs = next;
  }
  return { samples: traced(taken, batch), isWhole };
}

function traced(
  taken: readonly { readonly from: number; readonly samples: Int32Array }[],
  batch: number,
): number[] | null {
  const found: number[] = [];
  let sum = batch;
  for (const { from, samples } of taken.toReversed()) {
    const size = int(samples, sum - from);
    if (size < 0) return null;
    found.push(size);
    sum -= size;
  }
  return found.reverse();
}
