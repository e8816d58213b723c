/** Text out of weights: a tokenizer around the CPU reference of the model. */
import { got } from '../../swarm/base.ts';
import type { Model } from '../../swarm/model/model.ts';
import { generate } from '../../swarm/reference/generate.ts';
import { referenceTensors } from '../../swarm/reference/trainer.ts';
import type { Weights } from '../weights/weights.ts';
import { BYTES, type TextTokenizer } from './tokenizer.ts';

interface SampleRequest {
  readonly prompt: string;
  readonly tokens: number;
  readonly temperature: number;
  readonly seed: number;
  /** Tokens that end the text. */
  readonly ends?: readonly number[];
}

/** What follows the prompt, without it. */
export async function sampleText(
  model: Model,
  read: Weights['readBlock'],
  { prompt, tokens, temperature, seed, ends = [] }: SampleRequest,
  tokenizer = BYTES,
): Promise<string> {
  const tensors = await tensorsOf(model, read);
  const given = await tokenizer.encode(prompt);
  const added = generate(model, tensors, given, { count: tokens, ends, atFull: 'slide', temperature, seed });
  return addedText(tokenizer, given, withoutEnd(added, ends));
}

/** The values of a model, read block by block. */
export async function tensorsOf(model: Model, read: Weights['readBlock']): Promise<Map<string, Float64Array>> {
  const blocks = new Map<string, Float32Array>();
  for (const { name, elements } of model.blocks) blocks.set(name, await read(name, 0, elements));
  return referenceTensors(model, (name) => got(blocks, name));
}

export const withoutEnd = (tokens: readonly number[], ends: readonly number[]): readonly number[] =>
  ends.includes(tokens.at(-1) ?? -1) ? tokens.slice(0, -1) : tokens;

/**
 * What decoding all tokens has beyond the first ones' text; a character or a space may belong to tokens on both sides. One at the
 * end whose bytes are not all there is left out. `known`: the first ones' text, where it is known.
 */
export async function addedText(
  tokenizer: Pick<TextTokenizer, 'decode' | 'decodeFinished'>,
  given: readonly number[],
  added: readonly number[],
  known?: string,
): Promise<string> {
  const whole = await tokenizer.decodeFinished([...given, ...added]);
  const begin = known ?? (await tokenizer.decode(given));
  return whole.startsWith(begin) ? whole.slice(begin.length) : tokenizer.decodeFinished(added);
}
