/** Softmax cross-entropy of each row, loss_N[n] = −log softmax(logits_NV[n])[targets_N[n]], without a gradient. */

import { fillBelow } from '../fill.ts';
import type { Arrays, Dims, Kernel } from '../kernel.ts';
import { lanesOf, rowVariant, WIDE_TEAM } from '../lanes.ts';
import { half, read, readWrite, u32 } from '../slots.ts';
import code from './crossEntropyLoss.wgsl?raw';
import softmaxTeam from './softmaxTeam.wgsl?raw';

export const crossEntropyLoss: Kernel = {
  name: 'crossEntropy.loss',
  tensors: [half(read('logits')), read('targets', 'u32'), readWrite('loss')],
  dims: [u32('N'), u32('V')],
  sizes: ({ N, V }) => ({ logits: N * V, targets: N, loss: N }),
  variant: (family, { V }) =>
    rowVariant(
      { name: 'crossEntropy.loss', code: softmaxTeam + code, lanes: lanesOf(V), team: WIDE_TEAM },
      family,
      ({ N }) => N,
    ),
  cpu: crossEntropyLossCpu,
  cases: [
    { N: 1, V: 1 },
    { N: 5, V: 7 },
    { N: 37, V: 300 },
    { N: 256, V: 256 },
    { N: 3, V: 5001 },
    { N: 2, V: 6012 },
  ],
  fill: fillLogits,
  tolerance: { absolute: 1e-6, relative: 1e-6 },
  cost: ({ N, V }) => ({ flops: 3 * N * V, bytes: 4 * N * V }),
};

/** Logits far apart in the odd rows (an exp without the maximum taken off overflows), and targets below V. */
export function fillLogits({ logits, targets }: Arrays, { N, V }: Dims, random: () => number): void {
  for (let n = 1; n < N; n += 2) for (let v = 0; v < V; v++) logits[n * V + v] = logits[n * V + v] * 20 + 100;
  fillBelow(targets, V, random);
}

/** Softmax of row n in float64, and its loss. */
export function softmaxRow(logits: Arrays[string], n: number, V: number, target: number) {
  let most = Number.NEGATIVE_INFINITY;
  for (let v = 0; v < V; v++) most = Math.max(most, logits[n * V + v]);
  let sum = 0;
  for (let v = 0; v < V; v++) sum += Math.exp(logits[n * V + v] - most);
  return {
    loss: Math.log(sum) + most - logits[n * V + target],
    probability: (v: number) => Math.exp(logits[n * V + v] - most) / sum,
  };
}

function crossEntropyLossCpu({ logits, targets, loss }: Arrays, { N, V }: Dims): void {
  for (let n = 0; n < N; n++) loss[n] = softmaxRow(logits, n, V, targets[n]).loss;
}
