/**
 * Attention, backward, first part: delta_BHT = rowsum(dy·y) and the queries' part of dqkv (those of keys and values
 * are left as they are). Runs before attentionBackwardKeyValue, which reads delta.
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
  drawRows,
  fillFirstKeys,
  fillFromForward,
  seenPairs,
} from './attention.ts';
import gpu from './attentionBackwardQuery.wgsl?raw';
import shared from './attentionBackwardQueryShared.wgsl?raw';
import software from './attentionBackwardQuerySoftware.wgsl?raw';
import queries from './attentionQueries.wgsl?raw';

type Row = readonly [b: number, h: number, i: number];

/** dy_i·y_i. */
function deltaOf({ y_BTHD, dy_BTHD }: Arrays<'y_BTHD' | 'dy_BTHD'>, dims: AttentionDims, [b, h, i]: Row): number {
  const place = attentionPlace(dims, b, h);
  let dot = 0;
  for (let d = 0; d < dims.D; d++) dot += at(dy_BTHD, place.y(i, d)) * at(y_BTHD, place.y(i, d));
  return dot;
}

/** dq of row i. */
function rowOfQuery(
  arrays: Arrays<'qkv_BTED' | 'first_BT' | 'lse_BHT' | 'dy_BTHD'>,
  delta_BHT: Arrays[string],
  dims: AttentionDims,
  [b, h, i]: Row,
): number[] {
  const place = attentionPlace(dims, b, h);
  const { ds } = attentionGradients(arrays, delta_BHT, dims, b, h);
  const first = at(arrays.first_BT, b * dims.T + i);
  const dsRow = Array.from({ length: i + 1 - first }, (_, j) => ds(i, first + j));
  return Array.from({ length: dims.D }, (_, d) =>
    dsRow.reduce((sum, value, j) => sum + value * at(arrays.qkv_BTED, place.k(first + j, d)), 0),
  );
}

export const attentionBackwardQuery = attentionKernel((writtenOut) =>
  kernel({
    name: 'attention.backwardQuery',
    tensors: [
      half(read('qkv_BTED')),
      read('first_BT', 'u32'),
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
          writtenOut,
        },
        family,
        D,
      ),
    cpu(arrays, dims) {
      const { y_BTHD, dy_BTHD, delta_BHT, dqkv_BTED } = arrays;
      const { B, T, H } = dims;
      for (let b = 0; b < B; b++) {
        for (let h = 0; h < H; h++) {
          const place = attentionPlace(dims, b, h);
          for (let i = 0; i < T; i++) delta_BHT[place.row(i)] = deltaOf({ y_BTHD, dy_BTHD }, dims, [b, h, i]);
          for (let i = 0; i < T; i++) {
            rowOfQuery(arrays, delta_BHT, dims, [b, h, i]).forEach((dq, d) => {
              dqkv_BTED[place.q(i, d)] = dq;
            });
          }
        }
      }
    },
    sampled: {
      spread: attentionSpread,
      draw: (arrays, dims, random, count) =>
        drawRows(dims, dims.H, random, count).flatMap(([b, h, i]) => {
          const place = attentionPlace(dims, b, h);
          const value = deltaOf(arrays, dims, [b, h, i]);
          const delta_BHT = new Float64Array(place.row(i) + 1) as unknown as Float32Array; // of all, row i alone is read
          delta_BHT[place.row(i)] = value;
          const dq_D = rowOfQuery(arrays, delta_BHT, dims, [b, h, i]);
          return [
            { tensor: 'delta_BHT' as const, index: place.row(i), value },
            ...dq_D.map((dq, d) => ({ tensor: 'dqkv_BTED' as const, index: place.q(i, d), value: dq })),
          ];
        }),
      slack: attentionSlack,
      words: fillFirstKeys,
    },
    cases: ATTENTION_CASES,
    fill: fillFromForward,
    tolerance: { absolute: 1e-5, relative: 3e-6 },
    cost: (dims) => ({
      flops: 6 * seenPairs(dims) * dims.H * dims.D,
      bytes: 4 * dims.B * dims.T * ((4 * dims.H + 2 * dims.K) * dims.D + 2 * dims.H),
    }),
  }),
);
