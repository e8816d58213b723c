/** What training changes, of all tensors of a model one after the other, and AdamW's update of it. */
import type { Range } from '../../../swarm/base.ts';
import { initialValues } from '../../../swarm/model/initialValues.ts';
import { type Model, parameters } from '../../../swarm/model/model.ts';

/** Values and moments of all tensors, one after the other in the order of the model's blocks. */
export interface TrainedState {
  readonly values: Float32Array;
  readonly means: Float32Array;
  readonly squares: Float32Array;
  /** Updates done. */
  time: number;
}

export const stateOf = (values: Float32Array): TrainedState => ({
  values: values.slice(),
  means: new Float32Array(values.length),
  squares: new Float32Array(values.length),
  time: 0,
});

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

export function firstValues(model: Model, seed: number): Float32Array {
  const values = new Float32Array(parameters(model));
  let from = 0;
  for (const { name, elements } of model.blocks) {
    values.set(initialValues(model, name, seed), from);
    from += elements;
  }
  return values;
}

interface AdamW {
  readonly beta1: number;
  readonly beta2: number;
  readonly clip: number;
  readonly epsilon: number;
  /** With the mean's bias correction. */
  readonly rate: number;
  /** Bias correction of the squares. */
  readonly squareScale: number;
  /** What decay leaves. */
  readonly kept: number;
}

/** As torch.optim.AdamW, of one tensor: decoupled decay, bias-corrected moments. */
export function adamW(
  { values, means, squares }: TrainedState,
  gradients: Float32Array,
  [from, to]: Range,
  options: AdamW,
): void {
  const { beta1, beta2, clip, epsilon, rate, squareScale, kept } = options;
  for (let i = from; i < to; i++) {
    const gradient = (gradients[i] ?? 0) * clip;
    const mean = beta1 * (means[i] ?? 0) + (1 - beta1) * gradient;
    const square = beta2 * (squares[i] ?? 0) + (1 - beta2) * gradient * gradient;
    values[i] = (values[i] ?? 0) * kept - (rate * mean) / (Math.sqrt(square * squareScale) + epsilon);
    means[i] = mean;
    squares[i] = square;
  }
}

export function normOf(values: Float32Array): number {
  let squares = 0;
  for (let i = 0; i < values.length; i++) squares += (values[i] ?? 0) ** 2;
  return Math.sqrt(squares);
}
