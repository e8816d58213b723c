/**
 * Micro-batches of unequal peers who share one batch and one training state (Cephalo, ICS '25): what they cost each peer, and
 * which sizes make the slowest peer's time least. The problem is also what `shoal assign` reads. Everything in it was measured on
 * the peer itself; nothing is derived from a peak rate.
 */
import { z } from 'zod';
import { at, evenRanges, float, int, invariant, type Result, refusal, success, total, totalOf } from '../base.ts';
import {
  count,
  expecting,
  fields,
  isTooDeep,
  name,
  nonNegative,
  number,
  sentence,
  TOO_DEEP,
} from '../model/inputFields.ts';

/** More samples than this are no batch that a group shares in one step. */
const MOST_SAMPLES = 1_000_000;

/** Ms, GiB and a factor: more of them is a slip, and sums of such are no numbers any more. */
const MOST = 1e15;

const limited = (value: z.ZodNumber) =>
  value.refine((amount) => Math.abs(amount) <= MOST, { error: expecting(`at most ${MOST}`) });
const amount = limited(nonNegative);
const signed = limited(number('a number', () => true));
const atLeastOne = limited(number('a number of 1 or more', (value) => value >= 1));
const fraction = number('a number above 0 and at most 1', (value) => value > 0 && value <= 1);
const samples = number(
  `a positive integer up to ${MOST_SAMPLES}`,
  (value) => Number.isSafeInteger(value) && value > 0 && value <= MOST_SAMPLES,
);
const numbers = z.array(amount, { error: expecting('a list of numbers') });

const timeCurve = fields({ table: numbers, slope: amount, intercept: signed });

const sizingProblem = fields({
  globalBatch: samples,
  layers: count,
  stateGiB: amount,
  usableFraction: fraction,
  communicationGiB: amount,
  extraMicroBatchMs: amount,
  allGatherMs: amount,
  reduceScatterMs: amount,
  unevenFactor: atLeastOne,
  recompute: z.boolean({ error: expecting('true or false') }),
  peers: z
    .array(
      fields({
        id: name('a name'),
        memoryGiB: amount,
        forwardMs: timeCurve,
        backwardMs: timeCurve,
        activationGiB: fields({ table: numbers.min(1, { error: expecting('a list of one number or more') }) }),
      }),
      { error: expecting('a list of peers') },
    )
    .min(1, { error: expecting('a list of one peer or more') }),
});

/** Times are ms a layer for a micro-batch of m samples: `table[m−1]`, past it `slope·m + intercept`. */
export type SizingProblem = z.output<typeof sizingProblem>;

/** `fileName` opens every sentence. */
export function parseSizingProblem(json: unknown, fileName: string): Result<SizingProblem> {
  if (isTooDeep(json)) return refusal(`${fileName}: the problem ${TOO_DEEP}`);
  const parsed = sizingProblem.safeParse(json);
  if (!parsed.success) return refusal(`${fileName}: ${sentence(parsed.error.issues[0], 'the problem')}`);
  const problem = parsed.data;
  const fault = disagreement(problem);
  return fault === null ? success(problem) : refusal(`${fileName}: ${fault}`);
}

/** What is wrong although each field for itself is right. */
function disagreement({ globalBatch, peers }: SizingProblem): string | null {
  if (globalBatch < peers.length)
    return `globalBatch must be at least the number of peers (${peers.length}), a sample for each, not ${globalBatch}`;
  for (const [index, peer] of peers.entries()) {
    const first = peers.findIndex(({ id }) => id === peer.id);
    if (first !== index)
      return `peers[${index}].id must be a name of its own, not "${peer.id}" as peers[${first}].id is`;
    for (const pass of ['forwardMs', 'backwardMs'] as const) {
      const { table, slope, intercept } = peer[pass];
      const next = table.length + 1;
      // A fitted line may meet the axis below 0, as long as it is above where the table ends and it takes over.
      if (next <= globalBatch && slope * next + intercept < 0)
        return `peers[${index}].${pass} must be no negative time, not ${slope * next + intercept} ms for ${next} samples`;
    }
  }
  return null;
}

