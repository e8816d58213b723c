/**
 * A trainer in one process and float64 that interprets the model table: what a swarm's run must reproduce, in small
 * sizes. One step is forward, backward, global-norm clip, AdamW, as docs/run-file.md words it.
 */
import { at, invariant } from '../base.ts';
import { layerBlock, type Model, type Operation } from '../model/model.ts';
import { learningRate } from '../run/learningRate.ts';
import type { Train } from '../run/runFile.ts';
import { type Matrices, type Matrix, matrix, read } from './matrix.ts';
import { backward, forward, type Gradients, type Pass } from './operations.ts';

/** One window: T inputs and T targets, as T+1 tokens. */
export type Window = ArrayLike<number>;

interface ReferenceStep {
  readonly loss: number;
  /** Before clipping. */
  readonly gradientNorm: number;
  readonly learningRate: number;
}

/** The tensors of a model in float64, by full name, from the elements of its blocks. */
export function referenceTensors(model: Model, elements: (block: string) => ArrayLike<number>): Map<string, Matrix> {
  const tensors = new Map<string, Matrix>();
  for (const { name, tensors: rows } of model.blocks) {
    const values = Float64Array.from(elements(name));
    for (const tensor of rows) tensors.set(tensor.name, values.slice(tensor.offset, tensor.offset + tensor.elements));
  }
  return tensors;
}

/** Runs of rows with their activations: the embedding, each layer, the head. */
interface BlockRows {
  readonly name: string;
  readonly rows: readonly Operation[];
}

const blockRows = (model: Model): BlockRows[] => [
  { name: 'embedding', rows: model.embedding },
  ...Array.from({ length: model.layers }, (_, index) => ({ name: layerBlock(index), rows: model.layer(index) })),
  { name: 'head', rows: model.head },
];

/** The name that a block's last row writes. A head ends with its loss and writes none. */
export function outputOf(rows: readonly Operation[]): string {
  const last = rows.at(-1);
  invariant(last && 'y' in last, 'a block ends with a row that writes y');
  return last.y;
}

/** Mean loss of the windows, and its gradients by tensor. `divisor`: the targets of the whole step, if these are a part of it. */
export function lossAndGradients(
  model: Model,
  tensors: Matrices,
  windows: readonly Window[],
  divisor?: number,
): { readonly loss: number; readonly gradients: Map<string, Matrix> } {
  const { passes, loss } = runForward(model, tensors, windows, divisor);
  const gradients = new Map<string, Matrix>();
  let dy: Matrix | undefined;
  for (const { rows, pass } of passes.toReversed()) {
    const local: Gradients = { tensors: gradients, activations: new Map() };
    if (dy) local.activations.set(outputOf(rows), dy);
    for (const operation of rows.toReversed()) backward(operation, pass, local);
    dy = local.activations.get('x');
  }
  return { loss, gradients };
}

/** Mean loss of the windows. */
export const meanLoss = (model: Model, tensors: Matrices, windows: readonly Window[]): number =>
  runForward(model, tensors, windows).loss;

function runForward(model: Model, tensors: Matrices, windows: readonly Window[], divisor?: number) {
  const positions = at(windows, 0).length - 1;
  invariant(
    windows.every(({ length }) => length === positions + 1),
    'all windows have one length',
  );
  const ids = windows.flatMap((window) => Array.from(window).slice(0, -1));
  const targets = windows.flatMap((window) => Array.from(window).slice(1));
  const lossScale = 1 / (divisor ?? targets.length);
  const position = (row: number): number => row % positions;
  let loss = 0;
  let x: Matrix | undefined;
  const passes = blockRows(model).map(({ name, rows }) => {
    const activations = new Map<string, Matrix>(x ? [['x', x]] : []);
    const pass: Pass = { width: model.width, tensors, activations, ids, targets, position, lossScale };
    for (const operation of rows) loss += forward(operation, pass);
    if (name !== 'head') x = matrix(activations, outputOf(rows));
    return { rows, pass };
  });
  return { passes, loss };
}

/** Tensors, AdamW's moments and the number of steps done; `step` changes them in place. */
export interface ReferenceTrainer {
  readonly tensors: Map<string, Matrix>;
  /** `number`: the step whose learning rate it has, where that is not how many were done. */
  step(windows: readonly Window[], number?: number): ReferenceStep;
}

export function referenceTrainer(
  model: Model,
  tensors: Map<string, Matrix>,
  train: Pick<Train, 'optimizer' | 'schedule' | 'gradientClipNorm'>,
): ReferenceTrainer {
  const decayed = new Set(
    model.blocks.flatMap(({ tensors: rows }) => rows.filter(({ shape }) => shape.length > 1).map(({ name }) => name)),
  );
  const zeros = () => new Map([...tensors].map(([name, { length }]) => [name, new Float64Array(length)]));
  const [means, squares] = [zeros(), zeros()];
  let done = 0;
  return {
    tensors,
    step(windows, number = done) {
      const { loss, gradients } = lossAndGradients(model, tensors, windows);
      const gradientNorm = globalNorm(gradients.values());
      const clip = train.gradientClipNorm === null ? 1 : Math.min(1, train.gradientClipNorm / (gradientNorm + 1e-6));
      const rate = learningRate(train, number);
      done++;
      for (const [name, values] of tensors)
        adamW(values, matrix(gradients, name), matrix(means, name), matrix(squares, name), {
          ...train.optimizer,
          weightDecay: decayed.has(name) ? train.optimizer.weightDecay : 0,
          rate,
          clip,
          steps: done,
        });
      return { loss, gradientNorm, learningRate: rate };
    },
  };
}

function globalNorm(gradients: Iterable<Matrix>): number {
  let sum = 0;
  for (const values of gradients) for (const value of values) sum += value * value;
  return Math.sqrt(sum);
}

interface AdamW {
  readonly betas: readonly [number, number];
  readonly epsilon: number;
  readonly weightDecay: number;
  readonly rate: number;
  readonly clip: number;
  /** Steps done, this one included. */
  readonly steps: number;
}

/** As torch.optim.AdamW: decoupled decay first, then p ← p − rate·m̂ / (√v̂ + ε) with bias-corrected moments. */
function adamW(p: Matrix, g: Matrix, m: Matrix, v: Matrix, options: AdamW): void {
  const { betas, epsilon, weightDecay, rate, clip, steps } = options;
  const [beta1, beta2] = betas;
  for (let i = 0; i < p.length; i++) {
    const dp = read(g, i) * clip;
    const mean = beta1 * read(m, i) + (1 - beta1) * dp;
    const square = beta2 * read(v, i) + (1 - beta2) * dp * dp;
    const [mHat, vHat] = [mean / (1 - beta1 ** steps), square / (1 - beta2 ** steps)];
    p[i] = read(p, i) * (1 - rate * weightDecay) - (rate * mHat) / (Math.sqrt(vHat) + epsilon);
    m[i] = mean;
    v[i] = square;
  }
}
