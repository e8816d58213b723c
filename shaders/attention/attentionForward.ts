/**
 * Causal attention without its T×T matrix (online softmax: Dao et al. 2022, algorithm 1). For each head, with j ≤ i:
 *   s_ij = q_i·k_j/√D,   lse_i = log Σ_j exp s_ij,   y_i = Σ_j exp(s_ij − lse_i)·v_j
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
} from './attention.ts';
import gpu from './attentionForward.wgsl?raw';
import slices from './attentionForwardSlices.wgsl?raw';
import software from './attentionForwardSoftware.wgsl?raw';
import queries from './attentionQueries.wgsl?raw';

export const attentionForward = attentionKernel((writtenOut) =>
  kernel({
    name: 'attention.forward',
    tensors: [half(read('qkv_BTED')), half(readWrite('y_BTHD')), by(1, readWrite('lse_BHT'))],
    dims: ATTENTION_DIMS,
    sizes: attentionSizes,
    source: (family, { D }) => {
      const { chunks, slice } = cutOfHead(D);
      const code = { gpu, software: queries + (chunks <= slice ? software : slices) };
      return attentionSource({ name: 'attention.forward', code, heads: 'H', writtenOut }, family, D);
    },
    cpu: attentionForwardCpu,
    sampled: {
      draw: ({ qkv_BTED }, dims, random, count) =>
        drawRows(dims, dims.H, random, count).flatMap(([b, h, i]) => {
          const place = attentionPlace(dims, b, h);
          const { y_D, logSum } = attentionRow(qkv_BTED, dims, [b, h, i]);
          const lse = { tensor: 'lse_BHT' as const, index: place.row(i), value: logSum };
          return [lse, ...y_D.map((value, d) => ({ tensor: 'y_BTHD' as const, index: place.y(i, d), value }))];
        }),
      slack: attentionSlack,
    },
    cases: ATTENTION_CASES,
    tolerance: { absolute: 3e-6, relative: 2e-6 },
    cost: ({ B, T, H, K, D }) => ({ flops: 2 * B * H * T * (T + 1) * D, bytes: 4 * B * T * (2 * (H + K) * D + H) }),
  }),
);
