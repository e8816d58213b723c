/**
 * A trainer in one process that runs the model table on the CPU: what a swarm's run must reproduce, in small sizes. One
 * step is forward, backward, global-norm clip, and the optimizer's update, as docs/run-file.md words it.
 */
import { at, got } from '../base.ts';
import { matricesOf, trainedModel } from '../model/matrices.ts';
import type { Model, TensorSpec } from '../model/model.ts';
import { learningRate } from '../run/learningRate.ts';
import type { Train } from '../run/runFile.ts';
import { MuonRoom } from './muon.ts';
import { type Matrices, type Matrix, type Products, plainProducts } from './products.ts';
import { positionsOf, Transformer, type Window } from './transformer.ts';

interface ReferenceStep {
  readonly loss: number;
  /** Before clipping. */
  readonly gradientNorm: number;
  readonly learningRate: number;
}

/** The tensors of a model in float64, by full name, from the elements of its blocks (or of those that stand). */
export function referenceTensors(
  model: Pick<Model, 'blocks'>,
  elements: (block: string) => ArrayLike<number>,
): Map<string, Float64Array> {
  const tensors = new Map<string, Float64Array>();
  for (const { name, tensors: rows } of model.blocks) {
    const values = Float64Array.from(elements(name));
    for (const tensor of rows) tensors.set(tensor.name, values.slice(tensor.offset, tensor.offset + tensor.elements));
  }
  return tensors;
}

const transformerOf = (model: Model, tensors: Matrices, windows: readonly Window[]): Transformer =>
  new Transformer(model, tensors, plainProducts, {
    sequences: windows.length,
    positions: positionsOf(at(windows, 0)),
  });

/** Mean loss of the windows, and its gradients by tensor. `divisor`: the targets of the whole step that count, if these are a part of it. */
export function lossAndGradients(
  model: Model,
  tensors: Matrices,
  windows: readonly Window[],
  divisor?: number,
): { readonly loss: number; readonly gradients: Matrices } {
  const transformer = transformerOf(model, tensors, windows);
  const loss = transformer.forward(windows, divisor);
  transformer.backward();
  return { loss, gradients: transformer.gradients };
}

/** Mean loss of the windows. */
export const meanLoss = (model: Model, tensors: Matrices, windows: readonly Window[]): number =>
  transformerOf(model, tensors, windows).forward(windows);

/** What training changes, by tensor: values and moments. What is updated as whole matrices has no squares. */
export interface TrainedState {
  readonly tensors: Matrices;
  readonly means: Matrices;
  readonly squares: Matrices;
  /** Updates done. */
  time: number;
}

export function stateOf(tensors: Matrices): TrainedState {
  // A slice has the values' own precision.
  const zeros = () => new Map([...tensors].map(([name, values]) => [name, values.slice().fill(0)]));
  return { tensors, means: zeros(), squares: zeros(), time: 0 };
}

type Settings = Pick<Train, 'optimizer' | 'schedule' | 'gradientClipNorm' | 'globalBatchSize' | 'sequenceLength'>;

const NONE: Matrices = new Map();

/** Does the steps of one run, for as many islands as there are: their states are given to it with each step. */
export class Trainer {
  readonly model: Model;
  readonly #train: Settings;
  readonly #tensors: ReadonlyMap<string, TensorSpec>;
  readonly #muon: MuonRoom;
  readonly #values: Matrices;
  readonly #transformer: Transformer;

