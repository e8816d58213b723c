import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { arrayOf } from '../../../swarm/base.ts';
import { changedWindow, csv, groupsOf, joined, movedWindow, percentile, positive, smoothed } from './series.ts';

describe('series', () => {
  test('a smoothed constant is that constant, from its first value on', () => {
    for (const weight of [0, 0.5, 0.99])
      for (const value of smoothed([3, 3, 3, 3], weight)) expect(value).toBeCloseTo(3, 12);
    expect(smoothed([5, 1, 4], 0)).toEqual([5, 1, 4]);
  });

  test('a smoothed value is the weighted mean of all before it', () => {
    const values = [2, 9, 4, 7, 1];
    const weight = 0.7;
    const direct = values.map((_, t) => {
      const weights = values.slice(0, t + 1).map((__, i) => weight ** (t - i));
      const sum = weights.reduce((total, each, i) => total + each * (values[i] ?? 0), 0);
      return sum / weights.reduce((total, each) => total + each, 0);
    });
    for (const [index, value] of smoothed(values, weight).entries()) expect(value).toBeCloseTo(direct[index] ?? 0, 12);
  });

  test('a step’s effect on the smoothed line fades as w^t', () => {
    // 1 − w^t of 0 … 0 1 1 1: the geometric series.
    const line = smoothed([...Array(500).fill(0), ...Array(5).fill(1)], 0.9).slice(500);
    for (const [t, value] of line.entries()) expect(value).toBeCloseTo(1 - 0.9 ** (t + 1), 9);
  });

  test('percentiles of 0, 1, …, n are linear', () => {
    const values = arrayOf(101, (i) => 100 - i);
    expect([0, 0.5, 0.95, 1].map((share) => percentile(values, share))).toEqual([0, 50, 95, 100]);
    expect(percentile([1, 2], 0.5)).toBe(1.5);
    expect(percentile([7], 0.95)).toBe(7);
    expect(percentile([], 0.5)).toBeNaN();
  });

  test('groups cover everything once, the last one to the end', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 3_000 }), fc.integer({ min: 1, max: 600 }), (length, most) => {
        const groups = groupsOf(length, most);
        expect(groups.length).toBeLessThanOrEqual(most);
        expect(groups.flatMap(([from, to]) => arrayOf(to - from, (i) => from + i))).toEqual(arrayOf(length, (i) => i));
      }),
      { seed: 1, numRuns: 60 },
    );
  });

  test('lines with other places are joined in order', () => {
    expect(
      joined([
        { xs: [1, 2, 3], ys: [10, 20, 30] },
        { xs: [0, 2], ys: [5, null] },
      ]),
    ).toEqual({
      xs: [0, 1, 2, 3],
      columns: [
        [null, 10, 20, 30],
        [5, null, null, null],
      ],
    });
  });

  test('a window narrows, widens and moves inside what there is', () => {
    const all = [0, 100] as const;
    expect(changedWindow(null, all, 'closer')).toEqual([25, 75]);
    expect(changedWindow([25, 75], all, 'on')).toEqual([50, 100]);
    expect(changedWindow([50, 100], all, 'on')).toEqual([50, 100]);
    expect(changedWindow([25, 75], all, 'back')).toEqual([0, 50]);
    expect(changedWindow([25, 75], all, 'wider')).toBeNull();
    expect(changedWindow([40, 42], all, 'closer')).toEqual([40, 42]);
  });

  test('a window moves along by steps, as wide as it is, as far as there are any', () => {
    const all = [1, 100] as const;
    expect(movedWindow([20, 30], all, 5)).toEqual([25, 35]);
    expect(movedWindow([20, 30], all, -50)).toEqual([1, 11]);
    expect(movedWindow([20, 30], all, 500)).toEqual([90, 100]);
    expect(movedWindow(null, all, 5)).toBeNull();
  });

  test('a file of numbers quotes what would break its columns', () => {
    expect(csv(['step', 'loss, raw', 'a "b"'], [[1, 2.5, null]])).toBe('step,"loss, raw","a ""b"""\n1,2.5,\n');
  });
});

test('a logarithmic axis is given what has a logarithm', () => {
  const shown = positive([2, 0, -1, null, 1e-9]);
  expect(shown).toEqual([2, null, null, null, 1e-9]);
  for (const value of shown) if (value !== null) expect(Number.isFinite(Math.log10(value))).toBe(true);
});