/** A byte, in GiB: sums of measured sizes are equal within it. */
const BYTE_GIB = 1e-9;

/** A quantity measured for micro-batches of 1, 2, … samples, and the line it follows past them. */
export interface Curve {
  readonly table: readonly number[];
  readonly slope: number;
  readonly intercept: number;
}

/** What all peers of the group pay alike. */
type GroupCosts = Pick<
  SizingProblem,
  'extraMicroBatchMs' | 'allGatherMs' | 'reduceScatterMs' | 'unevenFactor' | 'recompute'
>;

export interface PeerCosts {
  readonly id: string;
  /** Usable memory less the communication buffers. */
  readonly spaceGiB: number;
  readonly forwardMs: Curve;
  readonly backwardMs: Curve;
  readonly activationGiB: Curve;
  /** The largest micro-batch that fits beside no state, and beside an even share of it; 0: none, Infinity: every one. */
  readonly maxMicroBatch: number;
  readonly maxMicroBatchEvenState: number;
}

export const curveAt = ({ table, slope, intercept }: Curve, samples: number): number =>
  table[samples - 1] ?? slope * samples + intercept;

/** Entries of a steady slope say more than the first ones, in which fixed costs show. */
const SLOPE_ENTRIES = 5;

/** A measured table that goes on with the mean slope of its last entries; a single entry scales in proportion. */
export function extended(table: readonly number[], slopeEntries = SLOPE_ENTRIES): Curve {
  const tail = table.slice(-slopeEntries);
  const [first, last] = [at(tail, 0), at(tail, tail.length - 1)];
  const slope = tail.length > 1 ? (last - first) / (tail.length - 1) : last;
  return { table, slope, intercept: last - slope * table.length };
}

/**
 * What a micro-batch costs a peer: time and memory, as functions of its size (Cephalo, ICS '25). Two sizes are
 * decoupled. The batch follows speed (`peerTimeMs`), the state follows the memory that the batch leaves (`roomGiB`),
 * because every peer gathers every layer's parameters anyway, wherever they are kept.
 *
 * For l micro-batches of m samples, with F = l·forward(m) and B = l·backward(m) + (l − 1)·extra, a layer takes
 *   t = max(AG, F) + max(AG + RS, F + B)      (without recompute: max(AG, F) + max(AG + RS, B))
 * as gathering the parameters (AG) hides behind forward, and gathering and reducing behind backward. Both are slower by
 * `unevenFactor` where m leaves no room for an even share of the state. t never falls with l.
 */
export function peerCosts(problem: SizingProblem): PeerCosts[] {
  const { usableFraction, communicationGiB, stateGiB, peers } = problem;
  const evenGiB = stateGiB / peers.length;
  return peers.map(({ id, memoryGiB, forwardMs, backwardMs, activationGiB: { table } }) => {
    const spaceGiB = usableFraction * memoryGiB - communicationGiB;
    const activationGiB = extended(table);
    const maxMicroBatch = largestWithin(activationGiB, spaceGiB);
    const maxMicroBatchEvenState = largestWithin(activationGiB, spaceGiB - evenGiB);
    return { id, spaceGiB, forwardMs, backwardMs, activationGiB, maxMicroBatch, maxMicroBatchEvenState };
  });
}

/** What a micro-batch of so many samples leaves of a peer's memory for state; negative: it does not fit. */
export const roomGiB = ({ spaceGiB, activationGiB }: PeerCosts, samples: number): number =>
  spaceGiB - curveAt(activationGiB, samples);

