/**
 * Causal attention, backward, second part: the keys' and values' parts of dqkv (the queries' part is left as it is), from
 * lse_BHT of the forward and delta_BHT of attentionBackwardQuery.
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
import gpu from './attentionBackwardKeyValue.wgsl?raw';
import shared from './attentionBackwardKeyValueShared.wgsl?raw';
import software from './attentionBackwardKeyValueSoftware.wgsl?raw';

export const attentionBackwardKeyValue: Kernel = {
  name: 'attention.backwardKeyValue',
  tensors: [half(read('qkv')), read('lse'), read('delta'), half(read('dy')), half(readWrite('dqkv'))],
  dims: ATTENTION_DIMS,
  sizes: attentionSizes,
  variant: (family, { D }) =>
    attentionVariant(
      {
        name: 'attention.backwardKeyValue',
        code: { gpu: shared + gpu, software: shared + software },
        gpuStrips: 2,
        heads: 'K',
      },
      family,
      D,
    ),
  cpu: attentionBackwardKeyValueCpu,
  cases: ATTENTION_CASES,
  fill({ qkv, lse, delta, dy }, dims) {
    const y = new Float32Array(dy.length);
    attentionForwardCpu({ qkv, y, lse }, dims);
    const { B, T, H, D } = dims;
    for (let n = 0; n < B * T; n++) {
      for (let h = 0; h < H; h++) {
        const row = attentionAt(dims, Math.floor(n / T), h).row(n % T);
        delta[row] = 0;
        for (let c = (n * H + h) * D; c < (n * H + h + 1) * D; c++) delta[row] += dy[c] * y[c];
      }
    }
  },
  tolerance: { absolute: 2e-5, relative: 3e-6 },
  cost: ({ B, T, H, K, D }) => ({
    flops: 4 * B * H * T * (T + 1) * D,
    bytes: 4 * B * T * ((2 * H + 4 * K) * D + 2 * H),
  }),
};

function attentionBackwardKeyValueCpu(arrays: Arrays, dims: Dims): void {
  const { qkv, delta, dy, dqkv } = arrays;
  const { B, T, H, K, D } = dims;
  const group = H / K;
  for (let b = 0; b < B; b++) {
    for (let keyHead = 0; keyHead < K; keyHead++) {
      const heads = Array.from({ length: group }, (_, i) => keyHead * group + i);
      const own = attentionAt(dims, b, keyHead * group);
      for (let j = 0; j < T; j++) {
        const dk = new Float64Array(D);
        const dv = new Float64Array(D);
        for (const h of heads) {
          const at = attentionAt(dims, b, h);
          const { p, ds } = attentionGradients(arrays, delta, dims, b, h);
          for (let i = j; i < T; i++) {
            const [pij, dsij] = [p(i, j), ds(i, j)];
            for (let d = 0; d < D; d++) {
              dk[d] += dsij * qkv[at.q(i, d)];
              dv[d] += pij * dy[at.y(i, d)];
            }
          }
        }
        for (let d = 0; d < D; d++) {
          dqkv[own.k(j, d)] = dk[d];
          dqkv[own.v(j, d)] = dv[d];
        }
      }
    }
  }
}
