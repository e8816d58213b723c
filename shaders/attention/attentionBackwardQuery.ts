/**
 * Causal attention, backward, first part: delta_BHT = rowsum(dy·y) and the queries' part of dqkv (those of keys and values
 * are left as they are). Runs before attentionBackwardKeyValue, which reads delta.
 */

import type { Arrays, Dims, Kernel } from '../kernel.ts';
import { half, read, readWrite } from '../slots.ts';
import {
  ATTENTION_CASES,
  ATTENTION_DIMS,
  attentionAt,
  attentionForwardCpu,
  attentionGradients,
  attentionSizes,
  attentionVariant,
} from './attention.ts';
import gpu from './attentionBackwardQuery.wgsl?raw';
import shared from './attentionBackwardQueryShared.wgsl?raw';
import software from './attentionBackwardQuerySoftware.wgsl?raw';
import queries from './attentionQueries.wgsl?raw';

export const attentionBackwardQuery: Kernel = {
  name: 'attention.backwardQuery',
  tensors: [
    half(read('qkv')),
    half(read('y')),
    read('lse'),
    half(read('dy')),
    readWrite('delta'),
    half(readWrite('dqkv')),
  ],
  dims: ATTENTION_DIMS,
  sizes: attentionSizes,
  variant: (family, { D }) =>
    attentionVariant(
      {
        name: 'attention.backwardQuery',
        code: { gpu: shared + gpu, software: shared + queries + software },
        gpuStrips: 4,
        heads: 'H',
      },
      family,
      D,
    ),
  cpu: attentionBackwardQueryCpu,
  cases: ATTENTION_CASES,
  fill: attentionForwardCpu,
  tolerance: { absolute: 1e-5, relative: 3e-6 },
  cost: ({ B, T, H, K, D }) => ({
    flops: 3 * B * H * T * (T + 1) * D,
    bytes: 4 * B * T * ((4 * H + 2 * K) * D + 2 * H),
  }),
};

function attentionBackwardQueryCpu(arrays: Arrays, dims: Dims): void {
  const { qkv, y, dy, delta, dqkv } = arrays;
  const { B, T, H, D } = dims;
  for (let b = 0; b < B; b++) {
    for (let h = 0; h < H; h++) {
      const at = attentionAt(dims, b, h);
      for (let i = 0; i < T; i++) {
        let dot = 0;
        for (let d = 0; d < D; d++) dot += dy[at.y(i, d)] * y[at.y(i, d)];
        delta[at.row(i)] = dot;
      }
      const { ds } = attentionGradients(arrays, delta, dims, b, h);
      for (let i = 0; i < T; i++) {
        const dsRow = Array.from({ length: i + 1 }, (_, j) => ds(i, j));
        for (let d = 0; d < D; d++)
          dqkv[at.q(i, d)] = dsRow.reduce((sum, value, j) => sum + value * qkv[at.k(j, d)], 0);
      }
    }
  }
}
