import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type DecidedBy, playChaos } from './chaos.ts';

/** `npm test -- --long`. */
const IS_LONG = process.env.SHOAL_LONG === '1';
/** In all: `SHOAL_CHAOS_EVENTS=1000000 npx vitest run swarm/testing/chaos.test.ts`. */
const EVENTS = Number(process.env.SHOAL_CHAOS_EVENTS ?? (IS_LONG ? 1_000_000 : 50_000));
/** About as many as one play has. */
const EVENTS_A_PLAY = 580;
/** With all that decides a run each play takes some tenths of a second: `SHOAL_CHAOS_RUNS=2000` for each kind of planning. */
const RUNS = Number(process.env.SHOAL_CHAOS_RUNS ?? (IS_LONG ? 200 : 12));
/** The same plays every time unless told: a failure prints its own seed as the counterexample. */
const SEED = Number(process.env.SHOAL_CHAOS_SEED ?? 1);
const TIMEOUT_MS = 3_600_000;

function leftToChance(numRuns: number, firstActEvents: number, decidedBy: DecidedBy) {
  const sum = { plays: 0, events: 0, epochs: 0, rollBacks: 0, commits: 0, laneCommits: 0 };
  fc.assert(
    fc.property(fc.integer({ min: 0 }), (seed) => {
      const { events, epochs, rollBacks, commits, laneCommits } = playChaos(seed, firstActEvents, decidedBy);
      sum.plays++;
      sum.events += events;
      sum.epochs += epochs;
      sum.rollBacks += rollBacks;
      sum.commits += commits;
      sum.laneCommits += laneCommits;
    }),
    { seed: SEED, numRuns, endOnFailure: true },
  );
  console.info(`left to chance, decided by ${decidedBy}: ${JSON.stringify(sum)}`);
  // It was chaos, and not a quiet afternoon.
  expect(sum.rollBacks).toBeGreaterThan(sum.plays / 4);
  expect(sum.epochs).toBeGreaterThan(sum.plays * 5);
  return sum;
}

describe('the coordinator, left to chance', () => {
  it('[CO1–CO16] keeps every invariant after every event, and finishes whenever its donors stay', {
    timeout: TIMEOUT_MS,
  }, () => {
    const { laneCommits, plays } = leftToChance(Math.ceil(EVENTS / EVENTS_A_PLAY), 1_000, 'coordinator');
    expect(laneCommits).toBeGreaterThan(plays);
  });

  it('plays the same play twice from one seed', () => {
    expect(playChaos(7, 1_000, 'coordinator')).toEqual(playChaos(7, 1_000, 'coordinator'));
  });
});

describe('all that decides a run, left to chance', () => {
  for (const decidedBy of ['wishes', 'auto'] as const)
    it(`by ${decidedBy} keeps every invariant, also of a copy of its state, and finishes whenever its donors stay`, {
      timeout: TIMEOUT_MS,
    }, () => {
      leftToChance(RUNS, 250, decidedBy);
    });
});
