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
import { at as entry } from '../base.ts';
import type { SizingProblem } from './sizingProblem.ts';

/** A byte, in GiB: sums of measured sizes are equal within it. */
export const BYTE_GIB = 1e-9;

/** A quantity measured for micro-batches of 1, 2, … samples, and the line it follows past them. */
export interface Curve {
  readonly table: readonly number[];
  readonly slope: number;
  readonly intercept: number;
}

/** What all peers of the group pay alike. */
export type GroupCosts = Pick<
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

export const at = ({ table, slope, intercept }: Curve, samples: number): number =>
  table[samples - 1] ?? slope * samples + intercept;

/** Entries of a steady slope say more than the first ones, in which fixed costs show. */
const SLOPE_ENTRIES = 5;

/** A measured table that goes on with the mean slope of its last entries; a single entry scales in proportion. */
export function extended(table: readonly number[], slopeEntries = SLOPE_ENTRIES): Curve {
  const tail = table.slice(-slopeEntries);
  const [first, last] = [entry(tail, 0), entry(tail, tail.length - 1)];
  const slope = tail.length > 1 ? (last - first) / (tail.length - 1) : last;
  return { table, slope, intercept: last - slope * table.length };
}

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
  spaceGiB - at(activationGiB, samples);

/** Ms a layer for `microBatches` of `samples` each. */
export function peerTimeMs(group: GroupCosts, peer: PeerCosts, samples: number, microBatches: number): number {
  const uneven = samples > peer.maxMicroBatchEvenState ? group.unevenFactor : 1;
  const gather = group.allGatherMs * uneven;
  const reduce = group.reduceScatterMs * uneven;
  const forward = microBatches * at(peer.forwardMs, samples);
  const backward = microBatches * at(peer.backwardMs, samples) + (microBatches - 1) * group.extraMicroBatchMs;
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
  const forward = at(peer.forwardMs, samples);
  const backward = at(peer.backwardMs, samples) + extra + (group.recompute ? forward : 0);
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
  const fits = (samples: number) => at(curve, samples) <= spaceGiB + BYTE_GIB;
  const { table, slope, intercept } = curve;
  const next = table.length + 1;
  if (slope <= 0) {
    if (slope < 0 || fits(next)) return Number.POSITIVE_INFINITY;
  } else if (fits(next)) {
    const most = Math.floor((spaceGiB + BYTE_GIB - intercept) / slope);
    return fits(most + 1) ? most + 1 : fits(most) ? most : most - 1;
  }
  return table.findLastIndex((_, index) => fits(index + 1)) + 1;
}
