/** How long a simulation's work and messages take where that is said: as a cluster's costs have it, and nothing besides. */
import { at, type PeerId } from '../../../../swarm/base.ts';
import type { StageSize } from '../../../../swarm/memory/memory.ts';
import { type Plan, peers } from '../../../../swarm/plan/plan.ts';
import type { ClusterCosts, PlannedPeer, StageShape } from '../../../../swarm/planner/clusterCosts.ts';
import { againAhead } from '../../../../swarm/schedule/recompute.ts';

export interface WorkPace {
  /** Of a stage, or of a part of it that is computed alone. */
  forwardMs(shape: StageShape, samples: number): number;
  recomputeMs(size: StageSize, samples: number): number;
  /** With so many layers computed again. */
  backwardMs(shape: StageShape, samples: number, again: number): number;
  /** Of so many elements. */
  updateMs(elements: number): number;
  /** The same of elements in main memory, and before it of adding up their gradients. */
  hostUpdateMs(elements: number): number;
  hostSumMs(elements: number): number;
  /** A norm, or a copy. */
  readonly smallMs: number;
}

export interface LinkPace {
  readonly latencyMs: number;
  readonly bytesPerMs: number;
  /** Of the line that its sender shares with others, where it goes over one. */
  readonly line?: string;
}

export interface Pace {
  of(peer: () => PeerId | null): WorkPace;
  link(from: PeerId, to: PeerId): LinkPace;
}

const FORWARD_MS = 1;
const SMALL_MS = 0.2;
/** A layer and sample takes 1 ms, its backward twice as long: whose times nobody says. */
export const PLAIN: WorkPace = {
  forwardMs: ({ layers }, samples) => FORWARD_MS * samples * layers,
  recomputeMs: () => SMALL_MS,
  backwardMs: ({ layers }) => 2 * FORWARD_MS * layers,
  updateMs: () => SMALL_MS,
  hostUpdateMs: () => SMALL_MS,
  hostSumMs: () => SMALL_MS,
  smallMs: SMALL_MS,
};

/** `seated`: the plan that is done, whose n-th peer is the n-th of the cluster's plan. */
export function clusterPace(costs: ClusterCosts, planned: Plan, seated: () => Plan | null): Pace {
  const names = peers(planned);
  const peerOf = (peer: PeerId | null): PlannedPeer => {
    const plan = seated();
    const seat = plan && peer ? peers(plan).indexOf(peer) : 0;
    return at(costs.peers, costs.placeOf(names[seat] ?? at(names, 0)));
  };
  return {
    of: (peer) => ({
      forwardMs: (shape, samples) => 1_000 * costs.forwardSeconds(peerOf(peer()), shape, samples),
      recomputeMs: ({ recompute = [] }, samples) =>
        1_000 * againAhead(recompute) * costs.layerSeconds(peerOf(peer()), samples),
      backwardMs: (shape, samples, again) =>
        1_000 *
        (costs.backwardSeconds(peerOf(peer()), shape, samples) + again * costs.layerSeconds(peerOf(peer()), samples)),
      updateMs: (elements) => 1_000 * costs.updateSeconds(peerOf(peer()), elements),
      hostUpdateMs: (elements) => 1_000 * costs.hostUpdateSeconds(peerOf(peer()), elements),
      hostSumMs: (elements) => 1_000 * costs.hostSumSeconds(peerOf(peer()), elements),
      smallMs: 0,
    }),
    link(from, to) {
      const [sender, receiver] = [peerOf(from), peerOf(to)];
      const { latencySeconds, bytesPerSecond } = costs.link(sender.id, receiver.id);
      const { line, upload } = sender;
      const isShared = line !== null && line.name !== receiver.line?.name;
      const rate = Math.min(bytesPerSecond ?? Infinity, isShared ? upload * line.sharers : Infinity);
      return { latencyMs: 1_000 * latencySeconds, bytesPerMs: rate / 1_000, ...(isShared && { line: line.name }) };
    },
  };
}
