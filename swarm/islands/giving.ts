/**
 * Who does which numbers of a run whose islands are as many as there are groups of donors (`count: "auto"`). The server
 * gives out one number at a time, the lowest that is nobody's, to a group that stands ready for a step; what is not done
 * goes back. So each number is done once, whoever comes, goes or is late, and a round is what was recorded of it.
 * Rules IS in SPEC.md.
 */
import { arrayOf, totalOf } from '../base.ts';
import type { AutoIslands } from '../run/runFile.ts';

/** Numbers of a run that nobody has: those that came back, ascending, and all from `next` on. */
export interface Free {
  readonly steps: number;
  readonly next: number;
  readonly back: readonly number[];
}

export const allFree = (steps: number): Free => ({ steps, next: 0, back: [] });

/** What is left of a run of which these numbers are done. */
export function freeBut(steps: number, done: readonly number[]): Free {
  const known = new Set(done);
  const next = done.reduce((most, number) => Math.max(most, number + 1), 0);
  const back = arrayOf(next, (number) => number).filter((number) => !known.has(number));
  return { steps, next, back };
}

/** The lowest free number, and what is free then; null: there is none. */
export function taken({ steps, next, back }: Free): readonly [number, Free] | null {
  const [first, ...others] = back;
  if (first !== undefined) return [first, { steps, next, back: others }];
  return next < steps ? [next, { steps, next: next + 1, back }] : null;
}

export const givenBack = (free: Free, numbers: readonly number[]): Free => ({
  ...free,
  back: [...free.back, ...numbers].toSorted((a, b) => a - b),
});

/** A round is shortened so that at least so many fit into the run. */
const LEAST_ROUNDS = 20;
/** Of an island in its first round; it is also at most a hundredth of what all did in the round before. */
const FIRST_STEPS = 4;
const FIRST_SHARE = 0.01;
/** In a round an island does at most so many times what it was seen to do in the same time. */
const MOST_GAIN = 1.5;
/** An island whose step is longer than a round does one where it is longer by no more than this. */
const LONGEST_STEP = 1.25;

/** What is known of an island when a round begins. */
export interface Pace {
  /** Of a step, as the server measured its newest ones; null: it did none. */
  readonly stepMs: number | null;
  /** The most steps in a millisecond at the end of any round so far, as the server measured them; null: it was in none. */
  readonly most: number | null;
}

/** Of one round. */
export interface RoundTerms {
  readonly lastsMs: number;
  /** Numbers given out in it, at most. */
  readonly most: number;
  /** The same to one that is new. */
  readonly first: number;
}

/** `before`: steps of the last round that was met; 0: there was none. */
export function roundTerms(
  { roundSeconds }: Pick<AutoIslands, 'roundSeconds'>,
  steps: number,
  paces: readonly Pace[],
  before: number,
): RoundTerms {
  const known = paces.flatMap(({ stepMs }) => (stepMs === null || stepMs <= 0 ? [] : stepMs));
  const rate = totalOf(known, (stepMs) => 1 / stepMs);
  const most = mostOfRound(steps);
  const shortMs = Math.min(1000 * roundSeconds, rate > 0 ? most / rate : Infinity);
  const first = before === 0 ? FIRST_STEPS : Math.max(1, Math.min(FIRST_STEPS, Math.floor(FIRST_SHARE * before)));
  // A round has at least a step of whoever is fastest.
  return { lastsMs: known.length === 0 ? shortMs : Math.max(Math.min(...known), shortMs), most, first };
}

/** Numbers of a round, at most. */
export const mostOfRound = (steps: number): number => Math.max(1, Math.floor(steps / LEAST_ROUNDS));

/** Whether an island may do another step. `given`: to it, and to all, in this round. */
export function mayTake(
  { lastsMs, most, first }: RoundTerms,
  pace: Pace,
  given: { readonly own: number; readonly all: number },
  spentMs: number,
): boolean {
  if (given.all >= most) return false;
  if (pace.most === null || pace.stepMs === null) return given.own < first && spentMs < lastsMs;
  if (given.own >= Math.max(1, Math.floor(MOST_GAIN * pace.most * lastsMs))) return false;
  return given.own === 0 && spentMs === 0 ? pace.stepMs <= LONGEST_STEP * lastsMs : spentMs + pace.stepMs <= lastsMs;
}
