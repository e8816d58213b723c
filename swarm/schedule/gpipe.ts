/**
 * GPipe: all forwards, then all backwards, micro-batches ascending. Simple and exact, and it keeps every micro-batch in
 * flight. A peer with several stages goes stage by stage (backwards from the last), as breadth-first pipelines do: its
 * second stage never waits for a micro-batch that is still on its way around. Every list follows one order over all
 * work (F by stage and micro-batch, then B by stage from the last) in which needs only point back, so no two lists can
 * wait for each other in a circle.
 */
import { type Plan, peers } from '../plan.ts';
import type { Action, Schedule } from './action.ts';

export function gpipe(plan: Plan): Schedule {
  const last = plan.stages.length - 1;
  const backwards = plan.stages.map((_, stage) => last - stage);
  return new Map(
    peers(plan).map((peer) => [
      peer,
      [
        ...plan.stages.flatMap((_, stage) => carried(plan, peer, stage, 'F')),
        ...backwards.flatMap((stage) => carried(plan, peer, stage, 'B')),
      ],
    ]),
  );
}

/** Forwards alone, for an evaluation: nothing is kept for a backward. */
export function forwards(plan: Plan): Schedule {
  return new Map(peers(plan).map((peer) => [peer, plan.stages.flatMap((_, stage) => carried(plan, peer, stage, 'F'))]));
}

function carried(plan: Plan, peer: string, stage: number, op: 'F' | 'B'): Action[] {
  const mine = plan.stages[stage]?.members.filter((member) => member.peer === peer) ?? [];
  return mine
    .flatMap(({ microBatches }) => microBatches)
    .toSorted((a, b) => a - b)
    .map((microBatch) => ({ op, stage, microBatch }));
}
