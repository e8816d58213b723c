import { expect, test } from 'vitest';
import {
  bytesPerToken,
  decodeShard,
  type Order,
  SEQUENTIAL,
  shardsOfWindow,
  windowCount,
  windowOfSample,
  windowTokens,
} from './data.ts';
import { learningRate } from './learningRate.ts';

const samples = (order: Order, windows: number, count: number): number[] =>
  Array.from({ length: count }, (_, sample) => windowOfSample(order, sample, windows));

test('[DA2] [DA3] there are ⌊(tokens−1)/T⌋ windows, and samples go round them', () => {
  expect([0, 1, 4, 5, 8, 9].map((tokens) => windowCount(tokens, 4))).toEqual([0, 0, 0, 1, 1, 2]);
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
    for (let window = 0; window < windowCount(list.length, T); window++) {
      const asked: number[] = [];
      const tokens = windowTokens(
        (index) => {
          asked.push(index);
          return shard(index);
        },
        window,
        T,
        5,
      );
      expect([...tokens]).toEqual([...list.slice(window * T, window * T + T + 1)]);
      const [from, to] = shardsOfWindow(window, T, 5);
      expect(asked).toEqual(Array.from({ length: to - from }, (_, i) => from + i));
    }
});

test('[DA8] one byte a token up to 256 ids, two up to 65,536, then four', () => {
  expect([256, 257, 65_536, 65_537].map(bytesPerToken)).toEqual([1, 2, 2, 4]);
  expect([...decodeShard(Uint8Array.of(1, 2).buffer, 1)]).toEqual([1, 2]);
  expect([...decodeShard(Uint8Array.of(1, 2, 3, 4).buffer, 2)]).toEqual([0x0201, 0x0403]);
  expect([...decodeShard(Uint8Array.of(1, 2, 3, 4).buffer, 4)]).toEqual([0x04030201]);
});

const optimizer = {
  type: 'adamw' as const,
  learningRate: 1,
  betas: [0.9, 0.95] as [number, number],
  epsilon: 1e-8,
  weightDecay: 0,
};

test('the rate warms up, then stays', () => {
  const train = { optimizer, schedule: { type: 'constant' as const, warmupSteps: 3 } };
  expect([0, 1, 2, 3, 9].map((step) => learningRate(train, step))).toEqual([0.25, 0.5, 0.75, 1, 1]);
});

test('the cosine falls from the rate to its low end and stays there', () => {
  const schedule = { type: 'cosine' as const, warmupSteps: 1, decaySteps: 5, minRatio: 0.2 };
  const rates = [0, 1, 3, 5, 6].map((step) => learningRate({ optimizer, schedule }, step));
  for (const [i, rate] of [0.5, 1, 0.6, 0.2, 0.2].entries()) expect(rates[i]).toBeCloseTo(rate, 15);
  // With no steps to fall in, the one at which the fall would begin has the peak (docs/run-file.md).
  const none = { ...schedule, warmupSteps: 2, decaySteps: 2 };
  expect([1, 2, 3].map((step) => learningRate({ optimizer, schedule: none }, step))).toEqual([2 / 3, 1, 0.2]);
});
