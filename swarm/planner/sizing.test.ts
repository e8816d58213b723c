import { describe, expect, test } from 'vitest';
import { arrayOf, type Random, seededRandom, totalOf } from '../base.ts';
import { randomSizing } from '../testing/randomSizing.ts';
import {
  curveAt,
  extended,
  levelShares,
  microBatchesWithin,
  peerCosts,
  peerTimeMs,
  type RoomTable,
  roomGiB,
  roomiestPlacement,
  type SizingProblem,
} from './sizing.ts';

const PEER: SizingProblem['peers'][number] = {
  id: 'a',
  memoryGiB: 20,
  forwardMs: { table: [5, 7], slope: 2, intercept: 4 },
  backwardMs: { table: [], slope: 3, intercept: 1 },
  activationGiB: { table: [1, 2] },
};
const GROUP: SizingProblem = {
  ...{ globalBatch: 8, layers: 2, stateGiB: 10, usableFraction: 0.5, communicationGiB: 1, extraMicroBatchMs: 10 },
  ...{ allGatherMs: 0, reduceScatterMs: 0, unevenFactor: 1.5, recompute: true, peers: [PEER, { ...PEER, id: 'b' }] },
};
const costOf = (problem: SizingProblem) => {
  const [first] = peerCosts(problem);
  if (!first) throw new Error('a problem has a peer');
  return first;
};

describe('curves', () => {
  test('a time is the table’s as far as it goes, then the line’s', () => {
    expect([1, 2, 3, 10].map((m) => curveAt(PEER.forwardMs, m))).toEqual([5, 7, 10, 24]);
  });

  test('activations go on with the mean slope of the last five entries, a single one in proportion', () => {
    expect(curveAt(extended([9, 1, 2, 3, 4, 9]), 8)).toBe(9 + 2 * 2);
    expect(curveAt(extended([1, 4]), 4)).toBe(10);
    expect(curveAt(extended([1, 4, 9], 2), 4)).toBe(14);
    expect([1, 2, 7].map((m) => curveAt(extended([0.5]), m))).toEqual([0.5, 1, 3.5]);
  });
});

describe('the cost model', () => {
  const costs = costOf(GROUP);

  test('room is usable memory less buffers and activations', () => {
    expect([1, 2, 5].map((m) => roomGiB(costs, m))).toEqual([8, 7, 4]);
  });

  test('the largest micro-batches, beside no state and beside an even share', () => {
    expect(costs).toMatchObject({ maxMicroBatch: 9, maxMicroBatchEvenState: 4 });
    const largest = (table: number[]) =>
      costOf({ ...GROUP, peers: [{ ...PEER, activationGiB: { table } }] }).maxMicroBatch;
    expect(largest([9.5])).toBe(0);
    expect(largest([9])).toBe(1);
    expect(largest([0.3])).toBe(30); // 0.3·30 is 9 but for rounding
    expect(largest([8, 9.5, 7, 9.5])).toBe(3);
    expect(largest([2, 2])).toBe(Infinity);
    expect(largest([10, 10])).toBe(0);
  });

  test('forward runs again in backward, but not without recompute', () => {
    // Three micro-batches of two: F = 3·7, B = 3·7 + 2·10.
    expect(peerTimeMs(GROUP, costs, 2, 3)).toBe(21 + (21 + 41));
    expect(peerTimeMs({ ...GROUP, recompute: false }, costs, 2, 3)).toBe(21 + 41);
  });

  test('gathering hides behind forward, gathering and reducing behind backward', () => {
    const slow = { ...GROUP, allGatherMs: 30, reduceScatterMs: 60 };
    expect(peerTimeMs(slow, costs, 2, 3)).toBe(30 + 90);
    expect(peerTimeMs({ ...slow, reduceScatterMs: 20 }, costs, 2, 3)).toBe(30 + 62);
  });

  test('an uneven state makes gathering and reducing slower', () => {
    const slow = { ...GROUP, allGatherMs: 100, reduceScatterMs: 100 };
    expect(peerTimeMs(slow, costs, 4, 1)).toBe(300);
    expect(peerTimeMs(slow, costs, 5, 1)).toBe(450);
  });

  test('microBatchesWithin is the inverse of the time', () => {
    for (let seed = 1; seed <= 200; seed++) {
      const random = seededRandom(seed);
      const problem = randomSizing(random, { peers: 2, globalBatch: 64, tightness: 0.8, isJagged: seed % 2 === 0 });
      const peer = costOf(problem);
      for (const size of [1, 2, 3, 5, 8]) {
        const timeMs =
          peerTimeMs(problem, peer, size, 1 + Math.floor(random() * 8)) * (random() < 0.5 ? 1 : random() * 2);
        let expected = 0;
        while (expected < 12 && peerTimeMs(problem, peer, size, expected + 1) <= timeMs) expected++;
        expect(microBatchesWithin(problem, peer, size, timeMs, 12), `seed ${seed}, size ${size}`).toBe(expected);
      }
    }
  });
});

