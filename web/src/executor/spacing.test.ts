import { expect, test } from 'vitest';
import { peerId, seededRandom } from '../../../swarm/base.ts';
import { DutyCycle } from './dutyCycle.ts';
import { Traffic } from './traffic.ts';

/** Time that passes only where someone waits: all who wait go on in order of their times. */
class VirtualClock {
  time = 0;
  #waiting: { readonly at: number; readonly resolve: () => void }[] = [];

  now(): number {
    return this.time;
  }

  wait(seconds: number): Promise<void> {
    return new Promise((resolve) => this.#waiting.push({ at: this.time + seconds, resolve }));
  }

  /** Until nobody waits any more. */
  async run(): Promise<void> {
    for (;;) {
      for (let turn = 0; turn < 20; turn++) await Promise.resolve();
      this.#waiting.sort((a, b) => a.at - b.at);
      const next = this.#waiting.shift();
      if (!next) return;
      this.time = Math.max(this.time, next.at);
      next.resolve();
    }
  }
}

/** Seconds. */
const ALONE = { F: 0.1, B: 0.2, evaluation: 0.05 };
const UPDATE = { op: 'update' } as const;

/** A GPU that its donors share evenly: a span lasts as long as the others leave it. */
class SharedMachine {
  readonly #clock: VirtualClock;
  #busy = 0;

  constructor(clock: VirtualClock) {
    this.#clock = clock;
  }

  /** So many seconds of work, when alone. */
  async compute(seconds: number): Promise<void> {
    this.#busy += 1;
    for (let left = seconds; left > 1e-9; ) {
      const slice = Math.min(left, seconds / 20);
      await this.#clock.wait(slice * this.#busy);
      left -= slice;
    }
    this.#busy -= 1;
  }
}

const near = (value: number, wanted: number, share: number): void => {
  expect(Math.abs(value / wanted - 1), `${value} is not ${wanted}`).toBeLessThan(share);
};

test('[LI5] at speed x the rate is x times the rate alone, however spans are stretched and timers late', async () => {
  const random = seededRandom(3);
  for (const speed of [0.9, 0.5, 0.25, 0.05]) {
    const clock = new VirtualClock();
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

test('[LI5] time spent waiting for others is next to no credit; full speed waits for nothing', async () => {
  const clock = new VirtualClock();
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
  expect(third - second).toBeGreaterThan(1.89);
  expect(fourth - third).toBeGreaterThan(1.89);
  expect(fifth).toBe(fourth);
});

test('[LI6] traffic stays within a tenth of the upload cap and of each receiver’s part', async () => {
  const clock = new VirtualClock();
  const traffic = new Traffic(clock);
  const [a, b, c] = ['a', 'b', 'c'].map(peerId);
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

/** Steps a second, past the first half, of donors that begin every step together on one machine. */
async function stepRate(donors: number, speed: number, seed: number, isForeseen: boolean): Promise<number> {
  const steps = 160;
  const clock = new VirtualClock();
  const machine = new SharedMachine(clock);
  const random = seededRandom(seed);
  const cycles = Array.from({ length: donors }, () => {
    const cycle = new DutyCycle(clock, undefined, random);
    cycle.speed = speed;
    if (isForeseen) cycle.forecast = ({ op }) => ALONE[op];
    return cycle;
  });
  const piece = (cycle: DutyCycle, op: 'F' | 'B'): Promise<void> => {
    let done = Promise.resolve();
    const submit = (): void => {
      done = machine.compute(ALONE[op]);
    };
    return cycle.run({ op, layers: [0, 2], recomputed: 0, samples: 4 }, submit, () => done);
  };
  const ends: number[] = [];
  void (async () => {
    for (let step = 0; step < steps; step++) {
      await Promise.all(cycles.map((cycle) => piece(cycle, 'F').then(() => piece(cycle, 'B'))));
      ends.push(clock.time);
    }
  })();
  await clock.run();
  return steps / 2 / ((ends.at(-1) ?? 0) - (ends[steps / 2 - 1] ?? 0));
}

test.each([true, false])('[LI5] donors of one machine keep their shares (forecast: %s)', async (isForeseen) => {
  const speed = 0.18;
  const alone = speed / (ALONE.F + ALONE.B);
  const rates = await Promise.all([1, 2, 3].map((seed) => stepRate(4, speed, seed, isForeseen)));
  const mean = rates.reduce((sum, rate) => sum + rate / rates.length, 0);
  expect(mean / alone).toBeGreaterThan(0.8);
  expect(mean / alone).toBeLessThan(1.05);
});
