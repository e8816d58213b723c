import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { playChaos } from './chaos.ts';

/** A million in all: `SHOAL_CHAOS_EVENTS=1000000 npx vitest run swarm/coordinator/chaos.test.ts`. */
const EVENTS = Number(process.env.SHOAL_CHAOS_EVENTS ?? 200_000);

describe('coordinator, left to chance', () => {
  it('[CO1–CO20] all invariants hold after every event, and the run finishes whenever its donors stay', () => {
    const sum = { events: 0, epochs: 0, rollBacks: 0, commits: 0, runs: 0 };
    const seed = Number(process.env.SHOAL_CHAOS_SEED ?? 1);
    for (let run = 0; sum.events < EVENTS; run++) {
      try {
        const result = playChaos(seed + run, 1000);
        for (const key of ['events', 'epochs', 'rollBacks', 'commits'] as const) sum[key] += result[key];
        sum.runs++;
      } catch (cause) {
        throw new Error(`seed ${seed + run}`, { cause });
      }
    }
    console.log(sum);
  });
});
void fc;
void expect;
