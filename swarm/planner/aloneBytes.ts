/** What a run would need of one donor that computes all of it: more of its memory no plan of that run asks for. */
import { peerId } from '../base.ts';
import { predictedBytes } from '../memory/memory.ts';
import type { Model } from '../model/model.ts';
import { equalSplit } from './equalSplit.ts';

export function aloneBytes(model: Model, samples: number, sequence: number): number {
  const alone = peerId('alone');
  return predictedBytes(model, equalSplit(model, samples, [alone]), alone, sequence);
}
