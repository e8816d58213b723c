/** Text out of weights: a tokenizer around the CPU reference of the model. */
import { got, type Random, seededRandom } from '../../swarm/base.ts';
import type { Model } from '../../swarm/model/model.ts';
import { generate } from '../../swarm/reference/generate.ts';
import { referenceTensors } from '../../swarm/reference/trainer.ts';
import type { Weights } from '../weights/weights.ts';
import type { TextTokenizer } from './tokenizer.ts';

interface SampleRequest {
  readonly prompt: string;
  readonly tokens: number;
  readonly temperature: number;
  readonly seed: number;
}

/** One byte a token. */
export const BYTES: TextTokenizer = {
  ids: 256,
  encode: async (text) => [...Buffer.from(text, 'utf8')],
  decode: async (ids) => Buffer.from(ids.filter((id) => id < 256)).toString('utf8'),
  close: () => {},
};

/** What follows the prompt, without it. */
export async function sampleText(
  model: Model,
  read: Weights['readBlock'],
  { prompt, tokens, temperature, seed }: SampleRequest,
  tokenizer = BYTES,
): Promise<string> {
  const blocks = new Map<string, Float32Array>();
  for (const { name, elements } of model.blocks) blocks.set(name, await read(name, 0, elements));
  const tensors = referenceTensors(model, (name) => got(blocks, name));
  const random: Random = seededRandom(seed);
  const given = await tokenizer.encode(prompt);
  const added = generate(model, tensors, given, { count: tokens, temperature, random });
  // A character or a space may belong to tokens on both sides, so it is the whole that is decoded.
  const whole = await tokenizer.decode([...given, ...added]);
  const begin = await tokenizer.decode(given);
  return whole.startsWith(begin) ? whole.slice(begin.length) : tokenizer.decode(added);
}
