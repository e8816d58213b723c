import { describe, expect, test } from 'vitest';
import { ARRIVAL_MS, arrivalAt, nextPlaces, placesFor, STROKE_MS, strokeAt } from './shoalPlaces.ts';

describe('the fish of a run', () => {
  test('have a place each, also two hundred of them, and none covers another', () => {
    for (const donors of [1, 60, 200]) {
      const places = placesFor(donors);
      expect(places.length).toBeGreaterThanOrEqual(donors);
      const gaps = places.flatMap((one, at) =>
        places.slice(at + 1).map((other) => Math.hypot(one.x - other.x, one.y - other.y)),
      );
      expect(gaps.reduce((least, gap) => Math.min(least, gap))).toBeGreaterThan(5);
    }
  });

  test('of a few, which are drawn larger, none is in the ring of another, wherever a stroke has carried both', () => {
    const few = placesFor(12).slice(0, 12);
    const [grown, own, stroke] = [1.5, 1.25, 9];
    for (const one of few) {
      const ring = Math.max(9, one.scale * 15 * grown);
      for (const other of few) {
        if (one === other) continue;
        // Half a fish is 10 long and 6 high: its whole box is outside the circle.
        const [halfLength, halfHeight] = [10, 6].map((half) => half * other.scale * grown) as [number, number];
        const dx = Math.max(0, Math.abs(one.x - other.x) - halfLength - stroke);
        const dy = Math.max(0, Math.abs(one.y - other.y) - halfHeight);
        expect(Math.hypot(dx, dy)).toBeGreaterThan(Math.max(ring, 10 * one.scale * grown * own));
      }
    }
  });

  test('keep it while they are here; who comes takes the first free one', () => {
    const three = nextPlaces(new Map(), ['a', 'b', 'c'], 10);
    expect([...three]).toEqual([
      ['a', 0],
      ['b', 1],
      ['c', 2],
    ]);
    const after = nextPlaces(three, ['c', 'd', 'a'], 10);
    expect(Object.fromEntries(after)).toEqual({ a: 0, c: 2, d: 1 });
    expect(nextPlaces(after, ['a', 'c', 'd', 'e'], 3).has('e')).toBe(false);
  });

  test('begin and end a stroke where they are, and arrive at their place', () => {
    for (const school of [0, 1, 2]) {
      expect(strokeAt(school, 0)).toBe(0);
      expect(strokeAt(school, STROKE_MS)).toBe(0);
    }
    expect(strokeAt(0, 400)).toBeGreaterThan(1);
    expect(arrivalAt(0)).toBeLessThan(-200);
    expect(arrivalAt(ARRIVAL_MS)).toBeCloseTo(0);
  });
});
