/**
 * Interleaved 1F1B (Narayanan et al. 2021): each peer has v stages, chunk c of peer r being stage c·p + r, so that a
 * micro-batch goes round the peers v times and the pipeline fills in a v-th of the time. Micro-batches go in groups of
 * p; a peer does a group chunk by chunk (backwards: the chunks reversed), so that a group comes back to the first peer
 * just when that has sent its last one off. See SPEC.md, SC13.
 */
import type { PeerId } from '../base.ts';
import { type Plan, peers } from '../plan/plan.ts';
import type { MicroAction, Schedule } from './action.ts';

/** For a looped plan that has no misfit. */
export function interleaved(plan: Plan): Schedule {
  const order = peers(plan);
  return new Map(order.map((peer, rank) => [peer, listOf(plan, peer, rank, order.length)]));
}

function listOf(plan: Plan, peer: PeerId, rank: number, peerCount: number): MicroAction[] {
  const own = plan.stages.flatMap(({ members }, stage) => members.map((member) => ({ ...member, stage })));
  const chunks = own.filter((member) => member.peer === peer).map(({ stage }) => stage);
  const ids = plan.microBatches.map(({ id }) => id).toSorted((a, b) => a - b);
  const inGroups = (op: 'F' | 'B', stages: readonly number[]): MicroAction[] =>
    ids.flatMap((_, index) => {
      const group = index % peerCount === 0 ? ids.slice(index, index + peerCount) : [];
      return stages.flatMap((stage) => group.map((microBatch): MicroAction => ({ op, stage, microBatch })));
    });
  const forwards = inGroups('F', chunks);
  const backwards = inGroups('B', chunks.toReversed());
  const warmUp = Math.min(forwards.length, 2 * (peerCount - rank - 1) + (chunks.length - 1) * peerCount);
  const list = forwards.slice(0, warmUp);
  backwards.forEach((backward, index) => {
    const forward = forwards[warmUp + index];
    if (forward) list.push(forward);
    list.push(backward);
  });
  return list;
}
