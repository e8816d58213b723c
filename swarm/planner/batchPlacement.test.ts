import { describe, expect, test } from 'vitest';
import { type Random, seededRandom } from '../base.ts';
import { type Rooms, roomiestPlacement } from './batchPlacement.ts';

/** Rooms that fall with the samples, with holes and jumps in them; at least one entry. */
function randomRooms(random: Random, most: number): Rooms {
  const length = 2 + Math.floor(random() * most);
  const start = random() * 20;
  const fall = random() * 2;
  const holes = random() * 0.5;
  const rooms = new Float64Array(length).fill(Number.NEGATIVE_INFINITY);
  for (let samples = 1; samples < length; samples++)
    if (samples === 1 || random() > holes) rooms[samples] = start - fall * samples * (0.5 + random());
  return rooms;
}

/** Dynamic programming over everything. */
function greatestRoom(peers: readonly Rooms[], batch: number): number {
  let best = [0];
  for (const rooms of peers) {
    const next: number[] = [];
    for (let sum = 0; sum <= batch; sum++) {
      next[sum] = Number.NEGATIVE_INFINITY;
      for (let samples = 0; samples <= Math.min(sum, rooms.length - 1); samples++) {
        const room = (best[sum - samples] ?? Number.NEGATIVE_INFINITY) + (rooms[samples] ?? 0);
        next[sum] = Math.max(next[sum] ?? 0, room);
      }
    }
    best = next;
  }
  return best[batch] ?? Number.NEGATIVE_INFINITY;
}

interface Case {
  readonly peers: readonly Rooms[];
  readonly batch: number;
  readonly greatest: number;
}

function randomCase(seed: number, most: number): Case {
  const random = seededRandom(seed);
  const peers = Array.from({ length: 1 + Math.floor(random() * 6) }, () => randomRooms(random, most));
  const high = peers.reduce((sum, rooms) => sum + rooms.length, 0);
  const batch = Math.floor(random() * (high + 4));
  return { peers, batch, greatest: greatestRoom(peers, batch) };
}

const roomOf = (peers: readonly Rooms[], samples: readonly number[]): number =>
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
        expect(greatest, `seed ${seed}`).toBe(Number.NEGATIVE_INFINITY);
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
      if (greatest === Number.NEGATIVE_INFINITY) continue;
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
      if (greatest === Number.NEGATIVE_INFINITY || peers.length < 3) continue;
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
