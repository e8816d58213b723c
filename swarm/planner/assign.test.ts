import { describe, expect, test } from 'vitest';
import { arrayOf, type Random, seededRandom, totalOf } from '../base.ts';
import { randomSizing, type Shape } from '../testing/randomSizing.ts';
import { type Assignment, assign } from './assign.ts';
import { peerCosts, roomGiB, type SizingProblem } from './sizing.ts';

type Peer = SizingProblem['peers'][number];

/** The contract's words (§5) once more, in loops: no line is shared with what is tested. */
const curveAt = ({ table, slope, intercept }: Peer['forwardMs'], m: number) => table[m - 1] ?? slope * m + intercept;

function activation({ activationGiB: { table } }: Peer, m: number): number {
  const own = table[m - 1];
  if (own !== undefined) return own;
  const last = table.at(-1) ?? 0;
  if (table.length === 1) return last * m;
  const tail = table.slice(-5);
  return last + ((last - (tail[0] ?? 0)) / (tail.length - 1)) * (m - table.length);
}

const room = (problem: SizingProblem, peer: Peer, m: number): number =>
  problem.usableFraction * peer.memoryGiB - problem.communicationGiB - activation(peer, m);

function largest(problem: SizingProblem, peer: Peer, lessGiB: number): number {
  let most = 0;
  for (let m = 1; m <= 2000; m++) if (room(problem, peer, m) - lessGiB >= -1e-9) most = m;
  return most === 2000 ? Infinity : most;
}

function time(problem: SizingProblem, peer: Peer, m: number, l: number): number {
  const isUneven = m > largest(problem, peer, problem.stateGiB / problem.peers.length);
  const AG = problem.allGatherMs * (isUneven ? problem.unevenFactor : 1);
  const RS = problem.reduceScatterMs * (isUneven ? problem.unevenFactor : 1);
  const F = l * curveAt(peer.forwardMs, m);
  const B = l * curveAt(peer.backwardMs, m) + (l - 1) * problem.extraMicroBatchMs;
  return Math.max(AG, F) + Math.max(AG + RS, problem.recompute ? F + B : B);
}

interface Exhaustive {
  readonly objectiveMs: number;
  readonly missingGiB: number;
}

/** Every (m, l) of every peer. */
function exhaustive(problem: SizingProblem): Exhaustive {
  const { peers, globalBatch, stateGiB } = problem;
  const options = peers.map((peer) => {
    const cuts: { samples: number; room: number; time: number }[] = [];
    for (let m = 1; m <= globalBatch; m++)
      if (room(problem, peer, m) >= -1e-9)
        for (let l = 1; m * l <= globalBatch; l++)
          cuts.push({ samples: m * l, room: room(problem, peer, m), time: time(problem, peer, m, l) });
    return cuts;
  });
  let objectiveMs = Infinity;
  let mostRoom = -Infinity;
  const place = (index: number, left: number, slowest: number, free: number): void => {
    if (index === peers.length) {
      if (left > 0) return;
      mostRoom = Math.max(mostRoom, free);
      if (free >= stateGiB - 1e-9) objectiveMs = Math.min(objectiveMs, slowest);
      return;
    }
    for (const cut of options[index] ?? [])
      if (cut.samples <= left - (peers.length - index - 1))
        place(index + 1, left - cut.samples, Math.max(slowest, cut.time), free + cut.room);
  };
  place(0, globalBatch, 0, 0);
  const lacking = peers.map((peer) => -room(problem, peer, 1)).filter((gib) => gib > 1e-9);
  return {
    objectiveMs,
    missingGiB: mostRoom === -Infinity ? Math.min(...lacking) : stateGiB - mostRoom,
  };
}

