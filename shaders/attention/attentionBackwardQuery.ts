/**
 * Causal attention, backward, first part: delta_BHT = rowsum(dy·y) and the queries' part of dqkv (those of keys and values
 * are left as they are). Runs before attentionBackwardKeyValue, which reads delta.
 */

import { at } from '../../swarm/base.ts';
import { kernel } from '../kernel/kernel.ts';
import { by, half, read, readWrite } from '../kernel/slots.ts';
import {
  ATTENTION_CASES,
  ATTENTION_DIMS,
  attentionForwardCpu,
  attentionGradients,
  attentionPlace,
  attentionSizes,
  attentionSource,
} from './attention.ts';
import gpu from './attentionBackwardQuery.wgsl?raw';
import shared from './attentionBackwardQueryShared.wgsl?raw';
import software from './attentionBackwardQuerySoftware.wgsl?raw';
import queries from './attentionQueries.wgsl?raw';

export const attentionBackwardQuery = kernel({
  name: 'attention.backwardQuery',
  tensors: [
    half(read('qkv_BTED')),
    half(read('y_BTHD')),
    by(1, read('lse_BHT')),
    half(read('dy_BTHD')),
    by(1, readWrite('delta_BHT')),
    half(readWrite('dqkv_BTED')),
  ],
  dims: ATTENTION_DIMS,
  sizes: attentionSizes,
  source: (family, { D }) =>
    attentionSource(
      {
        name: 'attention.backwardQuery',
        code: { gpu: shared + gpu, software: shared + queries + software },
        heads: 'H',
      },
      family,
      D,
    ),
  cpu(arrays, dims) {
    const { qkv_BTED, y_BTHD, dy_BTHD, delta_BHT, dqkv_BTED } = arrays;
    const { B, T, H, D } = dims;
    for (let b = 0; b < B; b++) {
      for (let h = 0; h < H; h++) {
        const place = attentionPlace(dims, b, h);
        for (let i = 0; i < T; i++) {
          let dot = 0;
          for (let d = 0; d < D; d++) dot += at(dy_BTHD, place.y(i, d)) * at(y_BTHD, place.y(i, d));
          delta_BHT[place.row(i)] = dot;
        }
        const { ds } = attentionGradients(arrays, delta_BHT, dims, b, h);
        for (let i = 0; i < T; i++) {
          const dsRow = Array.from({ length: i + 1 }, (_, j) => ds(i, j));
          for (let d = 0; d < D; d++)
            dqkv_BTED[place.q(i, d)] = dsRow.reduce((sum, value, j) => sum + value * at(qkv_BTED, place.k(j, d)), 0);
        }
      }
    }
  },
  cases: ATTENTION_CASES,
  fill: attentionForwardCpu,
  tolerance: { absolute: 1e-5, relative: 3e-6 },
  cost: ({ B, T, H, K, D }) => ({
    flops: 3 * B * H * T * (T + 1) * D,
    bytes: 4 * B * T * ((4 * H + 2 * K) * D + 2 * H),
  }),
});
