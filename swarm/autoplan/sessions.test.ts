/** How long donors stay: closed forms, and a week of donors whose habits are known. */
import { expect, test } from 'vitest';
import { arrayOf, seededRandom } from '../base.ts';
import { SESSION_SECONDS } from '../planner/cluster.ts';
import { expectedSeconds, meanSeconds, type Stay } from './sessions.ts';

const session = (seconds: number, hasEnded = true, hour = 12, isNew = false): Stay => ({
  ...{ seconds, hasEnded, hour, isNew },
});

test('[PL57] where all have ended it is their mean; who is still here lengthens it', () => {
  expect(meanSeconds([session(10), session(20), session(60)])).toBeCloseTo(30, 9);
  // By hand: the curve is 1 to 10 s, 2/3 to 20 s, and then 1/3, of which nothing more is seen: 90/2 s more.
  expect(meanSeconds([session(10), session(20), session(60, false)])).toBeCloseTo(10 + 20 / 3 + 40 / 3 + 45 / 3, 9);
  // The textbook's order: an end at the time at which another is lost from sight comes first.
  expect(meanSeconds([session(10, false), session(10)])).toBeCloseTo(10 + 0.5 * 20, 9);
});

test('[PL57] nothing known is an hour, and few visits move it little', () => {
  const noon = { hour: 12, isNew: false };
  expect(expectedSeconds([], noon)).toBe(SESSION_SECONDS);
  expect(expectedSeconds([session(60)], noon)).toBeCloseTo((60 + 5 * SESSION_SECONDS) / 6, 9);
});

/** Of a day: long visits at night, short ones at noon; who comes for the first time stays a third as long. */
const meanOf = (hour: number, isNew: boolean): number =>
  (7_200 + 6_000 * Math.cos((hour / 12) * Math.PI)) * (isNew ? 1 / 3 : 1);

test('[PL57] over a week of 200 donors expectations are nearer to what comes than a constant hour', () => {
  const random = seededRandom(7);
  const WEEK = 7 * 24 * 3_600;
  const visits = arrayOf(1_400, () => {
    const at = random() * WEEK;
    const [hour, isNew] = [(at / 3_600) % 24, random() < 200 / 1_400];
    return { at, hour, isNew, seconds: -Math.log(1 - random()) * meanOf(hour, isNew) };
  }).sort((a, b) => a.at - b.at);
  let [learnt, constant] = [0, 0];
  for (const [place, visit] of visits.entries()) {
    if (place % 20 !== 0 || visit.at < WEEK / 7) continue;
    const known = visits.slice(0, place).map(
      ({ at, seconds, hour, isNew }): Stay => ({
        ...{ hour, isNew, seconds: Math.min(seconds, visit.at - at), hasEnded: at + seconds <= visit.at },
      }),
    );
    const error = (said: number): number => Math.abs(Math.log(said / meanOf(visit.hour, visit.isNew)));
    learnt += error(expectedSeconds(known, visit));
    constant += error(SESSION_SECONDS);
  }
  expect(learnt).toBeLessThan(constant / 3);
});
