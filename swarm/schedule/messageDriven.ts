/**
 * What orders that follow messages share: work that waits to be chosen, lowest micro-batch first, and how many
 * micro-batches a peer may have in flight. Their lists say only what there is to do, not when.
 */
import type { PeerId } from '../base.ts';
import type { Plan } from '../plan.ts';
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
  const waiting: number[] = [];
  const microBatch = (work: number): number => {
    const action = actions[work];
    return action && 'microBatch' in action ? action.microBatch : 0;
  };
  return {
    add(work) {
      // The first one stands at the end. Work mostly comes in order.
      let index = 0;
      while (index < waiting.length && microBatch(waiting[index] ?? 0) > microBatch(work)) index++;
      waiting.splice(index, 0, work);
    },
    first: () => waiting.at(-1),
    remove: (work) => void waiting.splice(waiting.lastIndexOf(work), 1),
  };
}
