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
 * what the best placement found misses. Where even that is too much work, the candidates are thinned out and the sums
 * kept in a corridor around the relaxed solution; the answer then says that it is not proven.
 */

/** The room that a peer has left when it takes b samples, b from 0 on; −Infinity where it cannot take b. */
export type Rooms = Float64Array;

export interface Placement {
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
  const reach = Math.min(bound - goal, widest(slacks));
  for (let width = reach * FIRST_WIDTH; ; ) {
    const all = slacks.map((slack) => within(slack, width + ROUNDING));
    const course = courseOf(all, path, batch, mostWork);
    const samples = cheapest(course, batch);
    const room =
      samples?.reduce((sum, taken, peer) => sum + (peers[peer]?.[taken] ?? 0), 0) ?? Number.NEGATIVE_INFINITY;
    const placement = samples === null || room < goal ? null : { samples, room };
    const isComplete = course.candidates === all;
    const isProven = isComplete && (bound - room <= width + ROUNDING || width >= reach);
    const isEnough = placement !== null && (enough !== undefined || !isComplete);
    if (isProven || isEnough || width >= reach) return { placement, isProven };
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
      const [from = 0, to = 0] = [corners[index - 1], corners[index]];
      segments.push({ peer, length: to - from, slope: ((rooms[to] ?? 0) - (rooms[from] ?? 0)) / (to - from) });
    }
  }
  segments.sort((a, b) => b.slope - a.slope);
  let left = batch - path.reduce((sum, samples) => sum + samples, 0);
  if (left < 0) return null;
  let price = segments[0]?.slope ?? 0;
  for (const { peer, length, slope } of segments) {
    if (left === 0) break;
    const taken = Math.min(left, length);
    path[peer] = (path[peer] ?? 0) + taken;
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
    for (let samples = 0; samples < slack.length; samples++) slack[samples] = best - (slack[samples] ?? 0);
    bound += best;
    return slack;
  });
  return { bound, slacks, path };
}

/** The samples at the corners of the least concave function above the rooms, ascending. */
function hull(rooms: Rooms): number[] {
  const corners: number[] = [];
  for (let samples = 0; samples < rooms.length; samples++) {
    const room = rooms[samples] ?? 0;
    if (room === Number.NEGATIVE_INFINITY) continue;
    while (corners.length > 1) {
      const [before = 0, last = 0] = corners.slice(-2);
      const rise = (rooms[last] ?? 0) - (rooms[before] ?? 0);
      if (rise * (samples - before) > (room - (rooms[before] ?? 0)) * (last - before)) break;
      corners.pop();
    }
    corners.push(samples);
  }
  return corners;
}

/** What a peer may take, and what each costs in slack. */
interface Candidates {
  readonly samples: Int32Array;
  readonly slack: Float64Array;
}

function within(slack: Float64Array, width: number): Candidates {
  const samples: number[] = [];
  for (let b = 0; b < slack.length; b++) if ((slack[b] ?? 0) <= width) samples.push(b);
  return pick(slack, samples);
}

const pick = (slack: Float64Array, samples: readonly number[]): Candidates => ({
  samples: Int32Array.from(samples),
  slack: Float64Array.from(samples, (b) => slack[b] ?? 0),
});

function widest(slacks: readonly Float64Array[]): number {
  let most = 0;
  for (const slack of slacks)
    for (const missed of slack) if (missed > most && missed < Number.POSITIVE_INFINITY) most = missed;
  return most;
}

/** Candidates of each peer, and between which sums the first peers' samples stay: entry i is before peer i. */
interface Course {
  readonly candidates: readonly Candidates[];
  readonly from: readonly number[];
  readonly to: readonly number[];
}

