import { expect, test } from 'vitest';
import { peerId, seededRandom } from '../../../swarm/base.ts';
import { SLACK_SECONDS } from '../../../swarm/limits.ts';
import { VirtualTime } from '../testing/virtualTime.ts';
import { DutyCycle, type WorkKind } from './dutyCycle.ts';
import { Traffic } from './traffic.ts';

/** Seconds. */
const ALONE = { F: 0.07, R: 0.07, B: 0.17, evaluation: 0.07 };
const LANES = 4;
/** Until the new values are with everyone, at most. */
const EXCHANGE = 0.3;
const UPDATE = { op: 'update' } as const;

const near = (value: number, wanted: number, share: number): void => {
  expect(Math.abs(value / wanted - 1), `${value} is not ${wanted}`).toBeLessThan(share);
};

test('at speed x the rate is x times the rate alone, however spans are stretched and timers late', async () => {
  const random = seededRandom(3);
  for (const speed of [0.9, 0.5, 0.25, 0.05]) {
    const clock = new VirtualTime();
    const late = { now: () => clock.now(), wait: (seconds: number) => clock.wait(seconds + 0.004 * random()) };
    const cycle = new DutyCycle(late);
    cycle.speed = speed;
    const count = 200;
    const work = async (): Promise<void> => {
      for (let i = 0; i < count; i++) {
        // Every other span meets another donor's and takes longer, within what its place holds.
        const stretch = i % 2 === 0 ? 1 : Math.min(1.6, 1 / speed);
        await cycle.run(
          UPDATE,
          () => {},
          () => clock.wait(0.05 * stretch),
        );
      }
    };
    void work();
    await clock.run();
    near(count / clock.time, speed / 0.05, 0.05);
  }
});

test('a GPU that waits for layers within a span rests meanwhile', async () => {
  const clock = new VirtualTime();
  const cycle = new DutyCycle(clock);
  cycle.speed = 0.25;
  const spans = async (count: number, idleSeconds: number): Promise<number> => {
    const begun = clock.time;
    for (let i = 0; i < count; i++)
      await cycle.run(
        UPDATE,
        () => {},
        () => clock.wait(0.05 + idleSeconds),
        () => idleSeconds,
      );
    return (clock.time - begun) / count;
  };
  let [hidden, longer] = [0, 0];
  void (async () => {
    hidden = await spans(50, 0.1);
    longer = await spans(50, 0.3);
  })();
  await clock.run();
  near(hidden, 0.2, 0.05);
  near(longer, 0.35, 0.05);
});

test('time spent waiting for others is little credit; full speed waits for nothing', async () => {
  const clock = new VirtualTime();
  const cycle = new DutyCycle(clock);
  const submitted: number[] = [];
  const run = () =>
    cycle.run(
      UPDATE,
      () => submitted.push(clock.time),
      () => clock.wait(1),
    );
  void (async () => {
    cycle.speed = 0.5;
    await run();
    await clock.wait(100);
    await run();
    await run();
    cycle.speed = 1;
    await run();
    await run();
  })();
  await clock.run();
  const [first = 0, second = 0, third = 0, fourth = 0, fifth = 0] = submitted;
  expect(second - first).toBeCloseTo(101, 6);
  expect(third - second).toBeCloseTo(2 - SLACK_SECONDS, 6);
  expect(fourth - third).toBeCloseTo(2, 6);
  expect(fifth).toBe(fourth);
});

test('[LI6] traffic stays within a tenth of the upload cap and of each receiver’s part', async () => {
  const clock = new VirtualTime();
  const traffic = new Traffic(clock);
  const [a, b, c] = [peerId('a'), peerId('b'), peerId('c')];
  traffic.limit({ uploadBytesPerSecond: 2e6, downloadBytesPerSecond: 1e6 });
  traffic.share(new Map([[a, 5e5]]));
  const sent = new Map([a, b, c].map((peer) => [peer, 0]));
  const ends = new Map<unknown, number>();
  for (const [peer, count] of [
    [a, 100],
    [b, 200],
    [c, 200],
  ] as const) {
    void (async () => {
      for (let i = 0; i < count; i++) {
        await traffic.maySend(peer, 65_536);
        sent.set(peer, (sent.get(peer) ?? 0) + 65_536);
      }
      ends.set(peer, clock.time);
    })();
  }
  void (async () => {
    for (let i = 0; i < 50; i++) await traffic.fetched(100_000);
    ends.set('fetched', clock.time);
  })();
  await clock.run();
  near((100 * 65_536) / (ends.get(a) ?? 0), 5e5, 0.1);
  const all = [...sent.values()].reduce((sum, bytes) => sum + bytes, 0);
  near(all / clock.time, 2e6, 0.1);
  near(5_000_000 / (ends.get('fetched') ?? 0), 1e6, 0.1);
});

/** How long a step takes past the first ones, of lanes of one stage that share a machine and `samples` samples. */
async function stepSeconds(donors: number, pieces: number, seed: number, isForeseen: boolean): Promise<number> {
  const [speed, steps, capacity] = [0.18, 60, 1.25];
  const machine = new VirtualTime(capacity);
  const random = seededRandom(seed);
  const cycles = Array.from({ length: donors }, () => {
    const cycle = new DutyCycle(machine, undefined, random);
    cycle.speed = speed;
    if (isForeseen) cycle.admitted = ({ op }) => ALONE[op] / pieces;
    return cycle;
  });
  const piece = (cycle: DutyCycle, kind: WorkKind, seconds: number): Promise<void> => {
    let done = Promise.resolve();
    const submit = (): void => {
      done = machine.compute(seconds * (1 + 0.1 * random()));
    };
    return cycle.run(kind, submit, () => done);
  };
  const computed = async (cycle: DutyCycle): Promise<void> => {
    for (const op of ['F', 'B'] as const)
      for (let count = 0; count < (LANES * pieces) / donors; count++)
        await piece(cycle, { op, layers: [0, 2], recomputed: 0, samples: 2 }, ALONE[op] / pieces);
    await piece(cycle, { op: 'norms' }, 0.003);
  };
  const update = async (cycle: DutyCycle): Promise<void> => {
    await piece(cycle, UPDATE, 0.006);
    await machine.wait(EXCHANGE * random());
  };
  const seconds: number[] = [];
  void (async () => {
    for (let step = 0; step < steps; step++) {
      const begun = machine.time;
      await Promise.all(cycles.map(computed));
      await Promise.all(cycles.map(update));
      seconds.push(machine.time - begun);
    }
  })();
  await machine.run();
  return median(seconds.slice(3));
}

const median = (values: number[]): number => values.sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;

test.each([
  [1, true], // without an admission's times a donor with one piece never meets its GPU alone
  [2, true],
  [2, false],
])(
  'four lanes of one machine keep their shares (micro-batches of each: %s, forecast: %s)',
  async (pieces, isForeseen) => {
    const ratios = await Promise.all(
      Array.from({ length: 8 }, async (_, seed) => {
        const [one, four] = await Promise.all(
          [1, LANES].map((donors) => stepSeconds(donors, pieces, seed, isForeseen)),
        );
        return (one ?? 0) / (four ?? Number.NaN);
      }),
    );
    expect(median(ratios)).toBeGreaterThan(3.3);
    expect(Math.max(...ratios)).toBeLessThan(4.1);
  },
);
