/**
 * Peers that each hold the whole model: Cephalo's sizing with their measured curves, each its own micro-batch. Under 1F1B
 * such a peer has one micro-batch in flight, so its memory is a function of that one's size, as the sizing takes it.
 */
import { at } from '../base.ts';
import { parameters } from '../model/model.ts';
import type { Gathered } from '../plan/plan.ts';
import type { ClusterCosts, PlannedPeer, StageShape } from './clusterCosts.ts';
import { sparedBytes } from './gathering.ts';
import { sizeGroup } from './groupSizing.ts';
import { extended, type PeerCosts } from './peerCosts.ts';

const GIB = 2 ** 30;
/** Sizes whose memory is worked out; past them it grows by a line. */
const MEMORY_ENTRIES = 3;

/** A larger batch is shared out by so many samples at a time that there are at most so many of them. */
const MOST_UNITS = 512;

/** Samples that go together; null: no number of them makes up the batch. */
function unitOf(samples: number): number | null {
  for (let unit = Math.ceil(samples / MOST_UNITS); unit <= MOST_UNITS; unit++) if (samples % unit === 0) return unit;
  return null;
}

/** Their micro-batches one peer after the other. */
export function sizedMicroBatches(
  costs: ClusterCosts,
  places: readonly number[],
  shape: StageShape,
  gathered: Gathered | 0,
): { readonly sizes: Int32Array; readonly laneOf: Int32Array; readonly largest: Int32Array } | null {
  const peers = places.map((place) => at(costs.peers, place));
  const unit = unitOf(costs.batch.samples);
  if (unit === null || peers.length === 0) return null;
  const globalBatch = costs.batch.samples / unit;
  if (globalBatch < peers.length) return null;
  const stateGiB = (parameters(costs.model) * (peers.length > 1 ? 16 : 8)) / GIB;
  // With its layers gathered a peer has less of them whole; its share of the state takes as much an element as it does else.
  const spared = (peer: PlannedPeer): number => (gathered ? sparedBytes(costs, shape, gathered, peer.compute) : 0);
  const group = {
    globalBatch,
    stateGiB,
    ...{ extraMicroBatchMs: 0, allGatherMs: 0, reduceScatterMs: 0, unevenFactor: 1, recompute: false },
  };
  const sized = sizeGroup(
    group,
    peers.map((peer) => laneCosts(costs, { peer, shape, unit }, stateGiB / peers.length, spared(peer))),
  );
  if (!sized.ok) return null;
  const { cuts } = sized.value.sizing;
  const largest = Int32Array.from(cuts, ({ size }) => size * unit);
  const laneOf = Int32Array.from(cuts.flatMap(({ count }, lane) => Array.from({ length: count }, () => lane)));
  const sizes = laneOf.map((lane) => at(largest, lane));
  return { sizes, laneOf, largest };
}

interface Lane {
  readonly peer: PlannedPeer;
  readonly shape: StageShape;
  readonly unit: number;
}

/** By units of samples. */
function laneCosts(costs: ClusterCosts, { peer, shape, unit }: Lane, evenGiB: number, sparedBytes: number): PeerCosts {
  const { samples } = costs.batch;
  const entries = Math.max(peer.forward.table.length, peer.backward.table.length) + 1;
  const table = (count: number, of: (size: number) => number) =>
    extended(
      Array.from({ length: count }, (_, index) => of((index + 1) * unit)),
      2,
    );
  const activationGiB = table(MEMORY_ENTRIES, (samples) => {
    const bytes = costs.memory.stageBytes(shape, { samples, slots: 1, recomputed: 0 }, peer.compute);
    return (bytes - sparedBytes + costs.extraBytes(peer, shape.layers, { samples, slots: 1, recomputed: 0 })) / GIB;
  });
  const spaceGiB = peer.memoryBytes / GIB;
  const largest = (room: number): number =>
    activationGiB.slope > 0
      ? Math.max(0, Math.min(samples / unit, Math.floor((room - activationGiB.intercept) / activationGiB.slope)))
      : Number.POSITIVE_INFINITY;
  return {
    id: peer.id,
    spaceGiB,
    forwardMs: table(entries, (size) => 1000 * costs.forwardSeconds(peer, shape, size)),
    backwardMs: table(entries, (size) => 1000 * costs.backwardSeconds(peer, shape, size)),
    activationGiB,
    maxMicroBatch: largest(spaceGiB),
    maxMicroBatchEvenState: largest(spaceGiB - evenGiB),
  };
}
