/**
 * Updates on a GPU and in its donor's main memory at the same time (after Deep Optimizer States, Maurya et al., Middleware
 * '24, whose optimizer also goes by parts on both). Of the k elements that a peer keeps, with s seconds an element for the
 * sum in main memory, c for AdamW there and g for AdamW on the GPU, x in main memory take
 *   t(x) = s·x + max(g·(k − x), c·x)
 * which falls until both end together, at x = k·g/(g + c), where g > s; where g is no more than s nothing is gained by the
 * first one. Of c·x the next step's first forward hides up to its own time h (hostUpdates.ts), so that with all of it hidden
 * both end together at x = (k·g + h)/(g + c). What lies there for want of room stays there. A step has one slowest peer before
 * its commit and one after it, so that of all peers' cuts those stay without which it is longer.
 */
import type { PeerId } from '../base.ts';
import { hostBytes } from '../memory/memory.ts';
import type { Plan } from '../plan/plan.ts';
import type { ClusterCosts, PlannedPeer } from './clusterCosts.ts';
import { memoryWithin } from './draft.ts';
import { forecast, shapeOf } from './forecast.ts';
import { HOST_ELEMENT_BYTES, moreInMainMemory } from './mainMemory.ts';

/** A step that is not shorter by so much is not worth what comes and goes over the bus. */
const LEAST_GAIN = 0.005;
/** Of more peers all cuts stay, or none. */
const MOST_TRIED = 16;

/**
 * Elements of the `kept` ones that lie in main memory where both updates end together, that one after so much that is hidden;
 * 0: it is shorter with none there.
 */
export function sharedElements(costs: ClusterCosts, peer: PlannedPeer, kept: number, hiddenSeconds = 0): number {
  const [onGpu, inHost] = [costs.updateSeconds(peer, kept), costs.hostUpdateSeconds(peer, kept)];
  if (onGpu <= costs.hostSumSeconds(peer, kept)) return 0;
  return kept * Math.min(1, (onGpu + hiddenSeconds) / (onGpu + inHost));
}

/** The plan with a part of the state in main memory for the time that it saves; null: it saves none. */
export function withSharedUpdates(costs: ClusterCosts, plan: Plan): Plan | null {
  if (!costs.givesMainMemory) return null;
  const bare = forecast(costs, plan).stepSeconds;
  const seconds = (of: Plan): number =>
    memoryWithin(costs, of) ? forecast(costs, of).stepSeconds : Number.POSITIVE_INFINITY;
  let [best, least] = [plan, bare];
  // A cut shard takes more of a GPU than a whole one in its place: where that has no room, whole ones go.
  for (const [isHidden, mayCut] of [
    [false, true],
    [false, false],
    [true, true],
    [true, false],
  ] as const) {
    let cuts = costs.peers.flatMap((peer) => cutOf(costs, plan, peer, isHidden ? firstForward(costs, plan, peer) : 0));
    if (cuts.length === 0) continue;
    const made = (of: readonly Cut[]): Plan =>
      of.reduce((moved, { id, elements }) => moreInMainMemory(moved, id, elements, mayCut), plan);
    let tried = made(cuts);
    let takes = seconds(tried);
    for (const cut of cuts.length > 1 && cuts.length <= MOST_TRIED ? cuts : []) {
      const fewer = cuts.filter((other) => other !== cut);
      const without = made(fewer);
      const now = seconds(without);
      if (now <= takes) [cuts, tried, takes] = [fewer, without, now];
    }
    if (takes < least) [best, least] = [tried, takes];
  }
  return least <= (1 - LEAST_GAIN) * bare ? best : null;
}

/** The same state on GPUs alone; null: they have no room for it. */
export function onGpusAlone(costs: ClusterCosts, plan: Plan): Plan | null {
  const state = plan.state.map(({ block, shards }) => ({
    block,
    shards: shards.map(({ in: _, ...shard }) => shard),
  }));
  const alone = { ...plan, state };
  return memoryWithin(costs, alone) && alone;
}

interface Cut {
  readonly id: PeerId;
  /** That go to main memory. */
  readonly elements: number;
}

/** Seconds of the longest that a peer's stages take for their first micro-batch. */
function firstForward(costs: ClusterCosts, plan: Plan, peer: PlannedPeer): number {
  const seconds = plan.stages.map(({ members }, stage) => {
    const first = members.find(({ peer: id }) => id === peer.id)?.microBatches[0];
    const samples = plan.microBatches.find(({ id }) => id === first)?.samples;
    if (!samples) return 0;
    return costs.forwardSeconds(peer, shapeOf(plan, stage), samples[1] - samples[0]);
  });
  return Math.max(...seconds);
}

function cutOf(costs: ClusterCosts, plan: Plan, peer: PlannedPeer, hiddenSeconds: number): Cut[] {
  const inHost = hostBytes(plan, peer.id, undefined) / HOST_ELEMENT_BYTES;
  let kept = 0;
  for (const { shards } of plan.state)
    for (const { peer: primary, range } of shards) if (primary === peer.id) kept += range[1] - range[0];
  const wanted = Math.min(sharedElements(costs, peer, kept, hiddenSeconds), costs.hostElements(peer));
  return wanted > inHost ? [{ id: peer.id, elements: wanted - inHost }] : [];
}