/** Ms a layer for `microBatches` of `samples` each. */
export function peerTimeMs(group: GroupCosts, peer: PeerCosts, samples: number, microBatches: number): number {
  const uneven = samples > peer.maxMicroBatchEvenState ? group.unevenFactor : 1;
  const gather = group.allGatherMs * uneven;
  const reduce = group.reduceScatterMs * uneven;
  const forward = microBatches * curveAt(peer.forwardMs, samples);
  const backward = microBatches * curveAt(peer.backwardMs, samples) + (microBatches - 1) * group.extraMicroBatchMs;
  return Math.max(gather, forward) + Math.max(gather + reduce, (group.recompute ? forward : 0) + backward);
}

/** The most micro-batches of so many samples that a peer ends within a time, and no more than `limit`. */
export function microBatchesWithin(
  group: GroupCosts,
  peer: PeerCosts,
  samples: number,
  timeMs: number,
  limit: number,
): number {
  const uneven = samples > peer.maxMicroBatchEvenState ? group.unevenFactor : 1;
  const gather = group.allGatherMs * uneven;
  const exchange = gather + group.reduceScatterMs * uneven;
  if (gather + exchange > timeMs) return 0;
  const extra = group.extraMicroBatchMs;
  const forward = curveAt(peer.forwardMs, samples);
  const backward = curveAt(peer.backwardMs, samples) + extra + (group.recompute ? forward : 0);
  // Each sum of two maxima is one of four sums of a line in the number of micro-batches: all must hold.
  const bounds = [
    (timeMs - gather + extra) / backward,
    (timeMs - exchange) / forward,
    (timeMs + extra) / (forward + backward),
  ];
  let most = limit;
  for (const bound of bounds) if (bound < most) most = Math.max(0, Math.floor(bound));
  const holds = (microBatches: number) => peerTimeMs(group, peer, samples, microBatches) <= timeMs;
  // Rounding may put a bound one off.
  while (most < limit && holds(most + 1)) most++;
  while (most > 0 && !holds(most)) most--;
  return most;
}

function largestWithin(curve: Curve, spaceGiB: number): number {
  const fits = (samples: number) => curveAt(curve, samples) <= spaceGiB + BYTE_GIB;
  const { table, slope, intercept } = curve;
  const next = table.length + 1;
  if (slope <= 0) {
    if (slope < 0 || fits(next)) return Infinity;
  } else if (fits(next)) {
    const most = Math.floor((spaceGiB + BYTE_GIB - intercept) / slope);
    return fits(most + 1) ? most + 1 : fits(most) ? most : most - 1;
  }
  return table.findLastIndex((_, index) => fits(index + 1)) + 1;
}

/** The room that a peer has left when it takes b samples, b from 0 on; −Infinity where it cannot take b. */
export type RoomTable = Float64Array;

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
 *
 * The roomiest placement; with `enough`, the first one found that leaves so much, or none.
 */
