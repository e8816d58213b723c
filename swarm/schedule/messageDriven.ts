/**
 * What orders that follow messages share: work that waits to be chosen, lowest micro-batch first. Their lists say only what
 * there is to do, not when.
 */
import { at, invariant } from '../base.ts';
import type { WorkGraph } from './graph.ts';

/** Work that could start, lowest micro-batch first. */
export interface Queue {
  readonly add: (work: number) => void;
  /** Undefined, when it is empty. */
  readonly first: () => number | undefined;
  /** Nothing, where it is not in there. */
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
      const index = waiting.indexOf(work, from);
      if (index < 0) return;
      if (index === from) from++;
      else waiting.splice(index, 1);
      if (from < waiting.length) return;
      waiting.length = 0;
      from = 0;
    },
  };
}
