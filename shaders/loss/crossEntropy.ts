/**
 * Softmax cross-entropy with its gradient: loss_N[n] = −log softmax(logits_NV[n])[targets_N[n]], unscaled, and the
 * logits become their own gradient, (softmax − onehot)·scale. With scale = 1/(tokens of the whole step) the gradients
 * of micro-batches add up to the gradient of the step's mean loss, however the step is split.
 */

import type { Arrays, Dims, Kernel } from '../kernel.ts';
import { lanesOf, rowVariant, WIDE_TEAM } from '../lanes.ts';
import { f32, half, read, readWrite, u32 } from '../slots.ts';
import code from './crossEntropy.wgsl?raw';
import { fillLogits, softmaxRow } from './crossEntropyLoss.ts';
import softmaxTeam from './softmaxTeam.wgsl?raw';

export const crossEntropy: Kernel = {
  name: 'crossEntropy',
  tensors: [half(readWrite('logits')), read('targets', 'u32'), readWrite('loss')],
  dims: [u32('N'), u32('V'), f32('scale')],
  sizes: ({ N, V }) => ({ logits: N * V, targets: N, loss: N }),
  variant: (family, { V }) =>
    rowVariant(
      { name: 'crossEntropy', code: softmaxTeam + code, lanes: lanesOf(V), team: WIDE_TEAM },
      family,
      ({ N }) => N,
    ),
  cpu: crossEntropyCpu,
  cases: [
    { N: 1, V: 1, scale: 1 },
    { N: 5, V: 7, scale: 0.25 },
    { N: 37, V: 300, scale: 1 },
    { N: 256, V: 256, scale: 1 / 256 },
    { N: 3, V: 5001, scale: 1 },
    { N: 2, V: 6012, scale: 1 },
  ],
  fill: fillLogits,
  tolerance: { absolute: 1e-6, relative: 1e-6 },
  cost: ({ N, V }) => ({ flops: 6 * N * V, bytes: 4 * 2 * N * V }),
};

function crossEntropyCpu({ logits, targets, loss }: Arrays, { N, V, scale }: Dims): void {
  for (let n = 0; n < N; n++) {
    const { loss: rowLoss, probability } = softmaxRow(logits.slice(n * V, (n + 1) * V), 0, V, targets[n]);
    loss[n] = rowLoss;
    for (let v = 0; v < V; v++) logits[n * V + v] = (probability(v) - (v === targets[n] ? 1 : 0)) * scale;
  }
}
