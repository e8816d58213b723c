import { expect, test } from 'vitest';
import { savedKinds } from '../../swarm/plan/stateKinds.ts';
import { islandsOf } from '../../swarm/testing/islands.ts';
import { UploadCheck } from './uploadCheck.ts';

/** Two elements of each kind, in chunks that no kind ends with. */
async function* chunksOf(kinds: readonly (readonly [number, number])[]): AsyncGenerator<Uint8Array> {
  const bytes = new Uint8Array(Float32Array.from(kinds.flat()).buffer);
  for (let from = 0; from < bytes.length; from += 12) yield bytes.subarray(from, from + 12);
}

test('[SV50] of islands both the shared values and those of rounds are held against the earlier ones, and of the others the largest counts', async () => {
  const kinds = savedKinds({ ...islandsOf(2, 3), exchange: { top: 1, chunk: 8, feedback: 0.5 }, publish: 'int8' });
  const values: Readonly<Record<string, readonly [number, number]>> = {
    ...{ shared: [3, 5], value: [1, 6], m: [1, 2], v: [0.5, 0.25], 'm@1': [-3, 1], 'v@1': [0.125, 0.25] },
    ...{ leftOver: [2, 0], 'leftOver@1': [-1, 1], velocity: [0.5, -0.5] },
  };
  const check = new UploadCheck([4, 6], kinds, async () => Float32Array.of(1, 1));
  for await (const _ of check.through(chunksOf(kinds.map((kind) => values[kind] ?? [0, 0]))));
  expect(check.sums).toEqual({ elements: 2, before: 2, moved: 25, m: 10, v: 0.75, velocity: 0.5, leftOver: 4 });
});

test.each(['shared', 'value', 'm', 'v@1', 'leftOver', 'leftOver@1', 'velocity'])(
  '[SV50] nothing is kept that donors would not take from each other: %s',
  async (large) => {
    const kinds = savedKinds({ ...islandsOf(2, 3), exchange: { top: 1, chunk: 8, feedback: 0.5 }, publish: 'int8' });
    expect(kinds).toContain(large);
    const most = 3.4028234663852886e38; // of float32
    const looked = async (value: number): Promise<void> => {
      const check = new UploadCheck([4, 6], kinds, async () => Float32Array.of(1, 1));
      for await (const _ of check.through(chunksOf(kinds.map((kind) => [0, kind === large ? value : 0]))));
    };
    await looked(most);
    await expect(looked(Number.POSITIVE_INFINITY)).rejects.toThrow(
      /^element 5 of its .* is Infinity: expected a finite/,
    );
  },
);
