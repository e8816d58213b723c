import { describe, expect, it } from 'vitest';
import { arrayOf, type PeerId, peerId, total } from '../base.ts';
import { NO_LIMITS } from '../limits.ts';
import { type Plan, peers } from '../plan/plan.ts';
import type { Cluster } from '../planner/cluster.ts';
import { PlannedRun, profile, samplesOf } from '../testing/plannedRun.ts';
import { doubted, SEEN_STEPS, workShares } from './doubt.ts';

const [A, B] = [peerId('a'), peerId('b')];

/** Seconds of a layer's forward and backward for a sample, as each donor really is. */
type Truth = Readonly<Record<PeerId, number>>;

/** A step is as long as the longest of its members takes, whatever they say. */
const trueSeconds = (plan: Plan, truth: Truth): number =>
  Math.max(...peers(plan).map((peer) => 3 * samplesOf(plan, peer) * (truth[peer] ?? 0)));

/** `claims`: what their spans say. */
function work(run: PlannedRun, from: number, to: number, truth: Truth, claims: Truth): number {
  let allSeconds = 0;
  for (let step = from; step < to; step++) {
    run.stepSeconds = trueSeconds(run.plan as Plan, truth);
    allSeconds += run.stepSeconds;
    run.step(step, (peer) => claims[peer] ?? 0);
    run.settle();
  }
  return allSeconds;
}
const share = (run: PlannedRun, peer: PeerId): number => workShares(run.plan as Plan).get(peer) ?? 0;

describe('a newcomer', () => {
  it('that claims to be a thousand times as fast begins with a small part, and gets more when it was seen', () => {
    const run = new PlannedRun();
    run.joins(A, profile(0.01));
    const truth = { [A]: 0.01, [B]: 0.00001 };
    work(run, 0, SEEN_STEPS, truth, truth);
    run.joins(B, profile(0.00001));
    expect(share(run, B)).toBeGreaterThan(0);
    expect(share(run, B)).toBeLessThanOrEqual(0.5);
    work(run, 30, 30 + SEEN_STEPS - 1, truth, truth);
    expect(share(run, A)).toBeGreaterThanOrEqual(0.5);
    work(run, 60, 62, truth, truth);
    expect(share(run, B)).toBeGreaterThan(0.9);
  });

  it('that is there first after the server is back takes no place of who did the work before, quick as it may be', () => {
    const run = new PlannedRun();
    run.plan = null;
    run.stepsBefore.set(A, SEEN_STEPS);
    run.offer.push(B);
    run.tell({
      ...{ type: 'donorJoined', peer: B, limits: NO_LIMITS, profile: profile(0.005), rememberedAs: null },
      ...{ remembered: null, hasHalves: false, address: B, isOwn: false },
    });
    run.joins(A, profile(0.01));
    expect(share(run, A)).toBeGreaterThanOrEqual(0.5);
  });

  it('that is a thousand times slower than it claims is found out by the clock, and is not taken again', () => {
    const run = new PlannedRun();
    run.joins(A, profile(0.01));
    const claims = { [A]: 0.01, [B]: 0.00001 };
    const truth = { ...claims, [B]: 1 };
    const alone = work(run, 0, 100, truth, claims) / 100;
    run.joins(B, profile(0.00001));
    expect(share(run, B)).toBeGreaterThan(0);
    work(run, 100, 110, truth, claims);
    expect(peers(run.plan as Plan)).toEqual([A]);
    const epoch = run.epoch;
    run.nowMs += 3_600_000;
    expect(work(run, 110, 1_000, truth, claims)).toBeCloseTo(890 * alone, 6);
    expect(run.epoch).toBe(epoch);
  });

  it('that was honest for as long as it was watched is found out as soon as it has more', () => {
    const run = new PlannedRun();
    run.joins(A, profile(0.01));
    const claims = { [A]: 0.01, [B]: 0.002 };
    work(run, 0, SEEN_STEPS, claims, claims);
    run.joins(B, profile(0.002));
    work(run, 30, 60, claims, claims);
    expect(share(run, B)).toBeGreaterThan(0.7);
    work(run, 60, 70, { ...claims, [B]: 1 }, claims);
    expect(share(run, B)).toBeLessThanOrEqual(0.5);
  });

  it('that is slow long after it was watched, whatever its spans say, loses its part', () => {
    const run = new PlannedRun();
    run.joins(A, profile(0.01));
    const claims = { [A]: 0.01, [B]: 0.002 };
    work(run, 0, SEEN_STEPS, claims, claims);
    run.joins(B, profile(0.002));
    work(run, 30, 90, claims, claims);
    expect(share(run, B)).toBeGreaterThan(0.7);
    work(run, 90, 130, { ...claims, [B]: 1 }, claims);
    expect(share(run, B)).toBeLessThan(0.1);
  });

  it('begins as it is where it is the first, where nobody was seen yet, or where this server opened it', () => {
    const unseen = new PlannedRun();
    unseen.joins(A, profile(0.01));
    unseen.joins(B, profile(0.0001));
    expect(share(unseen, B)).toBeGreaterThan(0.9);
    const own = new PlannedRun();
    own.joins(A, profile(0.01));
    const truth = { [A]: 0.01, [B]: 0.0001 };
    work(own, 0, SEEN_STEPS, truth, truth);
    own.joins(B, profile(0.0001), undefined, null, true);
    expect(share(own, B)).toBeGreaterThan(0.9);
  });
});

