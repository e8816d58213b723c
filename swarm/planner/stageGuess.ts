/** What a stage's peers do together, guessed: how long a micro-batch and all of them take, and whether they have room. */
import type { Compute } from '../precision.ts';
import type { ScheduleName } from '../schedule/action.ts';
import type { ClusterCosts, StageShape } from './clusterCosts.ts';

/** Up to so many lanes whole micro-batches are dealt; more of them are taken as one peer, and half a micro-batch each. */
const MOST_DEALT = 12;

/** Of one layer. */
export interface Lanes {
  readonly count: number;
  /** So many equal lanes would give each as much as the busiest one has. */
  readonly even: number;
  /** Seconds of one micro-batch there and back at the lane that it comes to, on average. */
  readonly through: number;
  /** Seconds until all of them are done. */
  readonly whole: number;
  /** Of each peer, the part of the micro-batches that it carries. */
  readonly shares: readonly number[];
}

export function lanesOf(costs: ClusterCosts, group: readonly number[], count: number, samples: number): Lanes {
  const seconds = group.map((place) => {
    const peer = costs.peers[place];
    return peer ? Math.max(1e-12, costs.passSeconds(peer, samples)) : Number.POSITIVE_INFINITY;
  });
  const [only] = seconds;
  if (seconds.length === 1 && only !== undefined)
    return { count: 1, even: 1, through: only, whole: count * only, shares: [1] };
  const speed = seconds.reduce((sum, own) => sum + 1 / own, 0);
  const shares = seconds.map((own) => 1 / own / speed);
  const whole = dealt(seconds, count, count / speed);
  return { count: group.length, even: 1 / Math.max(...shares), through: group.length / speed, whole, shares };
}

/** Whole micro-batches, each to the peer that would end it first. */
function dealt(seconds: readonly number[], count: number, least: number): number {
  if (seconds.length > MOST_DEALT) return least * (1 + (seconds.length - 1) / (2 * count));
  const counts = seconds.map((own) => Math.floor(least / own));
  let left = count - counts.reduce((sum, own) => sum + own, 0);
  let end = 0;
  for (const [at, own] of seconds.entries()) end = Math.max(end, (counts[at] ?? 0) * own);
  for (; left > 0; left--) {
    let best = 0;
    let first = Number.POSITIVE_INFINITY;
    for (const [at, own] of seconds.entries()) {
      const ends = ((counts[at] ?? 0) + 1) * own;
      if (ends < first) [best, first] = [at, ends];
    }
    counts[best] = (counts[best] ?? 0) + 1;
    end = Math.max(end, first);
  }
  return end;
}

export interface Load {
  /** Of a micro-batch. */
  readonly samples: number;
  /** Micro-batches that all lanes have in flight at most. */
  readonly inFlight: number;
  /** Bytes of a stage that each of them need not keep, where they gather it; absent: none. */
  readonly spared?: (shape: StageShape, compute: Compute | null) => number;
}

/**
 * Micro-batches that all lanes of a stage have in flight, where the busiest lane of the widest stage has one in so many,
 * `width`. The last stage runs each backward right after its forward.
 */
export function inFlightAt(
  schedule: ScheduleName,
  stages: number,
  stage: number,
  count: number,
  width: number,
): number {
  if (schedule === 'gpipe') return count;
  return stage === stages - 1 ? 1 : Math.min(count, Math.ceil((stages - stage) * width));
}

/** Bytes that each peer has left beside a stage, whose layers are all recomputed, or none; less than 0: what it lacks. */
export function rooms(
  costs: ClusterCosts,
  group: readonly number[],
  { samples, inFlight, spared = () => 0 }: Load,
): (shape: StageShape, isRecomputed: boolean) => number[] {
  const speedOf = (place: number): number => costs.speeds[place] ?? 0;
  const memory = group.map((place) => costs.peers[place]?.memoryBytes ?? 0);
  const computes = group.map((place) => costs.peers[place]?.compute ?? null);
  const speed = group.reduce((sum, place) => sum + speedOf(place), 0);
  const slots = group.map((place) => Math.max(1, Math.ceil((inFlight * speedOf(place)) / speed)));
  return (shape, isRecomputed) => {
    const sizeOf = (compute: Compute | null) => {
      const { fixed, slot } = costs.memory.guessedSize(shape, samples, isRecomputed ? shape.layers : 0, compute);
      return { fixed: fixed - spared(shape, compute), slot };
    };
    // Mostly all are alike.
    const [alike = null] = computes;
    const size = sizeOf(alike);
    return memory.map((bytes, at) => {
      const compute = computes[at] ?? null;
      const { fixed, slot } = compute === alike ? size : sizeOf(compute);
      return bytes - fixed - (slots[at] ?? 0) * slot;
    });
  };
}

/** Bytes that peers lack for a stage, each for itself and all of them together for its state; less than 0: what is left. */
export function shortage(
  costs: ClusterCosts,
  group: readonly number[],
  load: Load,
): (shape: StageShape, stateBytes: number, isRecomputed: boolean) => number {
  const roomsFor = rooms(costs, group, load);
  return (shape, stateBytes, isRecomputed) => {
    let missing = 0;
    let room = 0;
    for (const left of roomsFor(shape, isRecomputed)) {
      if (left < 0) missing -= left;
      else room += left;
    }
    return missing > 0 ? missing + Math.max(0, stateBytes - room) : stateBytes - room;
  };
}
