import { expect, test } from 'vitest';
import { seededRandom } from '../../swarm/base.ts';
import { sketchOf } from '../../swarm/run/stateSketch.ts';
import { isUploadNear } from './copyComparison.ts';

const ELEMENTS = 70_000; // of each kind, more than is read at once
const RANGE = [64, 64 + ELEMENTS] as const;

function uploaded(state: Float32Array<ArrayBuffer>) {
  const bytes = Buffer.from(state.buffer);
  let held = 0;
  const blobs = {
    readRange: async (_hash: string, from: number, to: number) => Buffer.from(bytes.subarray(from, to)),
    hold() {
      held++;
      return async () => void held--;
    },
  };
  const near = (copy: Float32Array) => {
    const { sums } = sketchOf(5, RANGE[0], copy, 3);
    const word = { block: 'head', range: RANGE, hash: '0'.repeat(64), seed: 5, sums: sums.map((one) => [...one]) };
    return isUploadNear(blobs, 3, { uploadedHash: 'f'.repeat(64), copy: word });
  };
  return { near, held: () => held };
}

test('[RE84] a copy that rounding alone made another one is near what was uploaded, one that is a hundredth off is not', async () => {
  const random = seededRandom(3);
  const state = Float32Array.from({ length: 3 * ELEMENTS }, () => random() - 0.5);
  const { near, held } = uploaded(state);
  expect(await near(state)).toBe(true);
  expect(await near(state.map((value) => value * (1 + 1e-7 * (random() - 0.5))))).toBe(true);
  for (const kind of [0, 1, 2])
    expect(await near(state.map((value, i) => (Math.floor(i / ELEMENTS) === kind ? value * 1.01 : value)))).toBe(false);
  // A tenth of its elements in another order.
  const turned = state.slice();
  turned.subarray(0, ELEMENTS / 10).reverse();
  expect(await near(turned)).toBe(false);
  expect(held()).toBe(0);
});
