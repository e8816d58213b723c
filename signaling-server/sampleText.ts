/** Text out of weights: the bytes tokenizer around the CPU reference of the model. */
import { type Random, seededRandom } from '../swarm/base.ts';
import { generate } from '../swarm/generate.ts';
import type { Model } from '../swarm/model.ts';
import { referenceTensors } from '../swarm/reference.ts';
import type { Weights } from './weights.ts';

export interface SampleRequest {
  readonly prompt: string;
  readonly tokens: number;
  readonly temperature: number;
  readonly seed: number;
}

/** What follows the prompt, without it. */
export async function sampleText(
  model: Model,
  read: Weights['readBlock'],
  { prompt, tokens, temperature, seed }: SampleRequest,
): Promise<string> {
  const blocks = new Map<string, Float32Array>();
  for (const { name, elements } of model.blocks) blocks.set(name, await read(name, 0, elements));
  const tensors = referenceTensors(model, (name) => blocks.get(name) ?? []);
  const random: Random = seededRandom(seed);
  const bytes = generate(model, tensors, [...Buffer.from(prompt, 'utf8')], { count: tokens, temperature, random });
  return Buffer.from(bytes).toString('utf8');
}
