import { expect, test } from 'vitest';
import { savedKinds } from '../../swarm/plan/stateKinds.ts';
import { islandsOf } from '../../swarm/testing/islands.ts';
import { UploadCheck } from './uploadCheck.ts';

/** Two elements of each kind, in chunks that no kind ends with. */
async function* chunksOf(kinds: readonly (readonly [number, number])[]): AsyncGenerator<Uint8Array> {
  const bytes = new Uint8Array(Float32Array.from(kinds.flat()).buffer);
  for (let from = 0; from < bytes.length; from += 12) yield bytes.subarray(from, from + 12);
}

test('[SV51] of islands the shared values are held against the earlier ones, and of the moments the largest counts', async () => {
  const kinds = savedKinds({ ...islandsOf(2, 3), exchange: { top: 1, chunk: 8, feedback: 0.5 }, publish: 'int8' });
  const values: Readonly<Record<string, readonly [number, number]>> = {
    ...{ shared: [3, 5], m: [1, 2], v: [0.5, 0.25], 'm@1': [-3, 1], 'v@1': [0.125, 0.25] },
  };
  const check = new UploadCheck([4, 6], kinds, async () => Float32Array.of(1, 1));
  for await (const _ of check.through(chunksOf(kinds.map((kind) => values[kind] ?? [1e9, -1e9]))));
  expect(check.sums).toEqual({ elements: 2, before: 2, moved: 4 + 16, m: 10, v: 0.75 });
});
