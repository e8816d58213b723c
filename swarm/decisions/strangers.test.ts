import { describe, expect, test } from 'vitest';
import { arrayOf } from '../base.ts';
import { commitsIn, type Manner, type TimedDonor, timedRun } from '../testing/timedRun.ts';

const SECONDS = 900;
const honest = (name: string): TimedDonor => ({
  ...{ name, manner: 'honest', joinsAtMs: 0, claims: 0.01, truth: 0.01 },
});
const two = [honest('a'), honest('b')];
/** What they do by themselves. */
const COMMITS_OF_TWO = commitsIn(two, SECONDS);
const stranger = (manner: Manner, claims: number, truth: number): TimedDonor => ({
  ...{ name: 's', manner, joinsAtMs: 60_000, claims, truth },
});

test.each([
  ['that claims to be a thousand times as fast', stranger('honest', 1e-5, 1)],
  ['that never gets warm', stranger('never warm', 1e-5, 0.01)],
  ['that is warm and never gets ready', stranger('never ready', 1e-5, 0.01)],
  ['that reports no step', stranger('mute', 1e-5, 0.01)],
])('[CO71] beside a stranger %s honest donors commit nearly what they do without it', (_, liar) => {
  const beside = commitsIn([...two, liar], SECONDS);
  expect(COMMITS_OF_TWO).toBeGreaterThan(500);
  expect(beside).toBeGreaterThan(0.8 * COMMITS_OF_TWO);
});

test('an honest newcomer is worth its visit', () => {
  expect(commitsIn([...two, stranger('honest', 0.001, 0.001)], SECONDS)).toBeGreaterThan(1.5 * COMMITS_OF_TWO);
});

test.each([
  ['that claims to be a thousand times as fast', [{ ...stranger('honest', 1e-5, 1), joinsAtMs: 0 }, ...two]],
  ['that claims what they do, and is the first', [{ ...stranger('honest', 0.01, 1), joinsAtMs: 0 }, ...two]],
  ['that claims what they do, and is the last', [...two, { ...stranger('honest', 0.01, 1), joinsAtMs: 0 }]],
])('a slow member of the first plan %s soon has no part, though nobody was seen before', (_, all) => {
  expect(commitsIn(all, SECONDS)).toBeGreaterThan(0.8 * COMMITS_OF_TWO);
});

test('where all are five times as slow as they say, nobody goes for long', () => {
  const slow = ['a', 'b', 'c'].map((name) => ({ ...honest(name), truth: 0.05 }));
  const frank = slow.map((donor) => ({ ...donor, claims: 0.05 }));
  expect(commitsIn(slow, SECONDS)).toBeGreaterThan(0.8 * commitsIn(frank, SECONDS));
});

test('a member that says it needs a quarter of an hour for a layer, and sends nothing, holds nobody for an hour', () => {
  // Plans by the donors alone: it has its part, however slow it says it is.
  const wishes = { auto: false, replicas: 0 };
  const liar = { ...stranger('starves', 900, 0.01), joinsAtMs: 0 };
  expect(commitsIn([...two, liar], SECONDS, wishes)).toBeGreaterThan(0.5 * commitsIn(two, SECONDS, wishes));
});

/** Two newcomers a second from then on, who vanish within three seconds. */
const crowd = (fromMs: number, untilMs: number, more: Pick<TimedDonor, 'wasHere'> = {}): TimedDonor[] =>
  arrayOf((untilMs - fromMs) / 500, (i) => ({
    ...{ name: `n${i}`, manner: 'honest' as const, claims: 0.01, truth: 0.01 },
    ...{ joinsAtMs: fromMs + 500 * i, staysMs: (3_000 * ((i * 7) % 10)) / 9, ...more },
  }));

describe('beside newcomers who stay for seconds, in a run whose plans have a part for each', () => {
  const wishes = { auto: false, replicas: 1 };
  const minutes = 3;
  const late = { ...honest('z'), joinsAtMs: 60_000 };

  test.each([
    ['who get ready at once', 20, 20_000, {}],
    ['who take seconds to get ready, and some of whom vanish meanwhile', 2_000, 20_000, {}],
    ['who come before the first step', 2_000, 100, {}],
    ['who prove that they were here before', 20, 20_000, { wasHere: true }],
  ] as const)(
    '%s donors at work do at least half of what they do alone, and an honest newcomer comes in',
    (_, warmMs, fromMs, more) => {
      const terms = { wishes, warmMs };
      const alone = timedRun(two, 60 * minutes, terms);
      const beside = timedRun([...two, ...crowd(fromMs, 60_000 * minutes, more), late], 60 * minutes, terms);
      expect(beside.commits).toBeGreaterThan(0.5 * alone.commits);
      expect(beside.givenUp).toBe(0);
      // It came after a minute.
      expect(beside.reports.get('z')).toBeGreaterThan(60);
    },
  );

  test('and beside ones who report no step at least three quarters, however many come', () => {
    const mutes = arrayOf(100 * minutes, (i) => ({
      ...{ name: `m${i}`, manner: 'mute' as const, claims: 0.01, truth: 0.01, joinsAtMs: 20_000 + 6_000 * i },
    }));
    const alone = timedRun(two, 600 * minutes, { wishes });
    const beside = timedRun([...two, ...mutes], 600 * minutes, { wishes });
    expect(beside.commits).toBeGreaterThan(0.75 * alone.commits);
    expect(beside.givenUp).toBe(0);
  });

  test('where all who did the newest step are gone, those who are there go on', () => {
    const gone = two.map((donor) => ({ ...donor, staysMs: 90_000 }));
    const { reports } = timedRun([...gone, ...crowd(20_000, 88_000), { ...late, joinsAtMs: 88_000 }], 60 * minutes, {
      wishes,
    });
    // From then on it is alone, and twice as slow.
    expect(reports.get('z')).toBeGreaterThan(30);
  });
});
