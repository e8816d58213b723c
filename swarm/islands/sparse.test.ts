import { expect, test } from 'vitest';
import { at, type Random, seededRandom, total } from '../base.ts';
import { placeOf, type SparseExchange, type SparseRun, sentValue, sparsify } from './sparse.ts';

const exchange = (top: number): SparseExchange => ({ top, chunk: 4096, feedback: 1 });
const sent = (run: SparseRun): [number, number][] =>
  Array.from(run.entries, (entry) => [placeOf(entry), sentValue(run, entry)]);

/** The contract's words, by a stable sort of the whole run. */
function bySorting(run: Float32Array, top: number): [number, number][] {
  const places = [...run.keys()].sort((a, b) => Math.abs(at(run, b)) - Math.abs(at(run, a)) || a - b).slice(0, top);
  const kept = places.filter((place) => at(run, place) !== 0).sort((a, b) => a - b);
  const magnitudes = kept.map((place) => Math.abs(at(run, place)));
  const mean = (values: readonly number[]) => total(values) / values.length;
  const middle = mean(magnitudes);
  const high = Math.fround(mean(magnitudes.filter((value) => value >= middle)));
  const low = Math.fround(mean(magnitudes.filter((value) => value < middle)));
  return kept.map((place, i) => [place, (at(magnitudes, i) >= middle ? high : low) * Math.sign(at(run, place))]);
}

test('[IS4] the largest, by sign and one of two magnitudes', () => {
  const run = Float32Array.of(0.5, -8, 0, 3, 1, -2, 5, 0);
  // Of 8, 3, 2 and 5 the mean is 4.5.
  expect(sent(sparsify(run, exchange(4)))).toEqual([
    [1, -6.5],
    [3, 2.5],
    [5, -2.5],
    [6, 6.5],
  ]);
});

test.each([
  [
    'equal magnitudes go by place',
    [1, -1, 1, -1, 1],
    3,
    [
      [0, 1],
      [1, -1],
      [2, 1],
    ],
  ],
  ['what is 0 is not sent', [0, -0, 2, 0], 3, [[2, 2]]],
  ['nothing', [0, 0, -0], 2, []],
  [
    'more than there are',
    [3, -1],
    9,
    [
      [0, 3],
      [1, -1],
    ],
  ],
  ['one element', [-0.25], 1, [[0, -0.25]]],
])('[IS4] %s', (_, values, top, expected) => {
  expect(sent(sparsify(Float32Array.from(values), exchange(top)))).toEqual(expected);
});

test.each(['even', 'many ties', 'mostly zero', 'one huge', 'ascending'])('[IS4] as a whole sort has it: %s', (kind) => {
  const random = seededRandom(3);
  for (const [length, top] of [
    [4096, 64],
    [1000, 999],
    [65, 64],
    [64, 64],
    [7, 1],
  ] as const) {
    const run = Float32Array.from({ length }, (_, i) => valueFor(kind, random, i));
    const made = sparsify(run, exchange(top));
    expect(sent(made)).toEqual(bySorting(run, top));
    expect(made.entries.length).toBeLessThanOrEqual(top);
  }
});

function valueFor(kind: string, random: Random, i: number): number {
  if (kind === 'many ties') return Math.round(random() * 6 - 3);
  if (kind === 'mostly zero') return random() < 0.99 ? 0 : random() - 0.5;
  if (kind === 'one huge') return i === 5 ? 1e30 : (random() - 0.5) * 1e-30;
  return kind === 'ascending' ? i - 40 : random() - 0.5;
}

test('[IS4] what is not a number neither throws nor hangs', () => {
  const run = Float32Array.of(1, Number.NaN, Infinity, -2);
  expect(sparsify(run, exchange(2)).entries.length).toBe(2);
});
