import { expect, test } from 'vitest';
import { bytesPerToken, decodeShard, shardsOfWindow, windowCount, windowOfSample, windowTokens } from './data.ts';
import { learningRate } from './learningRate.ts';

test('there are ⌊(tokens−1)/T⌋ windows, and samples go round them', () => {
  expect([0, 1, 4, 5, 8, 9].map((tokens) => windowCount(tokens, 4))).toEqual([0, 0, 0, 1, 1, 2]);
  expect([0, 1, 2].flatMap((step) => [0, 1, 2].map((sample) => windowOfSample(step, sample, 3, 4)))).toEqual([
    0, 1, 2, 3, 0, 1, 2, 3, 0,
  ]);
});

test('a window is gathered out of the shards it reads, its last target included', () => {
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

test('two bytes a token up to 65,536 ids, then four', () => {
  expect([256, 65_536, 65_537].map(bytesPerToken)).toEqual([2, 2, 4]);
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
  const none = { ...schedule, warmupSteps: 2, decaySteps: 2 };
  expect([1, 2, 3].map((step) => learningRate({ optimizer, schedule: none }, step))).toEqual([2 / 3, 0.2, 0.2]);
});
