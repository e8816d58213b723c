/** A timeline as it is stored and as the operator's page is sent it: rows of (peer, action, start, end). */
import { peerId } from '../base.ts';
import type { StepTimeline } from '../messages/watch.ts';
import { formatAction, parseAction } from '../schedule/action.ts';
import type { Timeline } from './timeline.ts';

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

export const timelineOfRows = (rows: readonly SpanRow[]): Timeline =>
  rows.map(([peer, action, startSeconds, endSeconds]) => ({
    ...{ peer: peerId(peer), action: parseAction(action) },
    ...{ startSeconds, endSeconds },
  }));

/** What the clocks of browsers have. */
const toMicroseconds = (seconds: number): number => Math.round(seconds * 1e6) / 1e6;
