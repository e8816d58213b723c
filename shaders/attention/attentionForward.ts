/** Causal attention, forward: y and lse_BHT from qkv. See attention.ts for the layout and how work is cut. */

import type { Kernel } from '../kernel.ts';
import { half, read, readWrite } from '../slots.ts';
import {
  ATTENTION_CASES,
  ATTENTION_DIMS,
  attentionForwardCpu,
  attentionSizes,
  attentionVariant,
  cutOfHead,
} from './attention.ts';
import gpu from './attentionForward.wgsl?raw';
import shared from './attentionForwardShared.wgsl?raw';
import slices from './attentionForwardSlices.wgsl?raw';
import software from './attentionForwardSoftware.wgsl?raw';
import queries from './attentionQueries.wgsl?raw';

export const attentionForward: Kernel = {
  name: 'attention.forward',
  tensors: [half(read('qkv')), half(readWrite('y')), readWrite('lse')],
  dims: ATTENTION_DIMS,
  sizes: attentionSizes,
  variant: (family, { D }) => {
    const { chunks, slice } = cutOfHead(D);
    const code = { gpu: shared + gpu, software: shared + queries + (chunks <= slice ? software : slices) };
    return attentionVariant({ name: 'attention.forward', code, gpuStrips: 4, heads: 'H' }, family, D);
  },
  cpu: attentionForwardCpu,
  cases: ATTENTION_CASES,
  tolerance: { absolute: 3e-6, relative: 2e-6 },
  cost: ({ B, T, H, K, D }) => ({ flops: 2 * B * H * T * (T + 1) * D, bytes: 4 * B * T * (2 * (H + K) * D + H) }),
};
