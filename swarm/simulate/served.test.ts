import { describe, expect, test } from 'vitest';
import { below, seededRandom, totalOf } from '../base.ts';
import { SCHEDULE_NAMES } from '../plan/plan.ts';
import { chain, run, upTo } from '../testing/chain.ts';
import { outcomeDocument, outcomeOf } from './outcome.ts';
import { parseSimulateProblem } from './problem.ts';

type Document = ReturnType<typeof outcomeDocument>;

const served = (...[schedule, peers, microBatches, more]: Parameters<typeof chain>): Document['served'] =>
  outcomeDocument(run(chain(schedule, peers, microBatches, more))).served;

describe('pieces of requests in idle time', () => {
  // Idle of 21 s, peer by peer: 9; 1, 6 and 2; 2, 3 and 4; 3 and 6.
  test.each([
    [1, 0, 36, 1],
    [2, 0, 16, (48 + 32) / 84],
    [3, 0, 10, (48 + 30) / 84],
    [1, 1, 36 - 9, (48 + 27) / 84],
    [9, 0, 1, (48 + 9) / 84],
    [10, 0, 0, 48 / 84],
    [1, 1e9, 0, 48 / 84],
    [0.1, 0, 360, 1],
  ])('gpipe, (4, 4): pieces of %d s, a guard of %d s: %i', (pieceSeconds, guardSeconds, pieces, busyRatio) => {
    const found = served('gpipe', 4, 4, { requests: { pieceSeconds, guardSeconds } });
    expect(found?.pieces).toBe(pieces);
    expect(found?.busyRatio).toBeCloseTo(busyRatio, 12);
  });

  test('intervals that are whole pieces but for their last bits have all of them', () => {
    const stages = upTo(4).map(() => ({ forwardSeconds: 0.1, backwardSeconds: 0.2 }));
    const found = served('gpipe', 4, 4, { stages, requests: { pieceSeconds: 0.1, guardSeconds: 0 } });
    expect(found?.pieces).toBe(36);
    expect(found?.busyRatio).toBeCloseTo(1, 12);
  });

  test('all pipelines have their peers’ intervals, a guard is none unless said, and without requests nothing is said', () => {
    const requests = { pieceSeconds: 1 };
    expect(served('gpipe', 4, 4, { requests, pipelines: 3 })).toEqual({ pieces: 108, busyRatio: 1 });
    expect(served('gpipe', 4, 4)).toBeUndefined();
    expect(served('gpipe', 1, 4, { requests })).toEqual({ pieces: 0, busyRatio: 1 });
    const nothing = { stages: [{ forwardSeconds: 0, backwardSeconds: 0 }] };
    expect(served('gpipe', 1, 1, { ...nothing, requests })).toEqual({ pieces: 0, busyRatio: 1 });
  });

  test('a piece too short to be counted is refused', () => {
    const outcome = outcomeOf(chain('gpipe', 2, 2, { requests: { pieceSeconds: 5e-324, guardSeconds: 0 } }));
    expect(outcome).toEqual({
      ok: false,
      reason: 'requests.pieceSeconds is too short for its pieces to be counted',
    });
  });

  test('random problems: as many as a walk along the printed timeline finds, which is that without requests', () => {
    for (let seed = 1; seed <= 300; seed++) {
      const random = seededRandom(seed);
      const schedule = SCHEDULE_NAMES[below(random, SCHEDULE_NAMES.length)] ?? 'gpipe';
      const peers = 2 * (1 + below(random, 3));
      const parsed = parseSimulateProblem({
        ...{ schedule, microBatches: peers * (1 + below(random, 3)), chunks: 2, pipelines: 1 + below(random, 2) },
        stages: upTo(peers).map(() => ({ forwardSeconds: below(random, 4), backwardSeconds: random() * 5 })),
        link: { latencySeconds: random(), bytesPerSecond: 1 + random() },
        ...{ activationBytes: random(), gradientBytes: random(), jitter: { computeSeconds: random() / 4, seed } },
      });
      if (!parsed.ok) throw new Error(`${seed}: ${parsed.reason}`);
      const plain = outcomeDocument(run(parsed.value));
      const requests = { pieceSeconds: 0.01 + random() * 2, guardSeconds: below(random, 2) * random() };
      const { served: found, ...training } = outcomeDocument(run({ ...parsed.value, requests }));
      expect(training, `seed ${seed}`).toEqual(plain);
      const pieces = walked(plain, requests);
      expect(found?.pieces, `seed ${seed}`).toBe(pieces);
      const busy = totalOf(plain.peers, ({ busySeconds }) => busySeconds);
      const whole = plain.peers.length * plain.makespanSeconds;
      expect(found?.busyRatio).toBeCloseTo((busy + pieces * requests.pieceSeconds) / whole, 12);
      expect(found?.busyRatio).toBeLessThanOrEqual(1 + 1e-9);
    }
  });
});

/** Piece after piece, as each still ends before the next action of its peer, less the guard. */
function walked(
  { timeline, peers, makespanSeconds }: Document,
  { pieceSeconds, guardSeconds }: { readonly pieceSeconds: number; readonly guardSeconds: number },
): number {
  let pieces = 0;
  for (const peer of peers.keys()) {
    const own = timeline.filter((bar) => bar.peer === peer);
    const ends = [0, ...own.map(({ end }) => end)];
    for (const [index, from] of ends.entries()) {
      const until = own[index]?.start ?? makespanSeconds;
      for (let count = 1; from + count * pieceSeconds + guardSeconds <= until + 1e-9 * pieceSeconds; count++) pieces++;
    }
  }
  return pieces;
}
