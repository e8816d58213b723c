/** The state of a model's training as arrays of all tensors, one after the other in the order of its blocks: islands meet with these. */
import type { Range } from '../../../swarm/base.ts';
import { initialValues } from '../../../swarm/model/initialValues.ts';
import { type Model, parameters } from '../../../swarm/model/model.ts';
import { stateOf, type TrainedState } from '../../../swarm/reference/trainer.ts';

export interface FlatState extends TrainedState {
  readonly values: Float32Array;
}

/** Where each tensor stands among all values. */
export function tensorRanges(model: Model): Map<string, Range> {
  const ranges = new Map<string, Range>();
  let from = 0;
  for (const { tensors, elements } of model.blocks) {
    for (const { name, offset, elements: own } of tensors) ranges.set(name, [from + offset, from + offset + own]);
    from += elements;
  }
  return ranges;
}

/** The tensors, where they stand. */
export const tensorsIn = (model: Model, values: Float32Array): Map<string, Float32Array> =>
  new Map([...tensorRanges(model)].map(([name, range]) => [name, values.subarray(...range)]));

/** At a copy of these values, with no step done. */
export function flatState(model: Model, first: Float32Array): FlatState {
  const values = first.slice();
  return { ...stateOf(tensorsIn(model, values)), values };
}

export function firstValues(model: Model, seed: number): Float32Array {
  const values = new Float32Array(parameters(model));
  let from = 0;
  for (const { name, elements } of model.blocks) {
    values.set(initialValues(model, name, seed), from);
    from += elements;
  }
  return values;
}
