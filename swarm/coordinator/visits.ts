/**
 * Newcomers who go as soon as they have come: each such visit costs those at work a step or a change of plan, and whoever else
 * waits to come in another start. One is forgiven; while there were more of late newcomers come in one by one, and none for a
 * while after the newest, twice as long each time. By the run as a whole: a crowd has an address for each visit. Pure.
 */
import { doubledMs } from '../base.ts';

/** Whoever goes sooner, after a plan was made with it, has cost more than it did. */
const SHORT_VISIT_MS = 60_000;
const FORGIVEN = 1;
const FIRST_PAUSE_MS = 5_000;
const LONGEST_PAUSE_MS = 60_000;
/** After each such time without another one a visit is forgotten, and more are not counted than make the longest pause. */
const FORGOTTEN_MS = 60_000;
const MOST = 6;

/** Short visits that are not forgotten, as of the newest. */
export interface Visits {
  readonly count: number;
  readonly lastMs: number;
}
export const NO_VISITS: Visits = { count: 0, lastMs: 0 };

/** Of a donor that came while others were at work. */
export interface Newcomer {
  readonly sinceMs: number;
  /** No plan that can be made without it has it, until its turn has come. */
  readonly waits: boolean;
}

const left = ({ count, lastMs }: Visits, nowMs: number): number =>
  Math.max(0, count - Math.floor((nowMs - lastMs) / FORGOTTEN_MS));

export const isShort = ({ sinceMs }: Newcomer, nowMs: number): boolean => nowMs - sinceMs < SHORT_VISIT_MS;

export const withVisit = (visits: Visits, nowMs: number): Visits => ({
  count: Math.min(MOST, left(visits, nowMs) + 1),
  lastMs: nowMs,
});

/** Newcomers come in one by one. */
export const comeOneByOne = (visits: Visits, nowMs: number): boolean => left(visits, nowMs) > FORGIVEN;

/** When the next one may. */
export const nextMayComeMs = ({ count, lastMs }: Visits): number =>
  lastMs + doubledMs(FIRST_PAUSE_MS, LONGEST_PAUSE_MS, Math.max(0, count - FORGIVEN - 1));