it('however many strangers come at once, all together count for no more than those who were seen', () => {
  const peer = (id: string, seconds: number): Cluster['peers'][number] => ({
    ...{ id, memoryBytes: 1, uploadBytesPerSecond: null, downloadBytesPerSecond: null },
    measured: { forwardSecondsPerLayer: [seconds, 2 * seconds], backwardSecondsPerLayer: [2 * seconds] },
  });
  const seconds = (cluster: Cluster['peers']) =>
    cluster.map(
      ({ measured }) => (measured?.forwardSecondsPerLayer[0] ?? 0) + (measured?.backwardSecondsPerLayer[0] ?? 0),
    );
  const seen = [peer('a', 0.01), peer('b', 0.02)];
  const strangers = arrayOf(10, (i) => peer(`s${i}`, 1e-6));
  const known = new Set(['a', 'b']);
  const [a = 0, b = 0, ...others] = seconds(doubted([...seen, ...strangers], known, 16)).map((each) => 1 / each);
  expect(a + b).toBeCloseTo(50, 9);
  expect(total(others)).toBeCloseTo(50, 9);
  // One alone is taken for half of the fastest; one who claims to be slower is believed.
  expect(seconds(doubted([...seen, peer('s', 1e-6)], known, 16)).at(-1)).toBeCloseTo(0.06, 9);
  expect(doubted([...seen, peer('s', 1)], known, 16).at(-1)).toEqual(peer('s', 1));
  expect(doubted(strangers, known, 16)).toBe(strangers);
});

it('who measured itself on a busy machine is doubted in micro-batches of every size, also past the measured ones', () => {
  const peer = (id: string, seconds: readonly number[]): Cluster['peers'][number] => ({
    ...{ id, memoryBytes: 1, uploadBytesPerSecond: null, downloadBytesPerSecond: null },
    measured: { forwardSecondsPerLayer: [...seconds], backwardSecondsPerLayer: seconds.map((each) => 2 * each) },
  });
  const seen = peer('a', [1, 2, 3, 4, 5]);
  for (const claims of [[3, 3.1], [3], [0.1, 5.9, 6], [5, 5.1, 5.2, 5.3, 5.4, 5.5], [9, 9, 9]]) {
    const measured = doubted([seen, peer('s', claims)], new Set(['a']), 64)[1]?.measured;
    const [forward, backward] = [measured?.forwardSecondsPerLayer ?? [], measured?.backwardSecondsPerLayer ?? []];
    const pass = (samples: number): number =>
      [forward, backward].reduce((sum, table) => {
        const [last = 0, before = 0] = [table.at(-1), table.at(-2)];
        return (
          sum + (table[samples - 1] ?? last + (table.length > 1 ? last - before : last) * (samples - table.length))
        );
      }, 0);
    for (let samples = 1; samples <= 64; samples++) {
      const what = `${claims}, ${samples} samples`;
      // Half as fast as the one that was seen, which takes 3 s a sample; in a size that it measured never faster than it says.
      expect(pass(samples), what).toBeGreaterThanOrEqual(6 * samples - 1e-9);
      expect(pass(samples), what).toBeGreaterThanOrEqual(3 * (claims[samples - 1] ?? 0) - 1e-9);
    }
  }
});

it('a newcomer that is slow in small micro-batches and says that it is fast in large ones is not given the run', () => {
  const run = new PlannedRun();
  run.joins(A, profile(0.01));
  const truth = { [A]: 0.01 };
  work(run, 0, SEEN_STEPS, truth, truth);
  const [small, large] = [profile(0.03).layers[0], profile(0.0151).layers[1]];
  run.joins(B, { ...profile(1), layers: [small, large].flatMap((layer) => layer ?? []) });
  // As after a pause: a plan is needed, whoever is here.
  run.want('now');
  run.settle();
  expect(share(run, A)).toBeGreaterThan(0.5);
});

it('a plan that is needed leaves out nobody who was seen for a newcomer, however far from the server that one is', () => {
  const run = new PlannedRun();
  run.roundTripMs.set(A, 1_000);
  run.joins(A, profile(0.0001));
  const truth = { [A]: 0.0001 };
  work(run, 0, SEEN_STEPS, truth, truth);
  run.joins(B, profile(0.0001));
  run.want('now');
  run.settle();
  expect(share(run, A)).toBeGreaterThan(0);
  // It holds no model at all: only who was not seen can train.
  run.offer.splice(0, 1);
  run.tell({ type: 'donorGone', peer: A });
  run.want('now');
  run.settle();
  expect(peers(run.plan as Plan)).toEqual([B]);
});

it('a plan is answered with what a step of it, and the move to it, are taken to need', () => {
  const run = new PlannedRun();
  run.joins(A, profile(0.01));
  run.joins(B, profile(0.01));
  const [alone, both] = run.proposals.flatMap((answer) => (answer.answer === 'plan' ? answer.predicted : []));
  // 16 samples through 4 layers, forward and backward, and the head's share on top; the state is loaded from the server.
  expect(alone?.stepMs).toBeGreaterThan(1_920);
  expect(alone?.stepMs).toBeLessThan(2_500);
  expect(alone?.movingMs).toBeGreaterThan(0);
  expect(both?.stepMs).toBeLessThan(alone?.stepMs ?? 0);
  expect(both?.movingMs).toBeGreaterThan(0);
});