/** Everything that §5 asks of an answer but that it is the best. */
function expectValid(problem: SizingProblem, { peers, ...rest }: Assignment, seed: number): void {
  const say = `seed ${seed}`;
  expect(peers.map(({ id }) => id)).toEqual(problem.peers.map(({ id }) => id));
  const times: number[] = [];
  for (const [index, given] of problem.peers.entries()) {
    const sized = peers[index];
    if (!sized) throw new Error('a peer has no sizes');
    expect(sized.microBatch * sized.count, say).toBe(sized.samples);
    expect(sized.samples, say).toBeGreaterThanOrEqual(1);
    expect(sized.stateGiB, say).toBeGreaterThanOrEqual(0);
    expect(sized.stateGiB, say).toBeLessThanOrEqual(room(problem, given, sized.microBatch) + 2e-9);
    expect(sized.stateShare * problem.stateGiB, say).toBeCloseTo(sized.stateGiB, 9);
    expect(sized.maxMicroBatch, say).toBe(largest(problem, given, 0));
    expect(sized.maxMicroBatchEvenState, say).toBe(largest(problem, given, problem.stateGiB / problem.peers.length));
    expect(sized.memoryGiB, say).toBeLessThanOrEqual(sized.memoryLimitGiB + 2e-9);
    times.push(time(problem, given, sized.microBatch, sized.count));
    expect(sized.timeMs, say).toBeCloseTo(times.at(-1) ?? 0, 9);
  }
  const sum = (list: readonly number[]) => list.reduce((total, value) => total + value, 0);
  expect(sum(peers.map(({ samples }) => samples)), say).toBe(problem.globalBatch);
  expect(sum(peers.map(({ stateShare }) => stateShare)), say).toBeCloseTo(1, 6);
  expect(sum(peers.map(({ stateGiB }) => stateGiB)), say).toBeCloseTo(problem.stateGiB, 6);
  // The largest share is least: whoever has less than it has no room for more.
  const most = Math.max(...peers.map(({ stateGiB }) => stateGiB));
  for (const [index, { stateGiB, microBatch }] of peers.entries()) {
    const given = problem.peers[index];
    if (given && stateGiB < most - 1e-9) expect(room(problem, given, microBatch), say).toBeCloseTo(stateGiB, 6);
  }
  expect(rest.objectiveMs, say).toBeCloseTo(Math.max(...times), 9);
  expect(rest.samplesPerSecond, say).toBeCloseTo((problem.globalBatch * 1000) / (problem.layers * rest.objectiveMs), 9);
}

function smallShape(random: Random): Shape {
  const peers = 1 + Math.floor(random() * 5);
  const globalBatch = peers + Math.floor(random() * (peers > 3 ? 12 : 24));
  return { peers, globalBatch, tightness: random() < 0.2 ? 1 : random() * 1.15, isJagged: random() < 0.5 };
}

const smallProblem = (seed: number): SizingProblem => {
  const random = seededRandom(seed);
  return randomSizing(random, smallShape(random));
};
const SEEDS = arrayOf(200, (index) => index + 1);
const objectiveOf = (problem: SizingProblem): number => {
  const answer = assign(problem);
  return answer.ok ? answer.value.objectiveMs : Infinity;
};

describe('assign beside an exhaustive search', () => {
  test('the objective, or the GiB that are missing, of 200 random problems', () => {
    const seen = { solved: 0, tooLarge: 0, tooSmallPeer: 0, uneven: 0 };
    for (const seed of SEEDS) {
      const problem = smallProblem(seed);
      const expected = exhaustive(problem);
      const answer = assign(problem);
      const say = `seed ${seed}`;
      if (answer.ok) {
        expect(answer.value.objectiveMs / expected.objectiveMs, say).toBeCloseTo(1, 9);
        expectValid(problem, answer.value, seed);
        seen.solved++;
        if (answer.value.peers.some((peer) => peer.maxMicroBatchEvenState < 1)) seen.uneven++;
      } else {
        expect(expected.objectiveMs, say).toBe(Infinity);
        const missing = Number(/^no sizing fits, ([\d.e-]+) GiB/.exec(answer.reason)?.[1]);
        expect(missing, say).toBeCloseTo(expected.missingGiB, 6);
        if (/the state takes/.test(answer.reason)) seen.tooLarge++;
        else seen.tooSmallPeer++;
      }
    }
    // The generator reaches every kind of answer.
    expect(Math.min(...Object.values(seen)), JSON.stringify(seen)).toBeGreaterThan(10);
  });

  test('eight peers and 64 samples are exact: plain dynamic programming finds nothing faster', () => {
    for (const seed of SEEDS.slice(0, 25)) {
      const random = seededRandom(1000 + seed);
      const shape = { peers: 8, globalBatch: 64, tightness: 0.5 + random() / 2, isJagged: random() < 0.5 };
      const problem = randomSizing(random, shape);
      const answer = assign(problem);
      if (!answer.ok) continue;
      const { objectiveMs } = answer.value;
      expectValid(problem, answer.value, seed);
      expect(plainRoom(problem, objectiveMs), `seed ${seed}`).toBeGreaterThanOrEqual(problem.stateGiB - 1e-9);
      expect(plainRoom(problem, objectiveMs * (1 - 1e-9)), `seed ${seed}`).toBeLessThan(problem.stateGiB - 1e-9);
    }
  });

  test('more samples than are searched to the end: at most 2 % above the proven bound', () => {
    const problem = largeProblem({ seed: 2, peers: 64, kinds: 4, globalBatch: 32_768, tightness: 0.999 });
    const answer = assign(problem);
    if (!answer.ok) throw new Error(answer.reason);
    expectValid(problem, answer.value, 0);
    const { objectiveMs, leastMs } = answer.value;
    expect(objectiveMs / leastMs).toBeLessThan(1.02);
    expect(objectiveMs / leastMs).toBeGreaterThan(1 + 1e-6); // else this problem tests nothing
  });

  test('64 peers and 4,096 samples: nothing is faster by a ten-thousandth', () => {
    for (const tightness of [0.4, 0.9, 0.999]) {
      const problem = largeProblem({ seed: 64, peers: 64, kinds: 64, globalBatch: 4096, tightness });
      const answer = assign(problem);
      if (!answer.ok) throw new Error(answer.reason);
      expectValid(problem, answer.value, 0);
      expect(plainRoom(problem, answer.value.objectiveMs * 0.9999)).toBeLessThan(problem.stateGiB);
    }
  });
});

