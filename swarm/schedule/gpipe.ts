/**
 * GPipe: all forwards, then all backwards, micro-batches ascending. Simple and exact, and it keeps every micro-batch in
 * flight. A peer with several stages goes stage by stage (backwards from the last), as breadth-first pipelines do: its
 * second stage never waits for a micro-batch that is still on its way around. Every list follows one order over all
 * work (F by stage and micro-batch, then B by stage from the last) in which needs only point back, so no two lists can
 * wait for each other in a circle.
 */
import { at, type PeerId } from '../base.ts';
import { type Plan, peers } from '../plan/plan.ts';
import type { Action, Schedule } from './action.ts';

export function gpipe(plan: Plan): Schedule {
  const lists = new Map(peers(plan).map((peer): [PeerId, Action[]] => [peer, []]));
  for (const stage of plan.stages.keys()) add(lists, plan, stage, 'F');
  for (let stage = plan.stages.length - 1; stage >= 0; stage--) add(lists, plan, stage, 'B');
  return lists;
}

/** At the end of its members' lists. */
function add(lists: ReadonlyMap<PeerId, Action[]>, plan: Plan, stage: number, op: 'F' | 'B'): void {
  const carried = new Map<PeerId, readonly number[]>();
  for (const { peer, microBatches } of at(plan.stages, stage).members)
    carried.set(peer, [...(carried.get(peer) ?? []), ...microBatches]);
  for (const [peer, ids] of carried) {
    const list = lists.get(peer);
    for (const microBatch of ids.toSorted((a, b) => a - b)) list?.push({ op, stage, microBatch });
  }
}