export function roomiestPlacement(
  peers: readonly RoomTable[],
  batch: number,
  enough?: number,
  mostWork = MOST_WORK,
): PlacementSearch {
  const relaxed = relax(peers, batch);
  if (relaxed === null) return { placement: null, isProven: true };
  const { bound, slacks, path } = relaxed;
  const goal = enough === undefined ? -Infinity : enough - ROUNDING;
  if (bound < goal) return { placement: null, isProven: true };
  const widest = Math.max(
    ...slacks.map((own) => own.reduce((most, slack) => (Number.isFinite(slack) ? Math.max(most, slack) : most), 0)),
  );
  const reach = Math.min(bound - goal, widest);
  for (let width = reach * FIRST_WIDTH; ; ) {
    const { samples, isWhole } = cheapest(slacks, width + ROUNDING, path, batch, mostWork);
    const room = samples?.reduce((sum, taken, peer) => sum + float(at(peers, peer), taken), 0) ?? -Infinity;
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
function relax(peers: readonly RoomTable[], batch: number): Relaxed | null {
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
  let left = batch - total(path);
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
    let best = -Infinity;
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
function hull(rooms: RoomTable): number[] {
  const corners: number[] = [];
  for (let samples = 0; samples < rooms.length; samples++) {
    const room = float(rooms, samples);
    if (room === -Infinity) continue;
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
  const half = Math.floor(mostWork / totalOf(choices, ({ length }) => 2 * length));
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
    const next = new Float64Array(to - from + 1).fill(Infinity);
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

/** What the peers of a group share. */
interface Group extends GroupCosts {
  readonly globalBatch: number;
  readonly stateGiB: number;
}

/** The objective is exact up to this part of it; where a search was not exhaustive, no more than that is looked for. */
const PRECISION = 1e-10;
const ROUGH_PRECISION = 1e-4;

/** Micro-batches of each peer. */
export interface Sizing {
  readonly cuts: readonly Cut[];
  readonly objectiveMs: number;
}

/** How a peer's samples are cut: `count` micro-batches of `size` samples. */
interface Cut {
  readonly size: number;
  readonly count: number;
}

interface SizedGroup {
  /** In the order of the peers. */
  readonly sizing: Sizing;
  /** No sizing is faster than this; equal to the objective up to a billionth where the search was exhaustive. */
  readonly leastMs: number;
}

/**
 * Sizes the micro-batches of the peers of a group (Cephalo, ICS '25). Every peer i takes l_i micro-batches of m_i samples,
 * b_i = m_i·l_i ≥ 1, Σ b_i = batch; the slowest peer's time is to be least among all sizings that leave room for the
 * whole state.
 *
 * The question is turned round. Given a time T, each (peer, b) has one best micro-batch: the one of those
 * that end within T that leaves most room. A sizing within T exists exactly where the roomiest placement of the batch
 * (roomiestPlacement) has room for the state, and more time never hurts: so T is found by bisection, and each sizing found
 * brings T down to the time that it really takes.
 *
 * The best sizing of at least as many samples as peers, or a sentence with the GiB that are missing.
 */
export function sizeGroup(group: Group, peers: readonly PeerCosts[]): Result<SizedGroup> {
  invariant(peers.length > 0 && group.globalBatch >= peers.length, 'a group has a peer, and a sample for each');
  const roomiest = roomiestSizing(group, peers);
  const missing = missingGiB(group, peers, roomiest);
  if (roomiest === null || missing > BYTE_GIB) return refusal(shortage(group, peers, missing, roomiest !== null));
  const { sizing, leastMs } = fastest(group, peers, roomiest);
  return success({ sizing: quickest(group, peers, sizing), leastMs });
}

/** What each peer has left for state. */
export const roomsOf = (peers: readonly PeerCosts[], { cuts }: Sizing): number[] =>
  peers.map((peer, index) => Math.max(0, roomGiB(peer, at(cuts, index).size)));

/** The sizing that leaves most room in all, however long it takes; null where some peer can take no sample. */
function roomiestSizing(group: Group, peers: readonly PeerCosts[]): Sizing | null {
  const single = evenRanges(group.globalBatch, peers.length).map(([from, to]): Cut => ({ size: 1, count: to - from }));
  const smallest = peers.every((peer) => fits(peer, 1)) ? sizingOf(group, peers, single) : null;
  const isRoomiest = peers.every(
    ({ activationGiB: { slope, table } }) => slope >= 0 && table.every((own, _, [one = 0]) => own >= one),
  );
  if (isRoomiest) return smallest;
  return sizingWithin(group, peers, Infinity).sizing ?? smallest;
}

/** What the roomiest sizing lacks for the state; where none places the batch, what one peer lacks for one sample. */
function missingGiB({ stateGiB }: Group, peers: readonly PeerCosts[], roomiest: Sizing | null): number {
  if (roomiest !== null) return stateGiB - total(roomsOf(peers, roomiest));
  return Math.min(...peers.filter((peer) => !fits(peer, 1)).map((peer) => -roomGiB(peer, 1)));
}

function shortage({ stateGiB }: Group, peers: readonly PeerCosts[], missing: number, isPlaced: boolean): string {
  const amount = `no sizing fits, ${Number(missing.toFixed(9))} GiB of usable memory are missing`;
  return isPlaced
    ? `${amount}: the state takes ${stateGiB}, these peers leave at most ${Number((stateGiB - missing).toFixed(9))} beside the smallest micro-batches`
    : `${amount}: so much more would let one more of ${peers.length} peers hold a single sample, and every peer takes part`;
}

function fastest(group: Group, peers: readonly PeerCosts[], roomiest: Sizing): SizedGroup {
  let leastMs = Math.max(...peers.map((peer) => oneMicroBatchMs(group, peer)));
  let low = leastMs;
  let precision = PRECISION;
  const attempt = (timeMs: number): Sizing | null => {
    const { sizing, isProven } = sizingWithin(group, peers, timeMs, group.stateGiB);
    if (sizing !== null) return sizing;
    low = timeMs;
    if (isProven) leastMs = timeMs;
    else precision = ROUGH_PRECISION;
    return null;
  };
  // From below: the more time, the more sizings there are to look at.
  let best: Sizing | null = null;
  for (let timeMs = low; best === null && timeMs > 0 && timeMs < roomiest.objectiveMs; timeMs *= 2)
    best = attempt(timeMs);
  let sizing = best ?? roomiest;
  while (sizing.objectiveMs - low > precision * sizing.objectiveMs) {
    sizing = attempt((low + sizing.objectiveMs) / 2) ?? sizing;
  }
  return { sizing, leastMs: Math.min(leastMs, sizing.objectiveMs) };
}

/** A peer's time for the fastest single micro-batch. */
function oneMicroBatchMs(group: Group, peer: PeerCosts): number {
  let least = Infinity;
  for (let size = 1; size <= Math.min(peer.maxMicroBatch, group.globalBatch); size++)
    if (fits(peer, size)) least = Math.min(least, peerTimeMs(group, peer, size, 1));
  return least;
}

/** A sizing with so much room for state in which no peer takes longer; without `stateGiB`, the roomiest. */
function sizingWithin(
  group: Group,
  peers: readonly PeerCosts[],
  timeMs: number,
  stateGiB?: number,
): { readonly sizing: Sizing | null; readonly isProven: boolean } {
  // Everybody else takes at least one.
  const most = group.globalBatch - peers.length + 1;
  const offers = peers.map((peer) => offerWithin(group, peer, timeMs, most));
  const { placement, isProven } = roomiestPlacement(
    offers.map(({ rooms }) => rooms),
    group.globalBatch,
    stateGiB,
  );
  if (placement === null) return { sizing: null, isProven };
  const cuts = placement.samples.map((samples, peer): Cut => {
    const size = offers[peer]?.sizes[samples] ?? 1;
    return { size, count: samples / size };
  });
  return { sizing: sizingOf(group, peers, cuts), isProven };
}

/** For each number of samples that a peer ends within a time: its roomiest micro-batch, and the room left. */
interface Offer {
  readonly rooms: RoomTable;
  readonly sizes: Int32Array;
}

function offerWithin(group: Group, peer: PeerCosts, timeMs: number, most: number): Offer {
  const measured = Math.max(peer.forwardMs.table.length, peer.backwardMs.table.length);
  const counts: number[] = [];
  let end = 0;
  for (let size = 1; size <= Math.min(peer.maxMicroBatch, most); size++) {
    const limit = fits(peer, size) ? Math.floor(most / size) : 0;
    const count = microBatchesWithin(group, peer, size, timeMs, limit);
    // On its line a peer only gets slower.
    if (count === 0 && limit > 0 && size > measured) break;
    counts.push(count);
    end = Math.max(end, size * count);
  }
  const rooms = new Float64Array(end + 1).fill(-Infinity);
  const sizes = new Int32Array(end + 1);
  for (const [index, count] of counts.entries()) {
    const size = index + 1;
    const room = Math.max(0, roomGiB(peer, size));
    for (let samples = size; samples <= size * count; samples += size) {
      if (room <= float(rooms, samples)) continue;
      rooms[samples] = room;
      sizes[samples] = size;
    }
  }
  return { rooms, sizes };
}

/**
 * The same samples in fewer, larger micro-batches where there is room for them: of the cuts that make no peer slower,
 * the fastest ones first, and smaller micro-batches where they cost least time for the room that they leave.
 */
function quickest(group: Group, peers: readonly PeerCosts[], sizing: Sizing): Sizing {
  const choices = peers.map((peer, index) => {
    const { size, count } = at(sizing.cuts, index);
    return cutsOf(group, peer, size * count).filter(({ timeMs }) => timeMs <= sizing.objectiveMs);
  });
  const chosen = choices.map((cuts) => cuts.reduce((best, cut) => (cut.timeMs < best.timeMs ? cut : best)));
  let lacking = group.stateGiB - totalOf(chosen, ({ room }) => room);
  while (lacking > BYTE_GIB) {
    let exchange: { peer: number; cut: TimedCut; worth: number } | null = null;
    for (const [peer, now] of chosen.entries())
      for (const cut of choices[peer] ?? []) {
        const worth = (cut.room - now.room) / Math.max(cut.timeMs - now.timeMs, Number.MIN_VALUE);
        if (cut.room > now.room && worth > (exchange?.worth ?? 0)) exchange = { peer, cut, worth };
      }
    if (exchange === null) return sizing; // lacking by rounding only
    lacking -= exchange.cut.room - at(chosen, exchange.peer).room;
    chosen[exchange.peer] = exchange.cut;
  }
  return sizingOf(group, peers, chosen);
}

interface TimedCut extends Cut {
  readonly timeMs: number;
  readonly room: number;
}

/** Every way to cut a peer's samples into equal micro-batches that fit. */
function cutsOf(group: Group, peer: PeerCosts, samples: number): TimedCut[] {
  const cuts: TimedCut[] = [];
  for (let size = 1; size <= samples; size++) {
    if (samples % size !== 0 || !fits(peer, size)) continue;
    const count = samples / size;
    cuts.push({ size, count, timeMs: peerTimeMs(group, peer, size, count), room: roomGiB(peer, size) });
  }
  return cuts;
}

const sizingOf = (group: Group, peers: readonly PeerCosts[], cuts: readonly Cut[]): Sizing => ({
  cuts: cuts.map(({ size, count }) => ({ size, count })),
  objectiveMs: Math.max(
    ...peers.map((peer, index) => peerTimeMs(group, peer, at(cuts, index).size, at(cuts, index).count)),
  ),
});

const fits = (peer: PeerCosts, size: number): boolean => roomGiB(peer, size) >= -BYTE_GIB;

/** A larger batch is shared out by so many samples at a time that there are at most so many of them. */
const MOST_UNITS = 512;

/** Samples that go together; null: no number of them makes up the batch. */
export function unitOf(samples: number): number | null {
  for (let unit = Math.ceil(samples / MOST_UNITS); unit <= MOST_UNITS; unit++) if (samples % unit === 0) return unit;
  return null;
}

/**
 * A state over peers with unequal room so that the largest share is least, by a common water level: every peer takes the
 * level, or its whole room where that is less. All their rooms where these do not hold the state.
 */
export function levelShares(rooms: readonly number[], state: number): number[] {
  let left = state;
  let peers = rooms.length;
  for (const room of rooms.toSorted((a, b) => a - b)) {
    const level = left / peers;
    if (room >= level) return rooms.map((own) => Math.min(own, level));
    left -= room;
    peers--;
  }
  return [...rooms];
}