interface LargeShape extends Omit<Shape, 'isJagged'> {
  readonly seed: number;
  /** How many peers differ. */
  readonly kinds: number;
}

/** Peers who all hold a sample. */
function largeProblem({ seed, kinds, ...shape }: LargeShape): SizingProblem {
  const problem = randomSizing(seededRandom(seed), { ...shape, tightness: 0, isJagged: false });
  const peers = problem.peers.map(({ id }, index) => {
    const kind = problem.peers[index % kinds];
    if (!kind) throw new Error('more kinds than peers');
    return { ...kind, id, memoryGiB: kind.memoryGiB + 8 };
  });
  const free = totalOf(peers, (peer) => room(problem, peer, 1));
  return { ...problem, peers, stateGiB: free * shape.tightness };
}

/** The greatest room of a sizing within a time: dynamic programming over all of it, without a bound. */
function plainRoom(problem: SizingProblem, timeMs: number): number {
  const costs = peerCosts(problem);
  let best = new Float64Array(problem.globalBatch + 1).fill(-Infinity);
  best[0] = 0;
  for (const [index, peer] of problem.peers.entries()) {
    const own = new Map<number, number>();
    for (let m = 1; m <= problem.globalBatch; m++) {
      const cost = costs[index];
      if (!cost || roomGiB(cost, m) < -1e-9) continue;
      for (let l = 1; m * l <= problem.globalBatch && quickTime(problem, peer, m, l, cost) <= timeMs; l++)
        own.set(m * l, Math.max(own.get(m * l) ?? -Infinity, roomGiB(cost, m)));
    }
    const next = new Float64Array(best.length).fill(-Infinity);
    for (const [samples, gib] of own)
      for (let sum = samples; sum < next.length; sum++)
        next[sum] = Math.max(next[sum] ?? 0, (best[sum - samples] ?? 0) + gib);
    best = next;
  }
  return best[problem.globalBatch] ?? 0;
}

/** `time` with the largest micro-batch looked up: the search for it is slow. */
function quickTime(problem: SizingProblem, peer: Peer, m: number, l: number, cost: { maxMicroBatchEvenState: number }) {
  const factor = m > cost.maxMicroBatchEvenState ? problem.unevenFactor : 1;
  const gather = problem.allGatherMs * factor;
  const F = l * curveAt(peer.forwardMs, m);
  const B = l * curveAt(peer.backwardMs, m) + (l - 1) * problem.extraMicroBatchMs;
  return Math.max(gather, F) + Math.max(gather + problem.reduceScatterMs * factor, problem.recompute ? F + B : B);
}

