/**
 * The token that each answer goes on with, from the logits of its last row: swarm/answers/drawToken.ts says how it is drawn.
 * Only the token leaves the GPU. A nucleus needs no sorting: its smallest logit is found bit by bit, since floats in their
 * order are words in theirs.
 *
 * asked_N4 holds for each row temperature and top-p (the bits of floats), seed, and how many tokens there are already.
 */

import { drawToken, type TokenDraw } from '../../swarm/answers/drawToken.ts';
import { at } from '../../swarm/base.ts';
import { kernel } from '../kernel/kernel.ts';
import { rowSource, WIDE_TEAM } from '../kernel/lanes.ts';
import mixed from '../kernel/mixed.wgsl?raw';
import { half, read, readWrite, u32 } from '../kernel/slots.ts';
import code from './drawTokens.wgsl?raw';

/** As the kernel reads it. */
export function askedWords(drawings: readonly TokenDraw[]): Uint32Array<ArrayBuffer> {
  const words = new Uint32Array(4 * drawings.length);
  const floats = new Float32Array(words.buffer);
  for (const [n, { temperature, topP, seed, number }] of drawings.entries()) {
    floats.set([temperature, topP], 4 * n);
    words.set([seed, number], 4 * n + 2);
  }
  return words;
}

const asked = (words: ArrayLike<number>, n: number): TokenDraw => {
  const [temperature = 0, topP = 1] = new Float32Array(Uint32Array.of(at(words, 4 * n), at(words, 4 * n + 1)).buffer);
  return { temperature, topP, seed: at(words, 4 * n + 2), number: at(words, 4 * n + 3) };
};

export const drawTokens = kernel({
  name: 'answer.draw',
  tensors: [half(read('logits_NV')), read('asked_N4', 'u32'), readWrite('token_N', 'u32')],
  dims: [u32('N'), u32('V')],
  sizes: ({ N, V }) => ({ logits_NV: N * V, asked_N4: 4 * N, token_N: N }),
  source: (family) =>
    rowSource({ name: 'answer.draw', code: mixed + code, width: 1, team: WIDE_TEAM }, family, ({ N }) => N),
  cpu({ logits_NV, asked_N4, token_N }, { N, V }) {
    for (let n = 0; n < N; n++) token_N[n] = drawToken(logits_NV.slice(n * V, (n + 1) * V), asked(asked_N4, n));
  },
  cases: [
    { N: 1, V: 1 },
    { N: 6, V: 7 },
    { N: 37, V: 300 },
    { N: 3, V: 5001 },
  ],
  /** The likeliest, all, a nucleus, a narrow one at a high temperature. */
  fill({ asked_N4 }, { N }) {
    const ways = [
      { temperature: 0, topP: 1 },
      { temperature: 1, topP: 1 },
      { temperature: 0.7, topP: 0.9 },
      { temperature: 2, topP: 0.3 },
    ];
    asked_N4.set(askedWords(Array.from({ length: N }, (_, n) => ({ ...at(ways, n % 4), seed: 3 * n, number: n }))));
  },
  tolerance: { absolute: 0, relative: 0 },
  cost: ({ N, V }) => ({ flops: 3 * N * V, bytes: 4 * N * V }),
});
