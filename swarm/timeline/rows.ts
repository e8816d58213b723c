/** Work on micro-batches as it is stored and as the operator's page is sent it: rows of (peer, action, start, end). */
import { peerId } from '../base.ts';
import type { StepTimeline } from '../messages/watch.ts';
import { formatAction, isCompute, parseAction } from '../schedule/action.ts';
import type { ComputeSpan, Timeline } from './timeline.ts';

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

export const timelineOfRows = (rows: readonly SpanRow[]): ComputeSpan[] =>
  rows.flatMap(([peer, text, startSeconds, endSeconds]) => {
    const action = parseAction(text);
    return isCompute(action) ? [{ peer: peerId(peer), action, startSeconds, endSeconds }] : [];
  });

/** What the clocks of browsers have. */
const toMicroseconds = (seconds: number): number => Math.round(seconds * 1e6) / 1e6;