describe('assign', () => {
  test('more memory never makes it slower', () => {
    for (const seed of SEEDS) {
      const problem = smallProblem(seed);
      const random = seededRandom(9000 + seed);
      const more = problem.peers.map((peer) => ({
        ...peer,
        memoryGiB: peer.memoryGiB + (random() < 0.5 ? 0 : random() * 9),
      }));
      const before = objectiveOf(problem);
      expect(objectiveOf({ ...problem, peers: more }), `seed ${seed}`).toBeLessThanOrEqual(before * (1 + 1e-9));
    }
  });

  test('permuting the peers permutes the answer', () => {
    for (const seed of SEEDS) {
      const problem = smallProblem(seed);
      const answer = assign(problem);
      const turned = assign({ ...problem, peers: problem.peers.toReversed() });
      if (!answer.ok) expect(turned, `seed ${seed}`).toEqual(answer);
      else if (turned.ok) expect(turned.value.peers.toReversed(), `seed ${seed}`).toEqual(answer.value.peers);
      else throw new Error(`seed ${seed}: ${turned.reason}`);
    }
  });

  test('never slower than any even cut of the batch that fits', () => {
    for (const seed of SEEDS) {
      const problem = smallProblem(seed);
      const share = Math.floor(problem.globalBatch / problem.peers.length);
      const even = { ...problem, globalBatch: share * problem.peers.length };
      const slowest = Math.max(...even.peers.map((peer) => time(even, peer, 1, share)));
      const best = objectiveOf(even);
      if (best < Infinity) expect(best, `seed ${seed}`).toBeLessThanOrEqual(slowest * (1 + 1e-9));
    }
  });

  const peer = (id: string, memoryGiB: number, slope: number): Peer => ({
    ...{ id, memoryGiB },
    forwardMs: { table: [], slope, intercept: 0 },
    backwardMs: { table: [], slope: 2 * slope, intercept: 0 },
    activationGiB: { table: [0.5] },
  });
  const group = (stateGiB: number, peers: Peer[]): SizingProblem => ({
    ...{ globalBatch: 12, layers: 10, stateGiB, usableFraction: 1, communicationGiB: 1, extraMicroBatchMs: 1 },
    ...{ allGatherMs: 0, reduceScatterMs: 0, unevenFactor: 1.25, recompute: false, peers },
  });

  test('a peer that cannot hold an even share of the state computes all the same', () => {
    const answer = assign(group(20, [peer('large', 24, 2), peer('small', 2, 1)]));
    if (!answer.ok) throw new Error(answer.reason);
    const [large, small] = answer.value.peers;
    expect(small).toMatchObject({ samples: 8, microBatch: 2, count: 4, stateGiB: 0, maxMicroBatchEvenState: 0 });
    expect(large).toMatchObject({ samples: 4, stateGiB: 20, stateShare: 1 });
  });

  test('micro-batches are no smaller than the state asks for', () => {
    const answer = assign(group(2, [peer('a', 24, 1), peer('b', 24, 1)]));
    expect(answer.ok && answer.value.peers.map(({ microBatch, count }) => [microBatch, count])).toEqual([
      [6, 1],
      [6, 1],
    ]);
  });

  test('no state is split into equal shares of nothing', () => {
    const answer = assign(group(0, [peer('a', 24, 1), peer('b', 24, 3)]));
    expect(answer.ok && answer.value.peers.map(({ stateGiB, stateShare }) => [stateGiB, stateShare])).toEqual([
      [0, 0.5],
      [0, 0.5],
    ]);
  });

  test('says how much is missing for the state, and for a sample', () => {
    expect(assign(group(20, [peer('a', 6, 1), peer('b', 8.25, 1)]))).toEqual({
      ok: false,
      reason:
        'no sizing fits, 8.75 GiB of usable memory are missing: the state takes 20, these peers leave at most 11.25 beside the smallest micro-batches',
    });
    expect(assign(group(20, [peer('a', 1, 1), peer('b', 90, 1), peer('c', 1.25, 1)]))).toEqual({
      ok: false,
      reason:
        'no sizing fits, 0.25 GiB of usable memory are missing: so much more would let one more of 3 peers hold a single sample, and every peer takes part',
    });
  });

  test('refuses times that say nothing', () => {
    expect(assign(group(1, [peer('a', 9, 0)]))).toEqual({
      ok: false,
      reason: 'every time is 0 ms: expected measured times above 0 to size by',
    });
  });
});
