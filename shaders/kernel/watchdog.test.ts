/** What is predicted of a launch and what is cut for it: without a GPU. */
import { expect, test } from 'vitest';
import { invariant } from '../../swarm/base.ts';
import { matmul } from '../family/matmul.ts';
import { boxesOf } from './grid.ts';
import {
  chooseLaunch,
  LONGEST_DISPATCH_SECONDS,
  LONGEST_SUBMIT_SECONDS,
  learnRates,
  ratesOf,
  submitsOf,
} from './watchdog.ts';

const product = matmul({ layout: 'NN' });
const device = (): GPUDevice => ({}) as GPUDevice; // a key, no more
/** 2·M·N·K = 1 GFLOP. */
const dims = { M: 1000, N: 1000, K: 500 };

test('a device is taken to be slow until a layer was measured; then its rates follow the measurement', () => {
  const one = device();
  const before = ratesOf(one, 'gpu');
  // A layer predicted to take a second took 10 ms: a hundred times as fast.
  learnRates(one, 'gpu', 1, 0.01);
  expect(ratesOf(one, 'gpu').flopsPerSecond).toBeCloseTo(100 * before.flopsPerSecond, -3);
  expect(ratesOf(one, 'gpu').bytesPerSecond).toBeCloseTo(100 * before.bytesPerSecond, -3);
  expect(ratesOf(device(), 'gpu')).toEqual(before);
  learnRates(one, 'gpu', 0, 0.01); // nothing was predicted: nothing is learned
  expect(ratesOf(one, 'gpu').flopsPerSecond).toBeCloseTo(100 * before.flopsPerSecond, -3);
});

test.each([2e9, 1e10, 3e11, 1e13])('at %d FLOP/s no dispatch of a product is to take longer than 100 ms', (flops) => {
  const one = device();
  const assumed = ratesOf(one, 'gpu').flopsPerSecond;
  learnRates(one, 'gpu', 1, assumed / flops);
  const { variant, boxes: least, seconds } = chooseLaunch(one, 'gpu', product, dims);
  expect(seconds).toBeCloseTo(1e9 / flops, 6);
  const grid = product.source('gpu', dims).workgroups(dims);
  const boxes = boxesOf(grid, least);
  const [x, y, z] = grid;
  for (const { size } of boxes) {
    const share = (size[0] * size[1] * size[2]) / (x * y * z);
    expect(seconds * share).toBeLessThanOrEqual(LONGEST_DISPATCH_SECONDS);
  }
  expect(variant).toEqual({ family: 'gpu', inBoxes: boxes.length > 1 });
  invariant(flops < 1e12 || boxes.length === 1, 'a fast device cuts nothing');
});

test('a pass is cut into submits of 200 ms, in order; a short one is one submit', () => {
  const launches = (...milliseconds: number[]) =>
    milliseconds.map((ms, id) => ({ id, seconds: ms / 1000, dispatches: [0] }));
  const ids = (...milliseconds: number[]) =>
    submitsOf(launches(...milliseconds)).map((submit) => submit.map(({ launch }) => launch.id));
  expect(ids(10, 20, 30)).toEqual([[0, 1, 2]]);
  expect(ids(150, 60, 60, 60, 500, 1)).toEqual([[0], [1, 2, 3], [4], [5]]);
  expect(ids()).toEqual([[]]);
  expect(LONGEST_SUBMIT_SECONDS).toBe(0.2);
});

test('a launch in boxes is cut between them: each runs once, in order', () => {
  const launch = (id: string, seconds: number, boxes: number) => ({
    id,
    seconds,
    dispatches: Array.from({ length: boxes }, (_, index) => index),
  });
  const all = [launch('a', 0.15, 1), launch('b', 0.9, 15), launch('c', 0.01, 2), launch('d', 0.7, 2)];
  const submits = submitsOf(all);
  const done = submits.flatMap((pieces) =>
    pieces.flatMap(({ launch: { id, dispatches }, from, to }) => dispatches.slice(from, to).map((part) => id + part)),
  );
  expect(done).toEqual(all.flatMap(({ id, dispatches }) => dispatches.map((part) => id + part)));
  for (const pieces of submits) {
    const times = pieces.flatMap(({ launch: { seconds, dispatches }, from, to }) =>
      dispatches.slice(from, to).map(() => seconds / dispatches.length),
    );
    const total = times.reduce((sum, time) => sum + time, 0);
    expect(times.length === 1 || total <= LONGEST_SUBMIT_SECONDS + 1e-9).toBe(true);
    expect(times.length).toBeGreaterThan(0);
  }
});
