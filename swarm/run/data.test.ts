import { expect, test } from 'vitest';
import { at } from '../base.ts';
import {
  bytesPerToken,
  countedRows,
  decodeShard,
  NO_TARGET,
  type Order,
  permuted,
  SEQUENTIAL,
  shardsOfWindow,
  stepTargets,
  windowCount,
  windowOfSample,
  windowRows,
} from './data.ts';

const samples = (order: Order, windows: number, count: number): number[] =>
  Array.from({ length: count }, (_, sample) => windowOfSample(order, sample, windows));

test('[DA2] [DA3] there are ⌊(tokens−1)/T⌋ windows, and samples go round them', () => {
  expect([0, 1, 4, 5, 8, 9].map((tokens) => windowCount({ tokens }, 4))).toEqual([0, 0, 0, 1, 1, 2]);
  expect(samples(SEQUENTIAL, 4, 9)).toEqual([0, 1, 2, 3, 0, 1, 2, 3, 0]);
});

test('[DA4] shuffled, every epoch has each window once, in an order of its own', () => {
  const order: Order = { type: 'shuffled', seed: 7 };
  const list = samples(order, 50, 150);
  const epochs = [0, 50, 100].map((from) => list.slice(from, from + 50));
  for (const epoch of epochs) expect([...epoch].sort((a, b) => a - b)).toEqual(samples(SEQUENTIAL, 50, 50));
  expect(new Set(epochs.map((epoch) => epoch.join())).size).toBe(3);
  expect(samples(order, 50, 150)).toEqual(list);
  expect(samples({ type: 'shuffled', seed: 8 }, 50, 150)).not.toEqual(list);
});

test('[DA2] a window is gathered out of the shards it reads, its last target included', () => {
  const list = Uint16Array.from({ length: 23 }, (_, token) => token);
  const shard = (index: number) => list.slice(index * 5, index * 5 + 5);
  for (const T of [1, 2, 4, 5, 7, 11, 22])
    for (let window = 0; window < windowCount({ tokens: list.length }, T); window++) {
      const asked: number[] = [];
      const rows = windowRows(
        (index) => {
          asked.push(index);
          return shard(index);
        },
        { shardTokens: 5 },
        window,
        { sequenceLength: T, vocabulary: 65_535 },
      );
      expect([...rows.ids]).toEqual([...list.slice(window * T, window * T + T)]);
      expect([...rows.targets]).toEqual([...list.slice(window * T + 1, window * T + T + 1)]);
      expect(rows.firstRows).toBeNull();
      const [from, to] = shardsOfWindow({ shardTokens: 5 }, window, T);
      expect(asked).toEqual(Array.from({ length: to - from }, (_, i) => from + i));
    }
});

test('[DA9] a window of rows has inputs, targets and first rows, in shards that cut it anywhere', () => {
  // Two windows of three rows; 9 stands for no target.
  const numbers = [
    [5, 6, 0],
    [9, 7, 9],
    [0, 0, 2],
    [1, 2, 3],
    [2, 3, 9],
    [0, 0, 0],
  ].flat();
  const list = { kind: 'rows', tokens: numbers.length } as const;
  expect(windowCount(list, 3)).toBe(2);
  // Five samples of windows of which three rows count, in two windows.
  const size = { globalBatchSize: 5, sequenceLength: 3 };
  expect(stepTargets({ ...list, countedRows: 3 }, size)).toBe(7.5);
  expect(stepTargets({ tokens: 100 }, size)).toBe(15);
  for (const shardTokens of [1, 4, 9, 100]) {
    const read = (window: number) =>
      windowRows(
        (index) => Uint8Array.from(numbers.slice(index * shardTokens, (index + 1) * shardTokens)),
        { kind: 'rows', shardTokens },
        window,
        { sequenceLength: 3, vocabulary: 9 },
      );
    expect(Object.values(read(0)).map((part) => [...(part ?? [])])).toEqual([
      [5, 6, 0],
      [NO_TARGET, 7, NO_TARGET],
      [0, 0, 2],
    ]);
    expect(Object.values(read(1)).map((part) => [...(part ?? [])])).toEqual([
      [1, 2, 3],
      [2, 3, NO_TARGET],
      [0, 0, 0],
    ]);
  }
});

test('[DA9] a step counts the rows of its windows, wherever the order has them', () => {
  const counted = Uint32Array.of(1, 20, 300);
  expect([0, 2, 4].map((from) => countedRows(counted, SEQUENTIAL, [from, from + 2], 999))).toEqual([21, 301, 320]);
  expect(countedRows(counted, { type: 'shuffled', seed: 4 }, [3, 6], 999)).toBe(321);
  expect(countedRows(null, SEQUENTIAL, [4, 6], 40)).toBe(80);
});

test('[DA8] one byte a token up to 256 ids, two up to 65,536, then four', () => {
  expect([256, 257, 65_536, 65_537].map(bytesPerToken)).toEqual([1, 2, 2, 4]);
  expect([...decodeShard(Uint8Array.of(1, 2).buffer, 1)]).toEqual([1, 2]);
  expect([...decodeShard(Uint8Array.of(1, 2, 3, 4).buffer, 2)]).toEqual([0x0201, 0x0403]);
  expect([...decodeShard(Uint8Array.of(1, 2, 3, 4).buffer, 4)]).toEqual([0x04030201]);
});

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

test('[DA4] seeds and epochs give orders of their own', () => {
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

test('a huge number of windows needs no more than a small one', () => {
  const n = 2 ** 44 + 1;
  const places = Array.from({ length: 1_000 }, (_, index) => permuted(index, n, 5, 0));
  expect(new Set(places).size).toBe(1_000);
  expect(places.every((place) => Number.isSafeInteger(place) && place >= 0 && place < n)).toBe(true);
});
