/** The events of a run as marks on its charts: a glyph and a pattern for each kind, never a colour alone. Pure. */
import type { EventKind, WatchedEvent } from '../../../swarm/messages/watch.ts';
import type { StepWindow, Tone } from './series.ts';
import { type Sign, signWith } from './signs.ts';

export interface EventSign extends Sign {
  readonly tone: Tone;
}

export const EVENT_SIGNS: Readonly<Record<EventKind, EventSign>> = {
  joined: signWith('good', '▲', 'Joined'),
  left: signWith('soft', '▽', 'Left'),
  gone: signWith('bad', '▼', 'Lost'),
  plan: signWith('accent', '◆', 'New plan'),
  checkpoint: signWith('soft', '■', 'Checkpoint'),
  rollBack: signWith('bad', '↩', 'Went back'),
  setAside: signWith('bad', '⊠', 'Gave up a checkpoint'),
  fault: signWith('wait', '⚡', 'Fault'),
  convicted: signWith('bad', '⚖', 'Convicted'),
  finished: signWith('good', '✓', 'Finished'),
  failed: signWith('bad', '✕', 'Failed'),
  operator: signWith('wait', '☞', 'Operator'),
};

export interface Mark extends EventSign {
  readonly at: number;
}

/** More marks than these side by side would be one grey wall. */
const MOST_MARKS = 120;

/** One mark for each kind and step; the newest ones where there are too many. */
export function marksOf(
  events: readonly Pick<WatchedEvent, 'kind' | 'step'>[],
  kinds: ReadonlySet<EventKind>,
  window: StepWindow,
): Mark[] {
  const marks = new Map<string, Mark>();
  for (const { kind, step } of events) {
    if (!kinds.has(kind) || (window !== null && (step < window[0] || step > window[1]))) continue;
    marks.set(`${kind} ${step}`, { at: step, ...EVENT_SIGNS[kind] });
  }
  return [...marks.values()].slice(-MOST_MARKS);
}
