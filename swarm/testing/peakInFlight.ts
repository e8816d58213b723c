/** How many micro-batches a peer has in flight at once, counted from a timeline span by span. */
import type { PeerId } from '../base.ts';
import { mostAtOnce } from '../timeline/columns.ts';
import type { Timeline } from '../timeline/timeline.ts';

/**
 * Most (stage, micro-batch) pairs of a peer between forward start and backward end, an end counting before a start at
 * the same instant. A pair without a backward ends with its forward.
 */
export function peakInFlight(timeline: Timeline, peer: PeerId): number {
  const mine = timeline.filter((span) => span.peer === peer);
  const backwards = new Map<number, Set<number>>();
  for (const { action } of mine)
    if (action.op === 'B')
      backwards.set(action.stage, (backwards.get(action.stage) ?? new Set()).add(action.microBatch));
  const starts: number[] = [];
  const ends: number[] = [];
  for (const { action, startSeconds, endSeconds } of mine) {
    if (action.op === 'F') starts.push(startSeconds);
    const ended = action.op === 'F' && !backwards.get(action.stage)?.has(action.microBatch);
    if (action.op === 'B' || ended) ends.push(endSeconds);
  }
  starts.sort((a, b) => a - b);
  ends.sort((a, b) => a - b);
  return mostAtOnce(starts, ends);
}
