/**
 * Text from a model, on the CPU: one token at a time, each layer's queries, keys and values kept. Where the positions are
 * used up, the newer half of the text is read again from position 0.
 */
import { at, invariant, type Random } from '../base.ts';
import type { Model } from '../model/model.ts';
import { type Matrices, plainProducts } from './products.ts';
import { Transformer } from './transformer.ts';

interface Sampling {
  /** Tokens to add. */
  readonly count: number;
  /** 0: always the likeliest token. */
  readonly temperature: number;
  readonly random: Random;
}

/** The tokens that follow `prompt` (at least one token, each below the vocabulary). */
export function generate(model: Model, tensors: Matrices, prompt: readonly number[], sampling: Sampling): number[] {
  invariant(prompt.length > 0, 'a prompt has a token');
  const { positions } = model;
  const reader = () =>
    new Transformer(model, tensors, plainProducts, { sequences: 1, positions: 1, context: positions });
  const text = [...prompt];
  let first = Math.max(0, text.length - positions);
  let read = first;
  let transformer = reader();
  let logits_V: ArrayLike<number> = [];
  while (text.length < prompt.length + sampling.count) {
    if (read - first === positions) {
      transformer = reader();
      read = first = text.length - Math.ceil(positions / 2);
    }
    for (; read < text.length; read++) logits_V = transformer.next(at(text, read));
    text.push(choose(logits_V, sampling));
  }
  return text.slice(prompt.length);
}

/** Draws from softmax(logits / temperature). */
export function choose(logits_V: ArrayLike<number>, { temperature, random }: Omit<Sampling, 'count'>): number {
  const logits = Array.from(logits_V);
  let [best, most] = [0, at(logits, 0)];
  for (const [v, logit] of logits.entries()) if (logit > most) [best, most] = [v, logit];
  if (temperature === 0) return best;
  const weights = logits.map((logit) => Math.exp((logit - most) / temperature));
  let rest = random() * weights.reduce((sum, weight) => sum + weight, 0);
  for (const [v, weight] of weights.entries()) {
    rest -= weight;
    if (rest < 0) return v;
  }
  return best;
}
