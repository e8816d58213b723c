/** How long a simulation's work and messages take where that is said: as a cluster's costs have it, and nothing besides. */
import { at, type PeerId } from '../../../../swarm/base.ts';
import type { StageSize } from '../../../../swarm/memory/memory.ts';
import { type Plan, peers } from '../../../../swarm/plan/plan.ts';
import type { ClusterCosts, PlannedPeer } from '../../../../swarm/planner/clusterCosts.ts';
import { againAhead, againInBackward } from '../../../../swarm/schedule/recompute.ts';

export interface WorkPace {
  forwardMs(size: StageSize, samples: number): number;
  recomputeMs(size: StageSize, samples: number): number;
  backwardMs(size: StageSize, samples: number): number;
  /** Of so many elements. */
  updateMs(elements: number): number;
  /** A norm, or a copy. */
  readonly smallMs: number;
}

export interface LinkPace {
  readonly latencyMs: number;
  readonly bytesPerMs: number;
}

export interface Pace {
  of(peer: () => PeerId | null): WorkPace;
  link(from: PeerId, to: PeerId): LinkPace;
}

const FORWARD_MS = 1;
const SMALL_MS = 0.2;
/** A layer and sample takes 1 ms, its backward twice as long: whose times nobody says. */
export const PLAIN: WorkPace = {
  forwardMs: ({ layers: [from, to] }, samples) => FORWARD_MS * samples * (to - from),
  recomputeMs: () => SMALL_MS,
  backwardMs: ({ layers: [from, to] }) => 2 * FORWARD_MS * (to - from),
  updateMs: () => SMALL_MS,
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
  const shapeOf = ({ layers: [from, to] }: StageSize) => ({
    ...{ first: from === 0, last: to === costs.model.layers, layers: to - from },
  });
  return {
    of: (peer) => ({
      forwardMs: (size, samples) => 1_000 * costs.forwardSeconds(peerOf(peer()), shapeOf(size), samples),
      recomputeMs: ({ recompute = [] }, samples) =>
        1_000 * againAhead(recompute) * costs.layerSeconds(peerOf(peer()), samples),
      backwardMs: (size, samples) =>
        1_000 *
        (costs.backwardSeconds(peerOf(peer()), shapeOf(size), samples) +
          againInBackward(size.recompute ?? []) * costs.layerSeconds(peerOf(peer()), samples)),
      updateMs: (elements) => 1_000 * costs.updateSeconds(peerOf(peer()), elements),
      smallMs: 0,
    }),
    link(from, to) {
      const { latencySeconds, bytesPerSecond } = costs.link(peerOf(from).id, peerOf(to).id);
      return { latencyMs: 1_000 * latencySeconds, bytesPerMs: (bytesPerSecond ?? Number.POSITIVE_INFINITY) / 1_000 };
    },
  };
}
