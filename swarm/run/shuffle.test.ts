import { expect, test } from 'vitest';
import { at } from '../base.ts';
import { permuted } from './shuffle.ts';

const order = (n: number, seed: number, epoch: number): number[] =>
  Array.from({ length: n }, (_, index) => permuted(index, n, seed, epoch));

const SIZES = [
  ...Array.from({ length: 70 }, (_, index) => index + 1),
  ...Array.from({ length: 11 }, (_, k) => [2 ** (k + 6) - 1, 2 ** (k + 6), 2 ** (k + 6) + 1]).flat(),
  ...[99, 100, 101, 997, 10_000, 10_201, 99_991],
];

test('[DA4] it is a permutation of any number of windows', () => {
  for (const n of SIZES)
    for (const [seed, epoch] of [
      [0, 0],
      [1, 0],
      [2 ** 53 - 1, 2 ** 40],
    ] as const) {
      const seen = new Uint8Array(n);
      for (const place of order(n, seed, epoch)) seen[place] = 1;
      expect(seen.indexOf(0), `${n} windows, seed ${seed}, epoch ${epoch}`).toBe(-1);
    }
});

test('[DA4] it is a pure function of seed and epoch, and these numbers do not change', () => {
  expect(order(10, 0, 0)).toEqual(order(10, 0, 0));
  expect([order(10, 0, 0), order(10, 0, 1), order(10, 7, 0)].map((list) => list.join(' '))).toMatchInlineSnapshot(`
    [
      "2 3 7 4 6 9 0 1 8 5",
      "4 5 0 7 6 3 9 1 8 2",
      "6 0 3 4 9 7 2 5 8 1",
    ]
  `);
});

test('[DA4] [DA15] seeds and epochs give orders of their own', () => {
  const orders = [
    [0, 0],
    [0, 1],
    [1, 0],
    [2 ** 32, 0],
    [0, 2 ** 32],
    [1, 1],
  ].map(([seed = 0, epoch = 0]) => order(1_000, seed, epoch).join());
  expect(new Set(orders).size).toBe(orders.length);
});

test('[DA4] every window comes at every place about equally often, and so does every neighbour', () => {
  for (const n of [2, 3, 5, 8, 13]) {
    const epochs = 4_000;
    const placed = new Float64Array(n * n);
    const after = new Float64Array(n * n);
    for (let epoch = 0; epoch < epochs; epoch++) {
      const list = order(n, 3, epoch);
      for (const [index, place] of list.entries()) {
        placed[index * n + place] = at(placed, index * n + place) + 1;
        const next = list[index + 1];
        if (next !== undefined) after[place * n + next] = at(after, place * n + next) + 1;
      }
    }
    // Binomial: six deviations around the mean.
    const near = (count: number, probability: number) =>
      Math.abs(count - epochs * probability) < 6 * Math.sqrt(epochs * probability);
    expect([...placed].every((count) => near(count, 1 / n))).toBe(true);
    const pairs = [...after].filter((_, pair) => Math.floor(pair / n) !== pair % n);
    expect(pairs.every((count) => near(count, 1 / n))).toBe(true);
  }
});

test('[DA9] a huge number of windows needs no more than a small one', () => {
  const n = 2 ** 44 + 1;
  const places = Array.from({ length: 1_000 }, (_, index) => permuted(index, n, 5, 0));
  expect(new Set(places).size).toBe(1_000);
  expect(places.every((place) => Number.isSafeInteger(place) && place >= 0 && place < n)).toBe(true);
});
