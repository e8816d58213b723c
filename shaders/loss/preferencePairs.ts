/**
 * DPO (Rafailov et al. 2023, "Direct Preference Optimization", equation 7) of windows with a preference pair each. A row's loss
 * is −log π of its target, so with the chosen text's rows C and the rejected one's R in the first half of a window, and the same
 * rows without the adapter T/2 further on,
 *
 *   margin = β·[log π(C) − log π_ref(C) − log π(R) + log π_ref(R)],   loss = −log σ(margin) = log(1 + exp(−margin))
 *
 * The loss is in the window's first row, and 0 in all others. Since ∂loss/∂(log π of a row) = −β·σ(−margin) in C and the
 * opposite in R, a row's own gradient counts weight = β·σ(−margin), or its opposite; the reference's count nothing.
 */

import { at, below } from '../../swarm/base.ts';
import { type Arrays, type Dims, kernel } from '../kernel/kernel.ts';
import { rowSource, WIDE_TEAM } from '../kernel/lanes.ts';
import { f32, read, readWrite, u32 } from '../kernel/slots.ts';
import logOfOneAnd from './logOfOneAnd.wgsl?raw';
import code from './preferencePairs.wgsl?raw';

export const preferencePairs = kernel({
  name: 'preferencePairs',
  tensors: [read('first_BT', 'u32'), readWrite('loss_BT'), readWrite('weight_BT')],
  dims: [u32('B'), u32('T'), f32('beta')],
  sizes: ({ B, T }) => ({ first_BT: B * T, loss_BT: B * T, weight_BT: B * T }),
  source: (family) =>
    rowSource({ name: 'preferencePairs', code: logOfOneAnd + code, width: 1, team: WIDE_TEAM }, family, ({ B }) => B),
  cpu({ first_BT, loss_BT, weight_BT }, { B, T, beta }) {
    for (let start = 0; start < B * T; start += T) {
      const [middle, end] = [start + T / 2, start + T];
      let margin = 0;
      for (let n = start; n < end; n++) {
        const sign = (n < middle ? 1 : -1) * (at(first_BT, n) % (T / 2) === 0 ? 1 : -1);
        margin -= beta * sign * at(loss_BT, n);
        weight_BT[n] = n < middle ? sign : 0;
      }
      const loss = margin > 0 ? Math.log1p(Math.exp(-margin)) : Math.log1p(Math.exp(margin)) - margin;
      for (let n = start; n < end; n++) {
        weight_BT[n] = (at(weight_BT, n) * beta) / (1 + Math.exp(margin));
        loss_BT[n] = n === start ? loss : 0;
      }
    }
  },
  cases: [
    { B: 1, T: 2, beta: 1 },
    { B: 3, T: 14, beta: 0.1 },
    { B: 5, T: 64, beta: 2 },
    { B: 2, T: 1030, beta: 0.1 },
  ],
  fill: fillPairs,
  tolerance: { absolute: 2e-6, relative: 2e-6 },
  cost: ({ B, T }) => ({ flops: 6 * B * T, bytes: 4 * 6 * B * T }),
});

/** First rows of a chosen text, a rejected one and padding, whose rows lose nothing; twice. Losses are small, as a margin is. */
function fillPairs(
  { first_BT, loss_BT }: Arrays<'first_BT' | 'loss_BT'>,
  { B, T }: Dims<'B' | 'T'>,
  random: () => number,
): void {
  const half = T / 2;
  for (let start = 0; start < B * T; start += T) {
    const chosen = 1 + below(random, half);
    const rejected = chosen + below(random, half - chosen + 1);
    for (let r = 0; r < T; r++) {
      const own = r % half;
      first_BT[start + r] = r - own + (own < chosen ? 0 : own < rejected ? chosen : own);
      loss_BT[start + r] = own < rejected ? at(loss_BT, start + r) / 4 : 0;
    }
  }
}
