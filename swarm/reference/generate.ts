/**
 * Text from a model, on the CPU: one token at a time, each layer's queries, keys and values kept. Where the positions are
 * used up, the text ends, or the newer half of it is read again from position 0.
 */
import { at, invariant, type Random } from '../base.ts';
import type { Model } from '../model/model.ts';
import { type Matrices, plainProducts } from './products.ts';
import { Transformer } from './transformer.ts';

interface Drawing {
  /** 0: always the likeliest token. */
  readonly temperature: number;
  /** Only the likeliest tokens that together have this probability are drawn from; absent: all. */
  readonly topP?: number;
  readonly random: Random;
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
  { count, ends = [], atFull, ...drawing }: Sampling,
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
    const token = choose(logits_V, drawing);
    text.push(token);
    yield token;
    if (ends.includes(token)) return;
  }
}

/** Draws from softmax(logits / temperature), of the likeliest tokens that together have `topP` of it. */
export function choose(logits_V: ArrayLike<number>, { temperature, topP = 1, random }: Drawing): number {
  const logits = Array.from(logits_V);
  let [best, most] = [0, at(logits, 0)];
  for (const [v, logit] of logits.entries()) if (logit > most) [best, most] = [v, logit];
  if (temperature === 0) return best;
  const weights = logits.map((logit) => Math.exp((logit - most) / temperature));
  const sum = weights.reduce((total, weight) => total + weight, 0);
  const kept = topP < 1 ? likeliest(weights, topP * sum) : weights.map((_, v) => v);
  let rest = random() * (topP < 1 ? kept.reduce((total, v) => total + at(weights, v), 0) : sum);
  for (const v of kept) {
    rest -= at(weights, v);
    if (rest < 0) return v;
  }
  return best;
}

/** The fewest, likeliest first, whose weights reach `enough`: at least one. Of equal ones the lower id comes first. */
function likeliest(weights: readonly number[], enough: number): number[] {
  const order = weights.map((_, v) => v).sort((a, b) => at(weights, b) - at(weights, a) || a - b);
  let [sum, count] = [0, 0];
  do sum += at(weights, at(order, count++));
  while (sum < enough && count < order.length);
  return order.slice(0, count);
}
