/**
 * Causal attention, backward, second part: the keys' and values' parts of dqkv (the queries' part is left as it is), from
 * lse_BHT of the forward and delta_BHT of attentionBackwardQuery.
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
  cutOfHead,
  MOST_STRIPS,
} from './attention.ts';
import together from './attentionBackwardKeyValue.wgsl?raw';
import apart from './attentionBackwardKeyValueApart.wgsl?raw';
import shared from './attentionBackwardKeyValueShared.wgsl?raw';
import software from './attentionBackwardKeyValueSoftware.wgsl?raw';
import tiles from './attentionBackwardKeyValueTiles.wgsl?raw';
import { STRIP } from './tileSteps.ts';

export const attentionBackwardKeyValue = kernel({
  name: 'attention.backwardKeyValue',
  tensors: [
    half(read('qkv_BTED')),
    by(1, read('lse_BHT')),
    by(1, read('delta_BHT')),
    half(read('dy_BTHD')),
    half(readWrite('dqkv_BTED')),
  ],
  dims: ATTENTION_DIMS,
  sizes: attentionSizes,
  source: (family, { D }) => {
    const isApart = 2 * Math.ceil(cutOfHead(D).chunks / STRIP) > MOST_STRIPS;
    const code = { gpu: shared + tiles + (isApart ? apart : together), software: shared + software };
    const gpuParts = isApart ? 2 : 1;
    return attentionSource({ name: 'attention.backwardKeyValue', code, gpuParts, heads: 'K' }, family, D);
  },
  cpu(arrays, dims) {
    const { qkv_BTED, delta_BHT, dy_BTHD, dqkv_BTED } = arrays;
    const { B, T, H, K, D } = dims;
    const group = H / K;
    for (let b = 0; b < B; b++) {
      for (let keyHead = 0; keyHead < K; keyHead++) {
        const heads = Array.from({ length: group }, (_, i) => keyHead * group + i);
        const own = attentionPlace(dims, b, keyHead * group);
        for (let j = 0; j < T; j++) {
          const dk = new Float64Array(D);
          const dv = new Float64Array(D);
          for (const h of heads) {
            const place = attentionPlace(dims, b, h);
            const { p, ds } = attentionGradients(arrays, delta_BHT, dims, b, h);
            for (let i = j; i < T; i++) {
              const [pij, dsij] = [p(i, j), ds(i, j)];
              for (let d = 0; d < D; d++) {
                dk[d] = at(dk, d) + dsij * at(qkv_BTED, place.q(i, d));
                dv[d] = at(dv, d) + pij * at(dy_BTHD, place.y(i, d));
              }
            }
          }
          for (let d = 0; d < D; d++) {
            dqkv_BTED[own.k(j, d)] = at(dk, d);
            dqkv_BTED[own.v(j, d)] = at(dv, d);
          }
        }
      }
    }
  },
  cases: ATTENTION_CASES,
  fill({ qkv_BTED, lse_BHT, delta_BHT, dy_BTHD }, dims) {
    const y_BTHD = new Float32Array(dy_BTHD.length);
    attentionForwardCpu({ qkv_BTED, y_BTHD, lse_BHT }, dims);
    const { B, T, H, D } = dims;
    for (let n = 0; n < B * T; n++) {
      for (let h = 0; h < H; h++) {
        const row = attentionPlace(dims, Math.floor(n / T), h).row(n % T);
        delta_BHT[row] = 0;
        for (let c = (n * H + h) * D; c < (n * H + h + 1) * D; c++) delta_BHT[row] += at(dy_BTHD, c) * at(y_BTHD, c);
      }
    }
  },
  tolerance: { absolute: 2e-5, relative: 3e-6 },
  cost: ({ B, T, H, K, D }) => ({
    flops: 4 * B * H * T * (T + 1) * D,
    bytes: 4 * B * T * ((2 * H + 4 * K) * D + 2 * H),
  }),
});
