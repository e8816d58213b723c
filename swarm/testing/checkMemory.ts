/**
 * Does what a schedule keeps in flight fit? A micro-batch holds memory at its stage from its forward to the end of its
 * backward, so a peer's most is a sum over its list, whatever the durations. See SPEC.md, LI3.
 */
import type { PeerId } from '../base.ts';
import type { Problem } from '../plan/plan.ts';
import type { Action, Schedule } from '../schedule/action.ts';
import { type GridMark, grid } from '../schedule/grid.ts';

interface MemoryUse {
  /** What one micro-batch keeps there from forward to backward. */
  readonly bytesInFlight: (stage: number, microBatch: number, peer: PeerId) => number;
  /** What a peer has for all that it keeps in flight. */
  readonly bytesFree: (peer: PeerId) => number;
}

/** Each peer that runs out, with the first forward that does not fit. */
export function memoryProblems(schedule: Schedule, use: MemoryUse): Problem[] {
  const marks = [...schedule].flatMap(([peer, actions]): [PeerId, GridMark][] => {
    const mark = overrun(peer, actions, use);
    return mark ? [[peer, mark]] : [];
  });
  if (marks.length === 0) return [];
  return [{ rule: 'LI3', text: `micro-batches in flight do not fit:\n${grid(schedule, new Map(marks))}` }];
}

function overrun(peer: PeerId, actions: readonly Action[], { bytesInFlight, bytesFree }: MemoryUse): GridMark | null {
  const free = bytesFree(peer);
  let held = 0;
  for (const [index, action] of actions.entries()) {
    if (action.op !== 'F' && action.op !== 'B') continue;
    const bytes = bytesInFlight(action.stage, action.microBatch, peer);
    held += action.op === 'F' ? bytes : -bytes;
    if (held > free) return { index, note: `needs ${held} of ${free} bytes` };
  }
  return null;
}
