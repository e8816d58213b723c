/**
 * Newcomers who go as soon as they have come: each such visit costs those at work a step or a change of plan, and whoever else
 * waits to come in another start. One is forgiven; while there were more of late newcomers come in one by one, and none for a
 * while after the newest, twice as long each time. After one that held the others up none comes for some times as long as
 * they stood: whatever newcomers do, those at work have most of the time. By the run as a whole: a crowd has an address for
 * each visit. Pure.
 */
import { doubledMs } from '../base.ts';

/** Whoever goes sooner, after a plan was made with it, has cost more than it did. */
const SHORT_VISIT_MS = 60_000;
const FORGIVEN = 1;
const FIRST_PAUSE_MS = 5_000;
const LONGEST_PAUSE_MS = 60_000;
/** So many times as long as the newest one held the others up: they have four fifths of the time. */
const PAUSE_FACTOR = 4;
/** After each such time without another one a visit is forgotten, and more are not counted than make the longest pause. */
const FORGOTTEN_MS = 60_000;
const MOST = 6;

/** Short visits that are not forgotten, as of the newest. */
export interface Visits {
  readonly count: number;
  readonly lastMs: number;
  /** Until then no newcomer comes in, for what they cost. */
  readonly paidAtMs: number;
}
export const NO_VISITS: Visits = { count: 0, lastMs: 0, paidAtMs: 0 };

/** Of a donor that came while others were at work. */
export interface Newcomer {
  readonly sinceMs: number;
  /** No plan that can be made without it has it, until its turn has come. */
  readonly waits: boolean;
}

/** What cost the others long is forgotten slowly. */
const left = ({ count, lastMs, paidAtMs }: Visits, nowMs: number): number => {
  const paysMs = Math.max(0, paidAtMs - lastMs);
  const sinceMs = Math.max(0, nowMs - lastMs - paysMs);
  return Math.max(0, count - Math.floor(sinceMs / Math.max(FORGOTTEN_MS, paysMs)));
};

/** `tokens`: its part of committed steps. */
export const isShort = ({ sinceMs }: Newcomer, tokens: number, nowMs: number): boolean =>
  tokens === 0 || nowMs - sinceMs < SHORT_VISIT_MS;

/** However long it was here. `costMs`: so long it was, and no step was committed. */
export const withCost = (visits: Visits, costMs: number, nowMs: number): Visits => ({
  ...visits,
  paidAtMs: Math.max(visits.paidAtMs, nowMs + PAUSE_FACTOR * costMs),
});

export const withVisit = (visits: Visits, costMs: number, nowMs: number): Visits => ({
  ...withCost(visits, costMs, nowMs),
  count: Math.min(MOST, left(visits, nowMs) + 1),
  lastMs: nowMs,
});

/** Newcomers come in one by one. */
export const comeOneByOne = (visits: Visits, nowMs: number): boolean =>
  left(visits, nowMs) > FORGIVEN || nowMs < visits.paidAtMs;

/** When the next one may. */
export const nextMayComeMs = ({ count, lastMs, paidAtMs }: Visits): number => {
  const pauseMs = doubledMs(FIRST_PAUSE_MS, LONGEST_PAUSE_MS, Math.max(0, count - FORGIVEN - 1));
  return Math.max(paidAtMs, count > FORGIVEN ? lastMs + pauseMs : lastMs);
};
