/** Many donors at once, coming and going, against the built server. How fast that goes stands in BENCHMARKS.md. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { Besieged, measuredProfile, strangersAddress } from './strangers.ts';

const JOINS = 200;
const JOINS_MS = 10_000;
const FLAPS = 60;
const options = { timeout: 240_000 };

test('[CO37] of 200 joins in ten seconds everyone is told its place in the queue first', options, async () => {
  const besieged = await Besieged.training({ honest: 2 });
  const places = await Promise.all(
    Array.from({ length: JOINS }, async (_, number) => {
      await sleep((number * JOINS_MS) / JOINS);
      const newcomer = besieged.donor({ address: strangersAddress(number), profile: measuredProfile(1) });
      const { why, place } = await newcomer.hears('standby');
      expect(why).toBe('queued');
      return place;
    }),
  );
  const sorted = places.map((place) => place ?? 0).toSorted((one, other) => one - other);
  // Nobody of them gets a part, so each one stands behind who came before.
  const [first = 0] = sorted;
  expect(sorted).toEqual(sorted.map((_, number) => first + number));
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
