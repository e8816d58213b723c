/** Which checkpoints stay, whatever their distance, and what a run goes on from. */
import { describe, expect, it } from 'vitest';
import { retained } from './checkpoints.ts';

/** What is on the disk after each of `count` checkpoints, one every so many steps. */
function kept(everySteps: number, count: number, unaudited = 0): (readonly number[])[] {
  let stored: readonly number[] = [0];
  return Array.from({ length: count }, (_, index) => {
    const all = [...stored, (index + 1) * everySteps];
    const stay = retained(all, (index + 1) * everySteps - unaudited);
    stored = all.filter((step) => stay.has(step));
    return stored;
  });
}

describe('checkpoints that stay', () => {
  it('far apart: the initial state, the newest two and the one before them', () => {
    expect(kept(20, 5)).toEqual([
      [0, 20],
      [0, 20, 40],
      [0, 20, 40, 60],
      [0, 40, 60, 80],
      [0, 60, 80, 100],
    ]);
  });

  it('[AU7] where an audit may undo more steps, one of before them stays', () => {
    for (const [count, steps] of kept(5, 60, 42).entries()) {
      const newest = 5 * (count + 1);
      expect(steps.length).toBeLessThanOrEqual(5);
      const before = steps.findLast((step) => step <= Math.max(0, newest - 42)) ?? Number.NaN;
      expect(newest - before).toBeLessThanOrEqual(2 * 42 + 5);
      if (newest > 100) expect(before).toBeGreaterThan(0);
    }
  });

  it('close together: an older one of at least ten steps ago, and its successor until that is as old', () => {
    const [, , third, ...later] = kept(1, 60);
    expect(third).toEqual([0, 1, 2, 3]);
    for (const steps of later) {
      const newest = steps.at(-1) ?? 0;
      expect(steps).toContain(0);
      expect(steps).toContain(newest - 1);
      expect(steps.length).toBeLessThanOrEqual(5);
      // Never fresher than that, and never more than twice as old.
      const older = steps.filter((step) => step <= newest - 10 && step > 0);
      if (newest > 12) expect(older).toHaveLength(1);
      if (newest > 12) expect(newest - (older[0] ?? 0)).toBeLessThanOrEqual(24);
    }
  });
});
