/**
 * Text from a model, on the CPU: one token at a time, each layer's queries, keys and values kept. Where the positions are
 * used up, the text ends, or the newer half of it is read again from position 0.
 */
import { drawToken, seedWord } from '../answers/drawToken.ts';
import { at, invariant } from '../base.ts';
import type { Model } from '../model/model.ts';
import { type Matrices, plainProducts } from './products.ts';
import { Transformer } from './transformer.ts';

interface Drawing {
  /** 0: always the likeliest token. */
  readonly temperature: number;
  /** Only the likeliest tokens that together have this probability are drawn from; absent: all. */
  readonly topP?: number;
  readonly seed: number;
}

export interface Sampling extends Drawing {
  /** Tokens to add. */
  readonly count: number;
  /** Tokens after which no more are added. */
  readonly ends?: readonly number[];
  /** What happens where the positions are used up. */
  readonly atFull: 'end' | 'slide';
}

/** The tokens that follow `prompt`, an end among them as the last. */
export const generate = (model: Model, tensors: Matrices, prompt: readonly number[], sampling: Sampling): number[] =>
  [...tokensAfter(model, tensors, prompt, sampling)].filter((token) => token !== null);

/**
 * The same, one by one, with null for each token that was only read, so that whoever asks can do other things between
 * them. The prompt has at least one token, each below the vocabulary; one that fills the positions is followed by one token.
 */
export function* tokensAfter(
  model: Model,
  tensors: Matrices,
  prompt: readonly number[],
  { count, ends = [], atFull, temperature, topP = 1, seed }: Sampling,
): Generator<number | null, void> {
  invariant(prompt.length > 0, 'a prompt has a token');
  const { positions } = model;
  invariant(atFull === 'slide' || prompt.length <= positions, 'the prompt fits in the positions');
  const context = Math.min(positions, prompt.length + count);
  const reader = () => new Transformer(model, tensors, plainProducts, { sequences: 1, positions: 1, context });
  const text = [...prompt];
  let first = Math.max(0, text.length - positions);
  let read = first;
  let transformer = reader();
  let logits_V: ArrayLike<number> = [];
  while (text.length < prompt.length + count) {
    if (read - first === positions) {
      if (atFull === 'end') return;
      transformer = reader();
      read = first = text.length - Math.ceil(positions / 2);
    }
    for (; read < text.length; read++) {
      logits_V = transformer.next(at(text, read));
      if (read < text.length - 1) yield null;
    }
    const number = text.length - prompt.length;
    const token = drawToken(logits_V, { temperature, topP, seed: seedWord(seed), number });
    text.push(token);
    yield token;
    if (ends.includes(token)) return;
  }
}