  /** `standing`: tensors that no step changes. */
  constructor(model: Model, train: Settings, products: Products = plainProducts, standing = NONE) {
    [this.model, this.#train] = [trainedModel(model, train.optimizer.type), train];
    const rows = this.model.blocks.flatMap(({ tensors }) => tensors);
    this.#tensors = new Map(rows.map((tensor) => [tensor.name, tensor]));
    this.#muon = new MuonRoom(products);
    this.#values = new Map(rows.map(({ name, elements }) => [name, products.zeros(elements)]));
    this.#transformer = new Transformer(model, new Map([...standing, ...this.#values]), products, {
      sequences: train.globalBatchSize,
      positions: train.sequenceLength,
    });
  }

  /** Mean loss of as many windows as a step has. */
  loss(tensors: Matrices, windows: readonly Window[]): number {
    for (const [name, values] of this.#values) values.set(got(tensors, name));
    return this.#transformer.forward(windows);
  }

  /** One whole step of `state`, in place, at the rate of step `number`. The loss is from before the update. */
  step(state: TrainedState, windows: readonly Window[], number: number): ReferenceStep {
    const loss = this.loss(state.tensors, windows);
    this.#transformer.backward();
    const { gradients } = this.#transformer;
    const { optimizer, gradientClipNorm } = this.#train;
    // In the order of the state's tensors, whichever had its gradient first.
    const gradientNorm = globalNorm([...state.tensors.keys()].map((name) => got(gradients, name)));
    const clip = gradientClipNorm === null ? 1 : Math.min(1, gradientClipNorm / (gradientNorm + 1e-6));
    const rate = learningRate(this.#train, number);
    state.time++;
    for (const [name, values] of state.tensors) {
      const tensor = got(this.#tensors, name);
      const [grads, m] = [got(gradients, name), got(state.means, name)];
      if (optimizer.type === 'muon' && tensor.matrices !== undefined) {
        for (const matrix of matricesOf(tensor))
          done(this.#muon.update({ values, grads, m, first: 0 }, matrix, { ...optimizer, rate, clip }));
        continue;
      }
      const weightDecay = tensor.shape.length > 1 ? optimizer.weightDecay : 0;
      adamW(values, grads, m, got(state.squares, name), { ...optimizer, weightDecay, rate, clip, updates: state.time });
    }
    return { loss, gradientNorm, learningRate: rate };
  }
}

function done(work: Iterator<number>): void {
  while (!work.next().done);
}

/** Steps of one state, which change it in place. */
export interface ReferenceTrainer {
  readonly tensors: Matrices;
  /** `number`: the step whose learning rate it has, where that is not how many were done. */
  step(windows: readonly Window[], number?: number): ReferenceStep;
}

/** In float64. */
export function referenceTrainer(
  model: Model,
  tensors: Matrices,
  train: Settings,
  standing?: Matrices,
): ReferenceTrainer {
  const trainer = new Trainer(model, train, plainProducts, standing);
  const state = stateOf(tensors);
  return { tensors, step: (windows, number = state.time) => trainer.step(state, windows, number) };
}

function globalNorm(gradients: readonly Matrix[]): number {
  let squares = 0;
  for (const values of gradients)
    for (let i = 0; i < values.length; i++) {
      const value = values[i] ?? 0;
      squares += value * value;
    }
  return Math.sqrt(squares);
}

interface AdamW {
  readonly betas: readonly [number, number];
  readonly epsilon: number;
  readonly weightDecay: number;
  readonly rate: number;
  readonly clip: number;
  /** Updates done, this one included. */
  readonly updates: number;
}

/** As torch.optim.AdamW: decoupled decay first, then p ← p − rate·m̂ / (√v̂ + ε) with bias-corrected moments. */
function adamW(p: Matrix, g: Matrix, m: Matrix, v: Matrix, options: AdamW): void {
  const { betas, epsilon, weightDecay, rate, clip, updates } = options;
  const [beta1, beta2] = betas;
  const [kept, mScale, vScale] = [1 - rate * weightDecay, rate / (1 - beta1 ** updates), 1 / (1 - beta2 ** updates)];
  for (let i = 0; i < p.length; i++) {
    const gradient = (g[i] ?? 0) * clip;
    const mean = beta1 * (m[i] ?? 0) + (1 - beta1) * gradient;
    const square = beta2 * (v[i] ?? 0) + (1 - beta2) * gradient * gradient;
    p[i] = (p[i] ?? 0) * kept - (mScale * mean) / (Math.sqrt(square * vScale) + epsilon);
    m[i] = mean;
    v[i] = square;
  }
}
