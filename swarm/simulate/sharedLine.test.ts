import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { seededRandom } from '../base.ts';
import { SCHEDULE_NAMES } from '../plan/plan.ts';
import { chain, run, upTo } from '../testing/chain.ts';
import { outcomeDocument } from './outcome.ts';
import { sharedLine } from './sharedLine.ts';

/** When each message is through, by the number of its work: `messages` are [from, at, seconds, neededAt]. */
function through(sharing: 'mixed' | 'turns', messages: readonly (readonly [number, number, number, number])[]) {
  const line = sharedLine(sharing);
  const ends = messages.map(() => Number.NaN);
  const instants = new Set(messages.map(([, at]) => at));
  for (let now = 0; now < Infinity; now = Math.min(line.nextSeconds(), ...instants)) {
    if (instants.delete(now))
      for (const [work, [from, at, seconds, neededAt]] of messages.entries())
        if (at === now) line.add(from, { work, seconds, neededAt });
    for (const work of line.goOn(now)) ends[work] = now;
  }
  return ends;
}

describe('a shared line', () => {
  // Until 2 alone, until 6 two by half (2 seconds of the line each), then the rest alone.
  test('[SI15] mixed: what is under way has equal parts', () => {
    expect(
      through('mixed', [
        [0, 0, 4, 0],
        [1, 2, 3, 0],
      ]),
    ).toEqual([6, 7]);
  });

  test('[SI15] mixed: a sender has one message under way, however many it has', () => {
    // Two by half until 4 (2 seconds of the line each), again until 8, and the last one alone.
    expect(
      through('mixed', [
        [0, 0, 2, 0],
        [0, 0, 2, 0],
        [0, 0, 2, 0],
        [1, 0, 4, 0],
      ]),
    ).toEqual([4, 8, 10, 8]);
  });

  test('[SI15] turns: one whole message at a time, the one needed first, and none is broken off', () => {
    expect(
      through('turns', [
        [0, 0, 4, 5],
        [1, 1, 4, 3],
        [2, 2, 4, 1],
      ]),
    ).toEqual([4, 12, 8]);
  });

  test('[SI15] turns: of one instant the one needed first, of equals the first sender’s; each sender in its order', () => {
    expect(
      through('turns', [
        [3, 0, 1, 2],
        [1, 0, 1, 2],
        [2, 0, 1, 1],
        [2, 0, 1, 0],
      ]),
    ).toEqual([4, 3, 1, 2]);
  });

  test('[SI15] messages of no bytes take no time', () => {
    for (const sharing of ['mixed', 'turns'] as const)
      expect(
        through(sharing, [
          [0, 0, 0, 0],
          [1, 0, 0, 0],
          [0, 1, 2, 0],
        ]),
      ).toEqual([0, 0, 3]);
  });
});

