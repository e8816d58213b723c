/**
 * Attention without its T×T matrix (online softmax: Dao et al. 2022, algorithm 1). For each head, with first_i ≤ j ≤ i:
 *   s_ij = scale·q_i·k_j,   lse_i = log Σ_j exp s_ij,   y_i = Σ_j exp(s_ij − lse_i)·v_j
 * See attention.ts for the layout and how work is cut.
 */

import { kernel } from '../kernel/kernel.ts';
import { by, half, read, readWrite } from '../kernel/slots.ts';
import {
  ATTENTION_CASES,
  ATTENTION_DIMS,
  attentionForwardCpu,
  attentionKernel,
  attentionPlace,
  attentionRow,
  attentionSizes,
  attentionSlack,
  attentionSource,
  cutOfHead,
  drawRows,
  fillFirstKeys,
  seenPairs,
} from './attention.ts';
import gpu from './attentionForward.wgsl?raw';
import slices from './attentionForwardSlices.wgsl?raw';
import software from './attentionForwardSoftware.wgsl?raw';
import queries from './attentionQueries.wgsl?raw';

export const attentionForward = attentionKernel((writtenOut) =>
  kernel({
    name: 'attention.forward',
    tensors: [half(read('qkv_BTED')), read('first_BT', 'u32'), half(readWrite('y_BTHD')), by(1, readWrite('lse_BHT'))],
    dims: ATTENTION_DIMS,
    sizes: attentionSizes,
    source: (family, { D }) => {
      const { chunks, slice } = cutOfHead(D);
      const code = { gpu, software: queries + (chunks <= slice ? software : slices) };
      return attentionSource({ name: 'attention.forward', code, heads: 'H', writtenOut }, family, D);
    },
    cpu: attentionForwardCpu,
    sampled: {
      draw: (arrays, dims, random, count) =>
        drawRows(dims, dims.H, random, count).flatMap(([b, h, i]) => {
          const place = attentionPlace(dims, b, h);
          const { y_D, logSum } = attentionRow(arrays, dims, [b, h, i]);
          const lse = { tensor: 'lse_BHT' as const, index: place.row(i), value: logSum };
          return [lse, ...y_D.map((value, d) => ({ tensor: 'y_BTHD' as const, index: place.y(i, d), value }))];
        }),
      slack: attentionSlack,
      words: fillFirstKeys,
    },
    cases: ATTENTION_CASES,
    fill: fillFirstKeys,
    tolerance: { absolute: 3e-6, relative: 2e-6 },
    cost: (dims) => ({
      flops: 4 * seenPairs(dims) * dims.H * dims.D,
      bytes: 4 * dims.B * dims.T * (2 * (dims.H + dims.K) * dims.D + dims.H),
    }),
  }),
);
