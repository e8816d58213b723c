/** A step as it is stored and as the operator's page is sent it: rows of (peer, action, start, end). */
import { peerId } from '../base.ts';
import type { StepTimeline } from '../messages/watch.ts';
import { type Action, formatAction, isCompute, isTurnEnd, parseAction } from '../schedule/action.ts';
import type { Span, Timeline } from './timeline.ts';

/** Of one step: a picture shows no more. */
const MOST_ROWS = 5_000;

export type SpanRow = StepTimeline['measured'][number];

export const rowsOf = (timeline: Timeline): SpanRow[] =>
  timeline
    .slice(0, MOST_ROWS)
    .map(({ peer, action, startSeconds, endSeconds }) => [
      peer,
      formatAction(action),
      toMicroseconds(startSeconds),
      toMicroseconds(endSeconds),
    ]);

const spansOfRows =
  <A extends Action>(isWanted: (action: Action) => action is A) =>
  (rows: readonly SpanRow[]): (Span & { readonly action: A })[] =>
    rows.flatMap(([peer, text, startSeconds, endSeconds]) => {
      const action = parseAction(text);
      return isWanted(action) ? [{ peer: peerId(peer), action, startSeconds, endSeconds }] : [];
    });

/** Work on micro-batches. */
export const timelineOfRows = spansOfRows(isCompute);
/** With islands, behind the step: the switch to the next one's turn, or the meeting. */
export const turnEndsOfRows = spansOfRows(isTurnEnd);

/** What the clocks of browsers have. */
const toMicroseconds = (seconds: number): number => Math.round(seconds * 1e6) / 1e6;
