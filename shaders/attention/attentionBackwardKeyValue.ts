/**
 * Attention, backward, second part: the keys' and values' parts of dqkv (the queries' part is left as it is), from
 * lse_BHT of the forward and delta_BHT of attentionBackwardQuery.
 */

import { at } from '../../swarm/base.ts';
import { type Arrays, kernel } from '../kernel/kernel.ts';
import { by, half, read, readWrite } from '../kernel/slots.ts';
import {
  ATTENTION_CASES,
  ATTENTION_DIMS,
  type AttentionDims,
  attentionGradients,
  attentionKernel,
  attentionPlace,
  attentionSizes,
  attentionSlack,
  attentionSource,
  attentionSpread,
  cutOfHead,
  drawRows,
  fillFirstKeys,
  fillFromForward,
  MOST_STRIPS,
  seenPairs,
} from './attention.ts';
import together from './attentionBackwardKeyValue.wgsl?raw';
import apart from './attentionBackwardKeyValueApart.wgsl?raw';
import shared from './attentionBackwardKeyValueShared.wgsl?raw';
import software from './attentionBackwardKeyValueSoftware.wgsl?raw';
import tiles from './attentionBackwardKeyValueTiles.wgsl?raw';
import { STRIP } from './tileSteps.ts';

/** dk and dv of row j of a head of keys, over all heads of queries that read it. */
function rowOfKey(
  arrays: Arrays<'qkv_BTED' | 'first_BT' | 'lse_BHT' | 'delta_BHT' | 'dy_BTHD'>,
  dims: AttentionDims,
  [b, keyHead, j]: readonly [number, number, number],
): { readonly dk_D: Float64Array; readonly dv_D: Float64Array } {
  const { qkv_BTED, delta_BHT, dy_BTHD } = arrays;
  const { T, H, K, D } = dims;
  const dk_D = new Float64Array(D);
  const dv_D = new Float64Array(D);
  for (let h = (keyHead * H) / K; h < ((keyHead + 1) * H) / K; h++) {
    const place = attentionPlace(dims, b, h);
    const { p, ds } = attentionGradients(arrays, delta_BHT, dims, b, h);
    for (let i = j; i < T; i++) {
      if (at(arrays.first_BT, b * T + i) > j) continue;
      const [pij, dsij] = [p(i, j), ds(i, j)];
      for (let d = 0; d < D; d++) {
        dk_D[d] = at(dk_D, d) + dsij * at(qkv_BTED, place.q(i, d));
        dv_D[d] = at(dv_D, d) + pij * at(dy_BTHD, place.y(i, d));
      }
    }
  }
  return { dk_D, dv_D };
}

export const attentionBackwardKeyValue = attentionKernel((writtenOut) =>
  kernel({
    name: 'attention.backwardKeyValue',
    tensors: [
      half(read('qkv_BTED')),
      read('first_BT', 'u32'),
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
      const gpuTeams = isApart ? 2 : 1;
      return attentionSource({ name: 'attention.backwardKeyValue', code, gpuTeams, heads: 'K', writtenOut }, family, D);
    },
    cpu(arrays, dims) {
      const { B, T, H, K } = dims;
      for (let b = 0; b < B; b++) {
        for (let keyHead = 0; keyHead < K; keyHead++) {
          const own = attentionPlace(dims, b, (keyHead * H) / K);
          for (let j = 0; j < T; j++) {
            const { dk_D, dv_D } = rowOfKey(arrays, dims, [b, keyHead, j]);
            dk_D.forEach((dk, d) => {
              arrays.dqkv_BTED[own.k(j, d)] = dk;
              arrays.dqkv_BTED[own.v(j, d)] = at(dv_D, d);
            });
          }
        }
      }
    },
    sampled: {
      spread: attentionSpread,
      draw: (arrays, dims, random, count) =>
        drawRows(dims, dims.K, random, count / 2).flatMap(([b, keyHead, j]) => {
          const own = attentionPlace(dims, b, (keyHead * dims.H) / dims.K);
          const { dk_D, dv_D } = rowOfKey(arrays, dims, [b, keyHead, j]);
          const drawn = (index: number, value: number) => ({ tensor: 'dqkv_BTED' as const, index, value });
          return [
            ...Array.from(dk_D, (dk, d) => drawn(own.k(j, d), dk)),
            ...Array.from(dv_D, (dv, d) => drawn(own.v(j, d), dv)),
          ];
        }),
      slack: attentionSlack,
      words: fillFirstKeys,
    },
    cases: ATTENTION_CASES,
    fill({ qkv_BTED, first_BT, lse_BHT, delta_BHT, dy_BTHD }, dims, random) {
      const y_BTHD = new Float32Array(dy_BTHD.length);
      fillFromForward({ qkv_BTED, first_BT, y_BTHD, lse_BHT }, dims, random);
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
    cost: (dims) => ({
      flops: 8 * seenPairs(dims) * dims.H * dims.D,
      bytes: 4 * dims.B * dims.T * ((2 * dims.H + 4 * dims.K) * dims.D + 2 * dims.H),
    }),
  }),
);
