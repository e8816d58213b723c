/**
 * What a stage and a hop certainly take, whatever the order and the placement of state: what branch and bound goes by
 * (exhaustive.ts). Each number depends on a set of peers and a few small numbers alone, so that it is worked out once
 * for all the plans in which that set stands there.
 */
import { total } from '../base.ts';
import type { ClusterCosts, PlannedPeer, StageShape } from '../planner/clusterCosts.ts';

const ELEMENT_BYTES = 4;

/** Seconds. */
interface StageBound {
  /** A micro-batch at the fastest member. */
  readonly forward: number;
  readonly backward: number;
  /** All that the busiest member computes, and the one with least to do. */
  readonly busiest: number;
  readonly idlest: number;
  /** Gradient slices, at the member that is longest with them, and new values. */
  readonly slices: number;
  readonly values: number;
}

interface HopBound {
  readonly forward: number;
  readonly backward: number;
}

export interface ClusterBounds {
  readonly microBatches: number;
  readonly stages: number;
  /** Null where a member would have nothing to do: a smaller group does the same. */
  readonly ofStage: (group: number, stage: number, layers: number) => StageBound | null;
  /** From the group of the stage before. */
  readonly ofHop: (before: number, group: number, stage: number) => HopBound;
}

/** Of plans with so many micro-batches and stages; groups are bits of places. */
export function clusterBounds(costs: ClusterCosts, microBatches: number, stages: number): ClusterBounds {
  const size = Math.floor(costs.batch.samples / microBatches);
  const isEven = size * microBatches === costs.batch.samples;
  const knownStages = new Map<number, StageBound | null>();
  const knownHops = new Map<number, HopBound>();
  const members = (group: number): PlannedPeer[] => placesIn(group).flatMap((place) => costs.peers[place] ?? []);
  const groups = 2 ** costs.peers.length;
  /** Stages that this one hands to: a peer's caps are shared out over these at least. */
  const neighbours = (stage: number): number => (stage > 0 ? 1 : 0) + (stage < stages - 1 ? 1 : 0);
  return {
    microBatches,
    stages,
    ofStage(group, stage, layers) {
      const shape: StageShape = { first: stage === 0, last: stage === stages - 1, layers };
      const key = ((layers * 2 + (shape.first ? 1 : 0)) * 2 + (shape.last ? 1 : 0)) * groups + group;
      const known = knownStages.get(key);
      if (known !== undefined) return known;
      const loads = dealt(costs, members(group), shape, size, microBatches);
      const isWhole = loads !== null && (!isEven || loads.idlest > 0);
      const found = isWhole ? { ...loads, ...exchanged(costs, placesIn(group), elementsOf(costs, shape)) } : null;
      knownStages.set(key, found);
      return found;
    },
    ofHop(before, group, stage) {
      const shared = [neighbours(stage - 1), neighbours(stage)] as const;
      const key = ((shared[0] * 3 + shared[1]) * groups + before) * groups + group;
      const known = knownHops.get(key);
      if (known !== undefined) return known;
      const bytes = size * costs.sampleBytes;
      const [one, other] = [placesIn(before), placesIn(group)];
      const found = {
        forward: nearest(costs, one, other, bytes, shared),
        backward: nearest(costs, other, one, bytes, [shared[1], shared[0]]),
      };
      knownHops.set(key, found);
      return found;
    },
  };
}

/** Equal micro-batches, each to the member that would end it first: no deal has its busiest member end earlier. */
function dealt(
  costs: ClusterCosts,
  peers: readonly PlannedPeer[],
  shape: StageShape,
  size: number,
  microBatches: number,
): Pick<StageBound, 'forward' | 'backward' | 'busiest' | 'idlest'> | null {
  if (peers.length > microBatches) return null;
  const forwards = peers.map((peer) => costs.forwardSeconds(peer, shape, size));
  const backwards = peers.map((peer) => costs.backwardSeconds(peer, shape, size));
  const loads = peers.map(() => 0);
  for (let left = microBatches; left > 0; left--) {
    const ends = loads.map((load, at) => load + (forwards[at] ?? 0) + (backwards[at] ?? 0));
    const first = ends.indexOf(Math.min(...ends));
    loads[first] = ends[first] ?? 0;
  }
  return {
    forward: Math.min(...forwards),
    backward: Math.min(...backwards),
    busiest: Math.max(...loads),
    idlest: Math.min(...loads),
  };
}

function exchanged(costs: ClusterCosts, places: readonly number[], elements: number) {
  if (places.length === 1) return { slices: 0, values: 0 };
  const links = places.map((place) => places.flatMap((other) => (other === place ? [] : [costs.linkAt(place, other)])));
  const latency = Math.min(...links.flat().map(({ latencySeconds }) => latencySeconds));
  const rates = (cap: 'upload' | 'download'): number[] =>
    places.map((place, at) =>
      Math.min(
        costs.peers[place]?.[cap] ?? Infinity,
        Math.max(...(links[at] ?? []).map(({ bytesPerSecond }) => bytesPerSecond ?? Infinity)),
      ),
    );
  const bytes = elements * ELEMENT_BYTES;
  return {
    slices: latency + bytes * leastMissing(rates('upload')),
    values: latency + bytes * leastMissing(rates('download')),
  };
}

/**
 * However a state is shared out, r_i to each, somebody carries the 1 − r_i that it has not for so long: the least over
 * all shares of max (1 − r_i) / rate_i. That is the least λ with Σ max(0, 1 − λ·rate_i) ≤ 1; the fastest, for whom λ is
 * long enough to carry everything, need no share.
 */
function leastMissing(rates: readonly number[]): number {
  const slowest = rates.filter(Number.isFinite).sort((a, b) => a - b);
  for (; slowest.length > 1; slowest.pop()) {
    const least = (slowest.length - 1) / total(slowest);
    if (least * (slowest.at(-1) ?? 0) <= 1) return least;
  }
  return 0;
}

const elementsOf = ({ model }: ClusterCosts, { first, last, layers }: StageShape): number => {
  const of = (name: string): number => model.blocks.find((block) => block.name === name)?.elements ?? 0;
  return layers * of('layer.0') + (first ? of('embedding') : 0) + (last ? of('head') : 0);
};

/** A message over the best link from one of these to one of those. */
function nearest(
  costs: ClusterCosts,
  from: readonly number[],
  to: readonly number[],
  bytes: number,
  [sending, receiving]: readonly [number, number],
): number {
  let least = Infinity;
  for (const a of from)
    for (const b of to) {
      const { latencySeconds, bytesPerSecond } = costs.linkAt(a, b);
      const rate = Math.min(
        bytesPerSecond ?? Infinity,
        (costs.peers[a]?.upload ?? 0) / sending,
        (costs.peers[b]?.download ?? 0) / receiving,
      );
      least = Math.min(least, latencySeconds + bytes / rate);
    }
  return least;
}

/** The places that a number's bits stand for. */
export function placesIn(group: number): number[] {
  const places: number[] = [];
  for (let place = 0; group >> place > 0; place++) if ((group >> place) & 1) places.push(place);
  return places;
}
