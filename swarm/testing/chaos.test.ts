import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { playChaos } from './chaos.ts';

/** A million in all: `SHOAL_CHAOS_EVENTS=1000000 npx vitest run swarm/testing/chaos.test.ts`. */
const EVENTS = Number(process.env.SHOAL_CHAOS_EVENTS ?? 100_000);
/** About as many as one play has. */
const EVENTS_A_PLAY = 580;
/** The same plays every time unless told: a failure prints its own seed as the counterexample. */
const SEED = Number(process.env.SHOAL_CHAOS_SEED ?? 1);

describe('the coordinator, left to chance', () => {
  it('[CO1–CO20] keeps every invariant after every event, and finishes whenever its donors stay', {
    timeout: 300_000,
  }, () => {
    const sum = { plays: 0, events: 0, epochs: 0, rollBacks: 0, commits: 0, laneCommits: 0 };
    fc.assert(
      fc.property(fc.integer({ min: 0 }), (seed) => {
        const { events, epochs, rollBacks, commits, laneCommits } = playChaos(seed, 1_000);
        sum.plays++;
        sum.events += events;
        sum.epochs += epochs;
        sum.rollBacks += rollBacks;
        sum.commits += commits;
        sum.laneCommits += laneCommits;
      }),
      { seed: SEED, numRuns: Math.ceil(EVENTS / EVENTS_A_PLAY), endOnFailure: true },
    );
    console.info(`left to chance: ${JSON.stringify(sum)}`);
    // It was chaos, and not a quiet afternoon.
    expect(sum.rollBacks).toBeGreaterThan(sum.plays / 2);
    expect(sum.epochs).toBeGreaterThan(sum.plays * 5);
    expect(sum.laneCommits).toBeGreaterThan(sum.plays);
  });

  it('plays the same play twice from one seed', () => {
    expect(playChaos(7, 1_000)).toEqual(playChaos(7, 1_000));
  });
});