describe('a batch on peers so that the most room is left', () => {
  /** Rooms that fall with the samples, with holes and jumps in them; at least one entry. */
  function randomRooms(random: Random, most: number): RoomTable {
    const length = 2 + Math.floor(random() * most);
    const start = random() * 20;
    const fall = random() * 2;
    const holes = random() * 0.5;
    const rooms = new Float64Array(length).fill(-Infinity);
    for (let samples = 1; samples < length; samples++)
      if (samples === 1 || random() > holes) rooms[samples] = start - fall * samples * (0.5 + random());
    return rooms;
  }

  /** Dynamic programming over everything. */
  function greatestRoom(peers: readonly RoomTable[], batch: number): number {
    let best = [0];
    for (const rooms of peers) {
      const next: number[] = [];
      for (let sum = 0; sum <= batch; sum++) {
        next[sum] = -Infinity;
        for (let samples = 0; samples <= Math.min(sum, rooms.length - 1); samples++) {
          const room = (best[sum - samples] ?? -Infinity) + (rooms[samples] ?? 0);
          next[sum] = Math.max(next[sum] ?? 0, room);
        }
      }
      best = next;
    }
    return best[batch] ?? -Infinity;
  }

  interface Case {
    readonly peers: readonly RoomTable[];
    readonly batch: number;
    readonly greatest: number;
  }

  function randomCase(seed: number, most: number): Case {
    const random = seededRandom(seed);
    const peers = arrayOf(1 + Math.floor(random() * 6), () => randomRooms(random, most));
    const high = totalOf(peers, (rooms) => rooms.length);
    const batch = Math.floor(random() * (high + 4));
    return { peers, batch, greatest: greatestRoom(peers, batch) };
  }

  const roomOf = (peers: readonly RoomTable[], samples: readonly number[]): number =>
    samples.reduce((sum, taken, peer) => sum + (peers[peer]?.[taken] ?? Number.NaN), 0);
  const sum = (list: readonly number[]): number => list.reduce((total, value) => total + value, 0);

  describe('roomiestPlacement', () => {
    test('is the roomiest of all', () => {
      let none = 0;
      for (let seed = 1; seed <= 400; seed++) {
        const { peers, batch, greatest } = randomCase(seed, 30);
        const { placement, isProven } = roomiestPlacement(peers, batch);
        expect(isProven, `seed ${seed}`).toBe(true);
        if (placement === null) {
          expect(greatest, `seed ${seed}`).toBe(-Infinity);
          none++;
          continue;
        }
        expect(sum(placement.samples), `seed ${seed}`).toBe(batch);
        expect(roomOf(peers, placement.samples), `seed ${seed}`).toBeCloseTo(placement.room, 9);
        expect(placement.room, `seed ${seed}`).toBeCloseTo(greatest, 9);
      }
      expect(none).toBeGreaterThan(10);
    });

    test('finds room enough exactly where there is', () => {
      for (let seed = 1; seed <= 400; seed++) {
        const { peers, batch, greatest } = randomCase(seed, 30);
        if (greatest === -Infinity) continue;
        expect(roomiestPlacement(peers, batch, greatest + 1e-6), `seed ${seed}`).toEqual({
          placement: null,
          isProven: true,
        });
        for (const enough of [greatest, greatest - 1, greatest - 20]) {
          const { placement } = roomiestPlacement(peers, batch, enough);
          expect(placement?.room, `seed ${seed}`).toBeGreaterThanOrEqual(enough - 2e-9);
          expect(sum(placement?.samples ?? []), `seed ${seed}`).toBe(batch);
        }
      }
    });

    test('with less work than it takes, what it finds is a placement, and not called proven', () => {
      let thinned = 0;
      let found = 0;
      for (let seed = 1; seed <= 60; seed++) {
        const { peers, batch, greatest } = randomCase(seed, 400);
        if (greatest === -Infinity || peers.length < 3) continue;
        const { placement, isProven } = roomiestPlacement(peers, batch, undefined, 1_000);
        if (!isProven) thinned++;
        if (placement === null) {
          expect(isProven, `seed ${seed}`).toBe(false);
          continue;
        }
        found++;
        expect(sum(placement.samples), `seed ${seed}`).toBe(batch);
        expect(roomOf(peers, placement.samples), `seed ${seed}`).toBeCloseTo(placement.room, 9);
        if (isProven) expect(placement.room, `seed ${seed}`).toBeCloseTo(greatest, 9);
      }
      expect(thinned).toBeGreaterThan(5);
      expect(found).toBeGreaterThan(20);
    });
  });
});

test('everyone takes the level, or all that they have room for', () => {
  expect(levelShares([10, 10, 10], 6)).toEqual([2, 2, 2]);
  expect(levelShares([1, 10, 2], 8)).toEqual([1, 5, 2]);
  expect(levelShares([0, 3], 3)).toEqual([0, 3]);
  expect(levelShares([4, 4], 0)).toEqual([0, 0]);
});

test('rooms that are too small together are all full', () => {
  expect(levelShares([1, 2], 3.5)).toEqual([1, 2]);
});

test('shares fit, add up, and no smaller level holds the state', () => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = seededRandom(seed);
    const rooms = arrayOf(1 + Math.floor(random() * 8), () => (random() < 0.2 ? 0 : random() * 10));
    const state = random() * rooms.reduce((sum, room) => sum + room, 0);
    const shares = levelShares(rooms, state) ?? [];
    expect(
      shares.reduce((sum, share) => sum + share, 0),
      `seed ${seed}`,
    ).toBeCloseTo(state, 9);
    const level = Math.max(...shares);
    for (const [peer, share] of shares.entries()) {
      expect(share, `seed ${seed}`).toBeLessThanOrEqual((rooms[peer] ?? 0) + 1e-12);
      if (share < level - 1e-12) expect(share, `seed ${seed}`).toBe(rooms[peer]);
    }
  }
});