describe('pipelines side by side', () => {
  const slow = { link: { latencySeconds: 1, bytesPerSecond: 2 }, activationBytes: 4, gradientBytes: 4 };

  test('[SI15] two of two peers, one micro-batch each, by hand', () => {
    const of = (sharing: string) =>
      outcomeDocument(run(chain('1f1b', 2, 1, { ...slow, pipelines: 2, sharedLinks: [0], sharing })));
    // F to 1; 4 bytes at half of 2 a second each: through at 5, there at 6; B from 7 to 9, through at 13, there at 14.
    expect(of('mixed')).toEqual({
      makespanSeconds: 16,
      bubbleRatio: 1 - 12 / 64,
      peers: upTo(4).map(() => ({ busySeconds: 3, idleSeconds: 13, peakInFlight: 1 })),
      timeline: [
        { peer: 0, action: '0F0', start: 0, end: 1 },
        { peer: 2, action: '0F0', start: 0, end: 1 },
        { peer: 1, action: '1F0', start: 6, end: 7 },
        { peer: 3, action: '1F0', start: 6, end: 7 },
        { peer: 1, action: '1B0', start: 7, end: 9 },
        { peer: 3, action: '1B0', start: 7, end: 9 },
        { peer: 0, action: '0B0', start: 14, end: 16 },
        { peer: 2, action: '0B0', start: 14, end: 16 },
      ],
    });
    // The first one's message is through at 3, the second one's at 5; back at 9 and 11.
    expect(of('turns').timeline).toEqual([
      { peer: 0, action: '0F0', start: 0, end: 1 },
      { peer: 2, action: '0F0', start: 0, end: 1 },
      { peer: 1, action: '1F0', start: 4, end: 5 },
      { peer: 1, action: '1B0', start: 5, end: 7 },
      { peer: 3, action: '1F0', start: 6, end: 7 },
      { peer: 3, action: '1B0', start: 7, end: 9 },
      { peer: 0, action: '0B0', start: 10, end: 12 },
      { peer: 2, action: '0B0', start: 12, end: 14 },
    ]);
  });

  /** A problem of whole numbers that every schedule can have. */
  function anyProblem(seed: number) {
    const random = seededRandom(seed);
    const below = (limit: number): number => Math.floor(random() * limit);
    const schedule = SCHEDULE_NAMES[below(SCHEDULE_NAMES.length)] ?? 'gpipe';
    const p = 2 + 2 * below(2);
    return {
      pipelines: 2 + below(2),
      sharedLinks: upTo(p - 1).filter((link) => link === 0 || random() < 0.5),
      problem: {
        schedule,
        microBatches: p * (1 + below(3)),
        stages: upTo(p).map(() => ({ forwardSeconds: 6 * (1 + below(4)), backwardSeconds: 6 * (1 + below(6)) })),
        chunks: 1 + below(3),
        link: upTo(p).map(() => ({ latencySeconds: below(5), bytesPerSecond: 2 ** below(4) })),
        activationBytes: 24 * below(4),
        gradientBytes: 24 * below(4),
        jitter: { computeSeconds: 0, linkSeconds: 0, seed: 1 },
      },
    };
  }
  const problemOf = ({ problem }: ReturnType<typeof anyProblem>, more: object) =>
    chain(problem.schedule, problem.stages.length, problem.microBatches, { ...problem, ...more });
  const ends = (given: ReturnType<typeof chain>, peers: number) =>
    outcomeDocument(run(given)).timeline.map(({ peer, action, end }) => ({ peer: peer % peers, action, end }));
  const check = (holds: (seed: number) => void) =>
    fc.assert(fc.property(fc.integer(), holds), { seed: 5, numRuns: 100 });

  test('[SI15] with no line in common each takes what one takes', () => {
    check((seed) => {
      const given = anyProblem(seed);
      const jitter = { computeSeconds: 1, linkSeconds: 1, seed: 3 };
      const one = outcomeDocument(run(problemOf(given, { jitter })));
      const many = outcomeDocument(run(problemOf(given, { jitter, pipelines: 3 })));
      expect(many.peers).toEqual([...one.peers, ...one.peers, ...one.peers]);
      expect(many.bubbleRatio).toBeCloseTo(one.bubbleRatio, 12);
      expect(many.makespanSeconds).toBe(one.makespanSeconds);
    });
  });

  // All do the same at the same time, so that equal parts of a line are a line of its own, so many times slower.
  test('[SI15] mixed: each takes what one takes on links as much slower as there are pipelines', () => {
    check((seed) => {
      const given = anyProblem(seed);
      const { pipelines, sharedLinks, problem } = given;
      const link = problem.link.map((own, hop) =>
        sharedLinks.includes(hop) ? { ...own, bytesPerSecond: own.bytesPerSecond / pipelines } : own,
      );
      const expected = new Map(
        ends(problemOf(given, { link }), problem.stages.length).map(({ peer, action, end }) => [
          `${peer} ${action}`,
          end,
        ]),
      );
      const shared = ends(problemOf(given, { pipelines, sharedLinks, sharing: 'mixed' }), problem.stages.length);
      expect(shared.length).toBe(pipelines * expected.size);
      for (const { peer, action, end } of shared) expect(end).toBeCloseTo(expected.get(`${peer} ${action}`) ?? -1, 6);
    });
  });
});
