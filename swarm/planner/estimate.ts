/**
 * A guess at a draft's step without simulating it, and with it the layers of each stage: Alpa's formula, a stage of
 * several peers being as fast as all of them together. What does not fit the peers' memory, with every layer recomputed,
 * takes forever.
 */
import type { ScheduleName } from '../schedule/action.ts';
import type { ClusterCosts, PlannedPeer, StageShape } from './clusterCosts.ts';
import type { Draft } from './draft.ts';
import type { Groups } from './grouping.ts';
import { layerCut } from './layerCut.ts';

const ELEMENT_BYTES = 4;
/** Moments and sums of an element whose state is shared, moments alone where it is not. */
const SHARED_STATE_BYTES = 16;
const OWN_STATE_BYTES = 8;

export interface Estimated {
  readonly draft: Draft;
  readonly seconds: number;
  /** What the peers lack for it; 0: it fits, as far as can be seen here. */
  readonly missingBytes: number;
}

export function estimate(
  costs: ClusterCosts,
  groups: Groups,
  microBatches: number | 'sized',
  schedule: ScheduleName,
): Estimated | null {
  const stages = groups.map((group) => group.flatMap((place) => costs.peers[place] ?? []));
  const batches = microBatches === 'sized' ? costs.batch.samples : microBatches;
  const samples = Math.ceil(costs.batch.samples / batches);
  if (stages.some((members) => members.length > batches || members.length === 0)) return null;
  const shape = (stage: number, layers: number): StageShape => ({
    first: stage === 0,
    last: stage === stages.length - 1,
    layers,
  });
  const exchange = groups.map((group) => exchangeOf(costs, group));
  const elements = (stage: number, layers: number): number => stageElements(costs, shape(stage, layers));
  const compute = (stage: number, layers: number): number =>
    togetherSeconds(costs, stages[stage] ?? [], shape(stage, layers), samples) +
    (elements(stage, layers) * (exchange[stage] ?? 0)) / batches;
  const missing = (stage: number, layers: number): number => {
    const pipeline = { schedule, batches, after: stages.length - stage };
    return missingBytes(costs, stages[stage] ?? [], shape(stage, layers), samples, pipeline);
  };
  const { layers } = costs.model;
  const fitting = layerCut(stages.length, layers, batches, (stage, count) =>
    missing(stage, count) > 0 ? Number.POSITIVE_INFINITY : compute(stage, count),
  );
  const cut = fitting ?? layerCut(stages.length, layers, 1, missing);
  if (cut === null) return null;
  const draft: Draft = { groups, layers: cut.layers, microBatches, schedule };
  if (fitting === null) return { draft, seconds: Number.POSITIVE_INFINITY, missingBytes: cut.seconds };
  const slowest = Math.max(...cut.layers.map((count, stage) => compute(stage, count)));
  const hops = stages.slice(1).map((members, stage) => hopSeconds(costs, stages[stage] ?? [], members, samples));
  const through = hops.reduce((sum, hop) => sum + 2 * hop.latency + 2 * hop.seconds, 0);
  const wire = Math.max(slowest, ...hops.map(({ seconds }) => seconds));
  return { draft, seconds: cut.seconds + through + (batches - 1) * (wire - slowest), missingBytes: 0 };
}

function togetherSeconds(
  costs: ClusterCosts,
  members: readonly PlannedPeer[],
  shape: StageShape,
  samples: number,
): number {
  const speed = members.reduce((sum, peer) => {
    const seconds = costs.forwardSeconds(peer, shape, samples) + costs.backwardSeconds(peer, shape, samples);
    return sum + 1 / Math.max(1e-12, seconds);
  }, 0);
  return 1 / speed;
}

function stageElements({ model }: ClusterCosts, { first, last, layers }: StageShape): number {
  const of = (name: string): number => model.blocks.find((block) => block.name === name)?.elements ?? 0;
  return layers * of('layer.0') + (first ? of('embedding') : 0) + (last ? of('head') : 0);
}

/** Of each group asked for so far: every size and schedule asks again. */
const known = new WeakMap<ClusterCosts, WeakMap<readonly number[], number>>();

function exchangeOf(costs: ClusterCosts, group: readonly number[]): number {
  const own = known.get(costs) ?? new WeakMap<readonly number[], number>();
  known.set(costs, own);
  const found =
    own.get(group) ??
    exchangeSecondsPerElement(
      costs,
      group.flatMap((place) => costs.peers[place] ?? []),
    );
  own.set(group, found);
  return found;
}

/** Slices and values of an element, spread over members as equals. */
function exchangeSecondsPerElement(costs: ClusterCosts, members: readonly PlannedPeer[]): number {
  const share = 1 / members.length;
  const elsewhere = (1 - share) * 2 * ELEMENT_BYTES;
  let most = 0;
  for (const peer of members) {
    most = Math.max(most, elsewhere / peer.upload, elsewhere / peer.download);
    for (const other of members) {
      const rate = other === peer ? null : costs.link(peer.id, other.id).bytesPerSecond;
      if (rate !== null) most = Math.max(most, (2 * share * ELEMENT_BYTES) / rate);
    }
  }
  return most;
}

/** A micro-batch from one group to the next, its lanes side by side. */
function hopSeconds(
  costs: ClusterCosts,
  from: readonly PlannedPeer[],
  to: readonly PlannedPeer[],
  samples: number,
): { readonly latency: number; readonly seconds: number } {
  let latency = 0;
  let rate = 0;
  for (const [index, peer] of from.entries()) {
    const other = to[index % to.length];
    if (!other) continue;
    const link = costs.link(peer.id, other.id);
    latency = Math.max(latency, link.latencySeconds);
    rate += Math.min(link.bytesPerSecond ?? Number.POSITIVE_INFINITY, peer.upload, other.download);
  }
  return { latency, seconds: (samples * costs.sampleBytes) / rate };
}

interface Pipeline {
  readonly schedule: ScheduleName;
  readonly batches: number;
  /** Stages from this one to the last. */
  readonly after: number;
}

/** What members lack for a stage with all layers recomputed, and all of them together for its state. */
function missingBytes(
  costs: ClusterCosts,
  members: readonly PlannedPeer[],
  shape: StageShape,
  samples: number,
  { schedule, batches, after }: Pipeline,
): number {
  const speeds = members.map((peer) => 1 / Math.max(1e-12, costs.slowness(peer)));
  const whole = speeds.reduce((sum, speed) => sum + speed, 0);
  const size = costs.memory.stageSize(shape, samples, shape.layers);
  let missing = 0;
  let room = 0;
  for (const [index, peer] of members.entries()) {
    const carried = Math.max(1, Math.ceil((batches * (speeds[index] ?? 0)) / whole));
    const slots = schedule === '1f1b' ? Math.min(carried, after) : carried;
    const left = peer.memoryBytes - size.fixed - slots * size.slot;
    if (left < 0) missing -= left;
    else room += left;
  }
  const state = stageElements(costs, shape) * (members.length > 1 ? SHARED_STATE_BYTES : OWN_STATE_BYTES);
  return missing + Math.max(0, state - room);
}
