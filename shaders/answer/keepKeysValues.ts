/**
 * Keys and values of new rows go to their places in the cache of what answers have read: row n to place_N[n]. The cache has
 * R rows of F = 2K heads, keys before values; which row a position has is the pages' affair (swarm/answers/pages.ts).
 */
import { at } from '../../swarm/base.ts';
import { kernel } from '../kernel/kernel.ts';
import { laneSource, laneWidth } from '../kernel/lanes.ts';
import { half, read, readWrite, u32 } from '../kernel/slots.ts';
import code from './keepKeysValues.wgsl?raw';

export const keepKeysValues = kernel({
  name: 'answer.keep',
  tensors: [half(read('qkv_NED')), read('place_N', 'u32'), half(readWrite('cache_RFD'))],
  dims: [u32('N'), u32('H'), u32('K'), u32('D')],
  // R is no dim of the kernel, only of its cases: places are trusted to be below it, and different.
  sizes: ({ N, H, K, D, R }) => ({ qkv_NED: N * (H + 2 * K) * D, place_N: N, cache_RFD: 2 * R * K * D }),
  source: (_family, { D }) =>
    laneSource({ name: 'answer.keep', code, width: laneWidth(D) }, ({ N, K, D: width }) => 2 * N * K * width),
  cpu({ qkv_NED, place_N, cache_RFD }, { N, H, K, D }) {
    const kept = 2 * K * D;
    for (let n = 0; n < N; n++) {
      for (let i = 0; i < kept; i++) {
        cache_RFD[at(place_N, n) * kept + i] = at(qkv_NED, n * (H * D + kept) + H * D + i);
      }
    }
  },
  cases: [
    { N: 1, H: 1, K: 1, D: 1, R: 1 },
    { N: 7, H: 3, K: 1, D: 5, R: 11 },
    { N: 16, H: 6, K: 2, D: 20, R: 40 },
    { N: 64, H: 4, K: 4, D: 32, R: 64 },
  ],
  fill({ place_N }, { R }) {
    for (let n = 0; n < place_N.length; n++) place_N[n] = R - 1 - n;
  },
  tolerance: { absolute: 0, relative: 0 },
  cost: ({ N, K, D }) => ({ flops: 0, bytes: 4 * 4 * N * K * D }),
});
