/** A layer's times on a device whose waits are long and whose clock is rounded, as browsers have them. */
import { expect, test } from 'vitest';
import { timePasses } from './layerTime.ts';

interface Browser {
  /** Of one pass, in seconds. */
  readonly forward: number;
  readonly backward: number;
  /** What is finished is told at the next multiple of this. */
  readonly tellsEvery: number;
  /** The clock shows multiples of this. */
  readonly clockStep: number;
  /** Of the first forward: a driver that compiles. */
  readonly compiling?: number;
}

/** The layer measured on such a browser; and how many passes that took. */
async function measured({ forward, backward, tellsEvery, clockStep, compiling = 0 }: Browser) {
  let [time, passes, compiled] = [0, 0, false];
  const pass = (seconds: number) => () => {
    time += seconds + (compiled ? 0 : compiling);
    compiled = true;
    passes++;
  };
  const settled = async (): Promise<void> => {
    time = tellsEvery * Math.ceil(time / tellsEvery + 1e-9);
  };
  const now = (): number => clockStep * Math.floor(time / clockStep + 1e-9);
  const empty = { leastSeconds: tellsEvery / 2, medianSeconds: tellsEvery };
  const times = await timePasses({ forward: pass(forward), backward: pass(backward), settled }, empty, now);
  return { ...times, passes };
}

/** Relative. */
const BOUND = 0.1;

test.each<[string, Browser]>([
  ['a fast GPU', { forward: 2e-4, backward: 5e-4, tellsEvery: 0.004, clockStep: 0.001 }],
  ['a slow one', { forward: 0.03, backward: 0.07, tellsEvery: 0.004, clockStep: 0.001 }],
  ['a driver that compiles', { forward: 1e-3, backward: 2e-3, tellsEvery: 0.004, clockStep: 0.001, compiling: 2 }],
  ['a browser that tells at once', { forward: 1e-3, backward: 2e-3, tellsEvery: 1e-4, clockStep: 1e-4 }],
  ['one that cannot be prompted', { forward: 5e-3, backward: 0.012, tellsEvery: 0.1, clockStep: 0.001 }],
])('%s: times are those of the work', async (_, browser) => {
  const { forwardSeconds, backwardSeconds } = await measured(browser);
  const both = forwardSeconds + backwardSeconds;
  expect(Math.abs(both / (browser.forward + browser.backward) - 1)).toBeLessThan(BOUND);
  expect(Math.abs(forwardSeconds / browser.forward - 1)).toBeLessThan(2 * BOUND);
});

test('what takes long is done twice and no more', async () => {
  const { passes } = await measured({ forward: 0.4, backward: 0.8, tellsEvery: 0.004, clockStep: 0.001 });
  expect(passes).toBe(4);
});
