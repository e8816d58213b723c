/**
 * Softmax cross-entropy with its gradient: loss_N[n] = −log softmax(logits_NV[n])[targets_N[n]], unscaled, and the
 * logits become their own gradient, (softmax − onehot)·scale. A row without a target counts nothing:
 * its loss and its gradient are 0. With scale = 1/(rows that count in the whole step) the gradients of micro-batches add up
 * to the gradient of the step's mean loss, however the step is split.
 */

import { at } from '../../swarm/base.ts';
import { NO_TARGET } from '../../swarm/run/data.ts';
import { kernel } from '../kernel/kernel.ts';
import { laneWidth, rowSource, WIDE_TEAM } from '../kernel/lanes.ts';
import { by, f32, half, read, readWrite, u32 } from '../kernel/slots.ts';
import code from './crossEntropy.wgsl?raw';
import { fillLogits, softmaxRow } from './crossEntropyLoss.ts';
import gradientsAlone from './gradientsAlone.wgsl?raw';
import gradientsTeam from './gradientsTeam.wgsl?raw';
import logOfOneAnd from './logOfOneAnd.wgsl?raw';
import softmaxAlone from './softmaxAlone.wgsl?raw';
import softmaxTeam from './softmaxTeam.wgsl?raw';
import target from './target.wgsl?raw';

export const crossEntropy = kernel({
  name: 'crossEntropy',
  tensors: [half(readWrite('logits_NV')), read('targets_N', 'u32'), by(1, readWrite('loss_N'))],
  dims: [u32('N'), u32('V'), f32('scale')],
  sizes: ({ N, V }) => ({ logits_NV: N * V, targets_N: N, loss_N: N }),
  source: (family, { V }) =>
    rowSource(
      {
        name: 'crossEntropy',
        code:
          logOfOneAnd +
          target +
          (family === 'gpu' ? softmaxTeam + gradientsTeam : softmaxAlone + gradientsAlone) +
          code,
        width: laneWidth(V),
        team: WIDE_TEAM,
      },
      family,
      ({ N }) => N,
    ),
  cpu({ logits_NV, targets_N, loss_N }, { N, V, scale }) {
    for (let n = 0; n < N; n++) {
      if (at(targets_N, n) === NO_TARGET) {
        loss_N[n] = 0;
        logits_NV.fill(0, n * V, (n + 1) * V);
        continue;
      }
      const { loss, gradient } = softmaxRow(logits_NV.slice(n * V, (n + 1) * V), 0, V, at(targets_N, n));
      loss_N[n] = loss;
      for (let v = 0; v < V; v++) logits_NV[n * V + v] = gradient(v) * scale;
    }
  },
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
});
