/**
 * What orders that follow messages share: work that waits to be chosen, lowest micro-batch first, and how many
 * micro-batches a peer may have in flight. Their lists say only what there is to do, not when.
 */
import type { PeerId } from '../base.ts';
import type { Plan } from '../plan/plan.ts';
import { slots } from './check.ts';
import type { WorkGraph } from './graph.ts';
import { oneForwardOneBackward, type WarmUp } from './oneForwardOneBackward.ts';

/** Micro-batches each peer has in flight at most under 1F1B. */
export function inFlightBounds(plan: Plan, warmUp: WarmUp): ReadonlyMap<PeerId, number> {
  const most = slots(oneForwardOneBackward(plan, warmUp));
  return new Map(
    [...most].map(([peer, stages]) => [peer, [...stages.values()].reduce((sum, count) => sum + count, 0)]),
  );
}

/** Work that could start, lowest micro-batch first. */
export interface Queue {
  readonly add: (work: number) => void;
  /** Undefined, when it is empty. */
  readonly first: () => number | undefined;
  readonly remove: (work: number) => void;
}

export function microBatchQueue({ actions }: WorkGraph): Queue {
  // Ascending. Those before `from` are gone; work mostly comes and goes in order, so that little has to move.
  const waiting: number[] = [];
  let from = 0;
  const microBatch = (work: number): number => {
    const action = actions[work];
    return action && 'microBatch' in action ? action.microBatch : 0;
  };
  return {
    add(work) {
      const own = microBatch(work);
      let index = waiting.length;
      while (index > from && microBatch(waiting[index - 1] ?? 0) > own) index--;
      if (index === waiting.length) waiting.push(work);
      else waiting.splice(index, 0, work);
    },
    first: () => waiting[from],
    remove(work) {
      if (waiting[from] === work) from++;
      else waiting.splice(waiting.indexOf(work, from), 1);
      if (from < waiting.length) return;
      waiting.length = 0;
      from = 0;
    },
  };
}
