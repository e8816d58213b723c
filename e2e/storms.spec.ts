/**
 * Many donors at once, coming and going, against the built server. Times here are bounds of what a person would call
 * broken, three times what a quiet machine keeps; what it keeps stands in BENCHMARKS.md.
 */
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { Besieged, measuredProfile, strangersAddress } from './strangers.ts';

const JOINS = 200;
const JOINS_MS = 10_000;
/** 99 of 100 have their place by then. */
const PLACE_LIMIT_MS = 6_000;
const FLAPS = 60;
const options = { timeout: 240_000 };

test('[CO37] 200 joins in ten seconds: 99 of 100 soon have their place in the queue', options, async () => {
  const besieged = await Besieged.training({ honest: 2 });
  const placesMs = await Promise.all(
    Array.from({ length: JOINS }, async (_, number) => {
      await sleep((number * JOINS_MS) / JOINS);
      const beganMs = performance.now();
      const newcomer = besieged.donor({ address: strangersAddress(number), profile: measuredProfile(1) });
      await newcomer.hears('standby');
      return performance.now() - beganMs;
    }),
  );
  placesMs.sort((a, b) => a - b);
  expect(placesMs[Math.floor(0.99 * JOINS) - 1]).toBeLessThan(PLACE_LIMIT_MS);
  await besieged.commits(20);
});

test(
  '[CO74] half of the donors gone within a second: those who are left train on after one new plan',
  options,
  async () => {
    const besieged = await Besieged.training({ honest: 8, stages: 2 });
    const [left, gone] = [besieged.honest.slice(0, 4), besieged.honest.slice(4)];
    const [first] = left;
    const before = first?.heardCount('prepare') ?? 0;
    for (const donor of gone) {
      donor.vanish();
      await sleep(250);
    }
    besieged.honest = left;
    await besieged.commits(20);
    // Two where the machine was so busy that two of them went half a second apart.
    expect((first?.heardCount('prepare') ?? 0) - before).toBeLessThanOrEqual(2);
  },
);

test(
  '[SV31] one that joins and vanishes sixty times costs the others no step after its second visit',
  options,
  async () => {
    const besieged = await Besieged.training({ honest: 2, stages: 1 });
    const [first] = besieged.honest;
    const costs: number[] = [];
    for (let visit = 0; visit < FLAPS; visit++) {
      const before = first?.heardCount('abandon') ?? 0;
      const flapper = besieged.donor({ address: strangersAddress(1) });
      await Promise.race([flapper.hears('start'), flapper.hears('standby'), flapper.hears('refused'), flapper.closed]);
      flapper.vanish();
      await flapper.closed;
      await besieged.commits(3);
      costs.push((first?.heardCount('abandon') ?? 0) - before);
    }
    expect(costs.slice(2).reduce((sum, cost) => sum + cost, 0)).toBe(0);
  },
);