/** Sums from which the batch can still be reached; with too much work to do, thinned out and near the relaxed path. */
function courseOf(candidates: readonly Candidates[], path: readonly number[], batch: number, mostWork: number): Course {
  const whole = corridor(candidates, path, batch, Number.POSITIVE_INFINITY);
  let work = 0;
  for (const [peer, { samples }] of candidates.entries())
    work += samples.length * Math.max(0, (whole.to[peer] ?? 0) - (whole.from[peer] ?? 0) + 1);
  if (work <= mostWork) return whole;
  const side = Math.max(16, Math.floor(Math.sqrt(mostWork / candidates.length)));
  const fewer = candidates.map((all) => thin(all, side));
  return corridor(fewer, path, batch, Math.floor(side / 2));
}

function corridor(candidates: readonly Candidates[], path: readonly number[], batch: number, half: number): Course {
  let least = candidates.reduce((sum, { samples }) => sum + (samples[0] ?? 0), 0);
  let most = candidates.reduce((sum, { samples }) => sum + (samples.at(-1) ?? 0), 0);
  const from = [0];
  const to = [0];
  let [reachedFrom, reachedTo, along] = [0, 0, 0];
  for (const [peer, { samples }] of candidates.entries()) {
    const [low, high] = [samples[0] ?? 0, samples.at(-1) ?? 0];
    least -= low;
    most -= high;
    along += path[peer] ?? 0;
    reachedFrom = Math.max(reachedFrom + low, batch - most, along - half);
    reachedTo = Math.min(reachedTo + high, batch - least, along + half);
    from.push(reachedFrom);
    to.push(reachedTo);
  }
  return { candidates, from, to };
}

/** At most so many candidates: those of the least slack, and some from everywhere. */
function thin({ samples, slack }: Candidates, most: number): Candidates {
  if (samples.length <= most) return { samples, slack };
  const order = Array.from(samples.keys()).sort((a, b) => (slack[a] ?? 0) - (slack[b] ?? 0));
  const kept = new Set(order.slice(0, most / 2));
  const stride = (samples.length - 1) / (Math.floor(most / 2) - 1);
  for (let index = 0; index < most / 2; index++) kept.add(Math.min(samples.length - 1, Math.round(index * stride)));
  const indices = [...kept].sort((a, b) => a - b);
  return {
    samples: Int32Array.from(indices, (index) => samples[index] ?? 0),
    slack: Float64Array.from(indices, (index) => slack[index] ?? 0),
  };
}

/** Samples of each peer, of these candidates, whose sum is the batch and whose slacks add up to the least; or null. */
function cheapest({ candidates, from, to }: Course, batch: number): number[] | null {
  let costs = Float64Array.of(0);
  const taken: Int32Array[] = [];
  for (const [peer, { samples, slack }] of candidates.entries()) {
    const [origin = 0, start = 0, end = 0] = [from[peer], from[peer + 1], to[peer + 1]];
    if (end < start || samples.length === 0) return null;
    const next = new Float64Array(end - start + 1).fill(Number.POSITIVE_INFINITY);
    const choice = new Int32Array(next.length).fill(-1);
    for (let index = 0; index < samples.length; index++) {
      const size = samples[index] ?? 0;
      const cost = slack[index] ?? 0;
      const shift = origin + size - start;
      const last = Math.min(costs.length, next.length - shift);
      for (let sum = Math.max(0, -shift); sum < last; sum++) {
        const total = (costs[sum] ?? 0) + cost;
        if (total < (next[sum + shift] ?? 0)) {
          next[sum + shift] = total;
          choice[sum + shift] = size;
        }
      }
    }
    taken.push(choice);
    costs = next;
  }
  return trace(taken, from, batch);
}

function trace(taken: readonly Int32Array[], from: readonly number[], batch: number): number[] | null {
  const samples: number[] = [];
  let sum = batch;
  for (let peer = taken.length - 1; peer >= 0; peer--) {
    const size = taken[peer]?.[sum - (from[peer + 1] ?? 0)] ?? -1;
    if (size < 0) return null;
    samples.push(size);
    sum -= size;
  }
  return samples.reverse();
}
