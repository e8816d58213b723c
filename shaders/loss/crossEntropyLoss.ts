/** Softmax cross-entropy of each row, loss_N[n] = −log softmax(logits_NV[n])[targets_N[n]], without a gradient; 0 without a target. */

import { at } from '../../swarm/base.ts';
import { NO_TARGET } from '../../swarm/run/data.ts';
import { fillBelow } from '../kernel/fill.ts';
import { type Arrays, type Dims, kernel } from '../kernel/kernel.ts';
import { laneWidth, rowSource, WIDE_TEAM } from '../kernel/lanes.ts';
import { by, half, read, readWrite, u32 } from '../kernel/slots.ts';
import code from './crossEntropyLoss.wgsl?raw';
import logOfOneAnd from './logOfOneAnd.wgsl?raw';
import alone from './softmaxAlone.wgsl?raw';
import team from './softmaxTeam.wgsl?raw';
import target from './target.wgsl?raw';

export const crossEntropyLoss = kernel({
  name: 'crossEntropy.loss',
  tensors: [half(readWrite('logits_NV')), read('targets_N', 'u32'), by(1, readWrite('loss_N'))],
  dims: [u32('N'), u32('V')],
  sizes: ({ N, V }) => ({ logits_NV: N * V, targets_N: N, loss_N: N }),
  source: (family, { V }) =>
    rowSource(
      {
        name: 'crossEntropy.loss',
        code: logOfOneAnd + target + (family === 'gpu' ? team : alone) + code,
        width: laneWidth(V),
        team: WIDE_TEAM,
      },
      family,
      ({ N }) => N,
    ),
  cpu({ logits_NV, targets_N, loss_N }, { N, V }) {
    for (let n = 0; n < N; n++) {
      const target = at(targets_N, n);
      loss_N[n] = target === NO_TARGET ? 0 : softmaxRow(logits_NV, n, V, target).loss;
    }
  },
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
});

/** Logits far apart in the odd rows (an exp without the maximum taken off overflows), and targets below V; each fourth row has none. */
export function fillLogits(
  { logits_NV, targets_N }: Arrays<'logits_NV' | 'targets_N'>,
  { N, V }: Dims<'N' | 'V'>,
  random: () => number,
): void {
  for (let n = 1; n < N; n += 2) for (let v = 0; v < V; v++) logits_NV[n * V + v] = at(logits_NV, n * V + v) * 20 + 100;
  fillBelow(targets_N, V, random);
  for (let n = 2; n < N; n += 4) targets_N[n] = NO_TARGET;
}

/**
 * Of row n in float64: its loss, and the loss's gradient by each logit. Both have all digits of a target that is nearly
 * certain, since they are made from Σ exp(logit − most) of the others.
 */
export function softmaxRow(logits_NV: Arrays[string], n: number, V: number, target: number) {
  let most = Number.NEGATIVE_INFINITY;
  for (let v = 0; v < V; v++) most = Math.max(most, at(logits_NV, n * V + v));
  const power = (v: number) => Math.exp(at(logits_NV, n * V + v) - most);
  let others = 0;
  for (let v = 0; v < V; v++) if (v !== target) others += power(v);
  const sum = others + power(target);
  const rest = most - at(logits_NV, n * V + target);
  return {
    loss: rest > 0 ? rest + Math.log(sum) : Math.log1p(others),
    gradient: (v: number) => (v === target ? -others : power(v)) / sum,
  };
}
