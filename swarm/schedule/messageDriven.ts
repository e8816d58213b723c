/**
 * What orders that follow messages share: work that waits to be chosen, lowest micro-batch first, and how many
 * micro-batches a peer may have in flight. Their lists say only what there is to do, not when.
 */
import { at, invariant, type PeerId } from '../base.ts';
import type { Plan, WarmUp } from '../plan/plan.ts';
import type { WorkGraph } from './graph.ts';
import { oneForwardOneBackward } from './oneForwardOneBackward.ts';
import { slots } from './slots.ts';

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
    const action = at(actions, work);
    invariant('microBatch' in action, 'orders that follow messages are of work on micro-batches');
    return action.microBatch;
  };
  return {
    add(work) {
      const own = microBatch(work);
      let index = waiting.length;
      while (index > from && microBatch(at(waiting, index - 1)) > own) index--;
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
