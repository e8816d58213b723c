/** A step as it is stored and as the operator's page is sent it: rows of (peer, action, start, end). */
import { peerId } from '../base.ts';
import type { StepTimeline } from '../messages/watch.ts';
import { type Action, formatAction, isCompute, isTurnEnd, readAction } from '../schedule/action.ts';
import { type BesideSpan, besideText, readBeside } from './beside.ts';
import type { Span, Timeline } from './timeline.ts';

/** Of one step: a picture shows no more. */
const MOST_ROWS = 5_000;

export type SpanRow = StepTimeline['measured'][number];

/** Work on micro-batches, and what stands beside it as far as there is room. */
export const rowsOf = (timeline: Timeline, beside: readonly BesideSpan[] = []): SpanRow[] =>
  [
    ...timeline.map((span) => rowOf(span, formatAction(span.action))),
    ...beside.map((span) => rowOf(span, besideText(span.action))),
  ].slice(0, MOST_ROWS);

const rowOf = ({ peer, startSeconds, endSeconds }: Span | BesideSpan, action: string): SpanRow => [
  peer,
  action,
  toMicroseconds(startSeconds),
  toMicroseconds(endSeconds),
];

const spansOfRows =
  <A extends Action>(isWanted: (action: Action) => action is A) =>
  (rows: readonly SpanRow[]): (Span & { readonly action: A })[] =>
    rows.flatMap(([peer, text, startSeconds, endSeconds]) => {
      const action = readAction(text);
      return action !== null && isWanted(action) ? [{ peer: peerId(peer), action, startSeconds, endSeconds }] : [];
    });

/** Work on micro-batches. */
export const timelineOfRows = spansOfRows(isCompute);
/** With islands, behind the step: the switch to the next one's turn, or the meeting. */
export const turnEndsOfRows = spansOfRows(isTurnEnd);
/** Neither of them. */
export const besideOfRows = (rows: readonly SpanRow[]): BesideSpan[] =>
  rows.flatMap(([peer, text, startSeconds, endSeconds]) => {
    const action = readBeside(text);
    return action === null || isTurnEnd(action) ? [] : [{ peer: peerId(peer), action, startSeconds, endSeconds }];
  });

/** What the clocks of browsers have. */
const toMicroseconds = (seconds: number): number => Math.round(seconds * 1e6) / 1e6;
