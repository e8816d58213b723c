/**
 * The answer to a sizing problem (Cephalo, ICS '25): the batch by speed, the state by the memory that is left (levelShares).
 * Peers are taken in an order of their own, not the caller's, so that permuting them permutes the answer.
 */

import { at, type Result, refusal, success } from '../base.ts';
import {
  levelShares,
  type PeerCosts,
  peerCosts,
  peerTimeMs,
  roomGiB,
  roomsOf,
  type Sizing,
  type SizingProblem,
  sizeGroup,
} from './sizing.ts';

export interface PeerSizing {
  readonly id: string;
  /** Samples of a micro-batch, how many of them, and their product. */
  readonly microBatch: number;
  readonly count: number;
  readonly samples: number;
  readonly stateGiB: number;
  readonly stateShare: number;
  /** The largest micro-batch that fits beside no state, and beside an even share; Infinity where every one does. */
  readonly maxMicroBatch: number;
  readonly maxMicroBatchEvenState: number;
  /** A layer, forward and backward. */
  readonly timeMs: number;
  readonly memoryGiB: number;
  readonly memoryLimitGiB: number;
}

export interface Assignment {
  /** A layer on the slowest peer. */
  readonly objectiveMs: number;
  readonly samplesPerSecond: number;
  /** No sizing is faster than this; equal to the objective up to a billionth where the search was exhaustive. */
  readonly leastMs: number;
  /** In the order of the problem's peers. */
  readonly peers: readonly PeerSizing[];
}

/** The best sizing, or a sentence with the GiB that are missing. */
export function assign(problem: SizingProblem): Result<Assignment> {
  const group = canonical(problem);
  const costs = peerCosts(group);
  const sized = sizeGroup(group, costs);
  if (!sized.ok) return sized;
  const { sizing, leastMs } = sized.value;
  if (sizing.objectiveMs <= 0) return refusal('every time is 0 ms: expected measured times above 0 to size by');
  return success(assignmentOf(problem, costs, sizing, leastMs));
}

/** The same peers in an order that depends on nothing but themselves. */
function canonical(problem: SizingProblem): SizingProblem {
  const key = ({ id, ...rest }: SizingProblem['peers'][number]) => JSON.stringify([rest, id]);
  const keyed = problem.peers.map((peer) => ({ peer, key: key(peer) }));
  keyed.sort((a, b) => (a.key < b.key ? -1 : 1));
  return { ...problem, peers: keyed.map(({ peer }) => peer) };
}

function assignmentOf(
  problem: SizingProblem,
  costs: readonly PeerCosts[],
  sizing: Sizing,
  leastMs: number,
): Assignment {
  const { stateGiB, globalBatch, layers, communicationGiB } = problem;
  const { cuts, objectiveMs } = sizing;
  const shares = levelShares(roomsOf(costs, sizing), stateGiB);
  const sized = costs.map((peer, index): PeerSizing => {
    const { size, count } = at(cuts, index);
    const share = at(shares, index);
    const { id, maxMicroBatch, maxMicroBatchEvenState } = peer;
    return {
      ...{ id, microBatch: size, count, samples: size * count },
      stateGiB: share,
      stateShare: stateGiB > 0 ? share / stateGiB : 1 / costs.length,
      ...{ maxMicroBatch, maxMicroBatchEvenState },
      timeMs: peerTimeMs(problem, peer, size, count),
      memoryGiB: peer.spaceGiB - roomGiB(peer, size) + communicationGiB + share,
      memoryLimitGiB: peer.spaceGiB + communicationGiB,
    };
  });
  const byId = new Map(sized.map((peer) => [peer.id, peer]));
  const peers = problem.peers.flatMap(({ id }) => byId.get(id) ?? []);
  return { objectiveMs, samplesPerSecond: (globalBatch * 1000) / (layers * objectiveMs), leastMs, peers };
}
