/**
 * The model table, run on the CPU: forward and backward of each operation row over windows of tokens, or one token after
 * the other where text is made. Whose products it has decides its precision: float64 with plain loops.
 *
 * Letters: N rows (sequences × T positions), C the model's width; a linear row has P columns in and Q out, its weight is
 * [P, Q] (inOut) or [Q, P] (outIn). The gradient of x is dx.
 */
import { assertNever, at, got, invariant } from '../base.ts';
import type { Model, Operation } from '../model/model.ts';
import { attend, attendBackward } from './attention.ts';
import {
  addAll,
  addRows,
  addScaled,
  type Matrices,
  type Matrix,
  type Products,
  turned,
  type View,
} from './products.ts';
import * as rows from './rows.ts';

/** T inputs and T targets of a sequence, as T+1 tokens. */
export type Window = ArrayLike<number>;

type OperationOf<Op extends Operation['op']> = Extract<Operation, { op: Op }>;

interface Shape {
  readonly sequences: number;
  /** Positions of each that are run at once. */
  readonly positions: number;
  /** Positions that `next` may come to, whose queries, keys and values are kept; absent: there is no `next`. */
  readonly context?: number;
}

export class Transformer {
  /** Of tensors, by full name, in the last backward. */
  readonly gradients = new Map<string, Matrix>();
  readonly #model: Model;
  readonly #tensors: Matrices;
  readonly #products: Products;
  readonly #shape: Shape;
  /** All rows in order, with the number of their block. */
  readonly #operations: readonly (readonly [block: number, Operation])[];
  /** By block and name: activations, their gradients, and what else rows keep for their backward. */
  readonly #activations = new Map<string, Matrix>();
  readonly #slopes = new Map<string, Matrix>();
  readonly #kept = new Map<string, Matrix>();
  #ids: ArrayLike<number> = [];
  #targets: ArrayLike<number> = [];
  /** Position of each sequence's first row. */
  #first = 0;
  /** What each target's loss counts: 1/(B·T) of the step. */
  #lossScale = 0;

  /** The tensors are read where they are, each time. */
  constructor(model: Model, tensors: Matrices, products: Products, shape: Shape) {
    [this.#model, this.#tensors, this.#products, this.#shape] = [model, tensors, products, shape];
    this.#operations = [
      model.embedding,
      ...Array.from({ length: model.layers }, (_, index) => model.layer(index)),
      model.head,
    ].flatMap((block, index) => block.map((row) => [index, row] as const));
  }

  get #rows(): number {
    return this.#shape.sequences * this.#shape.positions;
  }

  /** The loss of the windows; of the whole step's `divisor` targets, if these are a part of it. */
  forward(windows: readonly Window[], divisor?: number): number {
    const { sequences, positions } = this.#shape;
    invariant(
      windows.length === sequences && windows.every(({ length }) => length === positions + 1),
      `${sequences} windows of ${positions} positions`,
    );
    this.#ids = windows.flatMap((window) => Array.from(window).slice(0, -1));
    this.#targets = windows.flatMap((window) => Array.from(window).slice(1));
    this.#lossScale = 1 / (divisor ?? this.#targets.length);
    let loss = 0;
    for (const [block, operation] of this.#operations) loss += this.#forward(block, operation);
    return loss;
  }

  /** Gradients of the loss of the last forward. */
  backward(): void {
    for (const dx of [...this.gradients.values(), ...this.#slopes.values()]) dx.fill(0);
    for (const [block, operation] of this.#operations.toReversed()) this.#backward(block, operation);
  }

  /** Reads the token behind those that were read; the logits of the one that follows. */
  next(token: number): Matrix {
    this.#ids = [token];
    for (const [block, operation] of this.#operations) {
      if (operation.op !== 'crossEntropy') this.#forward(block, operation);
      else {
        this.#first++;
        return this.#activation(block, operation.logits, operation.vocabulary);
      }
    }
    throw new Error('a head ends with its loss');
  }

  #forward(block: number, operation: Operation): number {
    switch (operation.op) {
      case 'embed':
        this.#embed(operation, this.#activation(block, operation.y));
        return 0;
      case 'layerNorm': {
        const { weight, bias, epsilon } = operation;
        rows.layerNorm(this.#passage(block, operation), this.#tensor(weight), this.#tensor(bias), epsilon);
        return 0;
      }
      case 'rmsNorm':
        rows.rmsNorm(this.#passage(block, operation), this.#tensor(operation.weight), operation.epsilon);
        return 0;
      case 'rotary':
        // In place, as y is x.
        rows.rotate(this.#activation(block, operation.x, qkvWidth(operation)), operation, this.#position, 1);
        return 0;
      case 'swiGlu': {
        const { innerWidth: I } = operation;
        rows.swiGlu(this.#passage(block, operation, 2 * I, I), I);
        return 0;
      }
      case 'linear':
        this.#linear(block, operation);
        return 0;
      case 'attention':
        attend(this.#products, this.#attention(block, operation));
        return 0;
      case 'crossEntropy': {
        const x = this.#activation(block, operation.logits, operation.vocabulary);
        return rows.crossEntropy({ x, dx: this.#roomOf('dlogits', x.length) }, this.#targets, this.#lossScale);
      }
      default:
        return assertNever(operation);
    }
  }

  #backward(block: number, operation: Operation): void {
    switch (operation.op) {
      case 'embed':
        this.#embedBackward(operation, this.#slope(block, operation.y));
        break;
      case 'layerNorm': {
        const { x, weight, bias, epsilon } = operation;
        const gradients = { weight: this.#gradient(weight), bias: this.#gradient(bias) };
        rows.layerNormBackward(this.#activation(block, x), this.#tensor(weight), epsilon, {
          ...this.#slopePassage(block, operation),
          ...gradients,
        });
        break;
      }
      case 'rmsNorm': {
        const { x, weight, epsilon } = operation;
        const gradients = { weight: this.#gradient(weight), ...this.#slopePassage(block, operation) };
        rows.rmsNormBackward(this.#activation(block, x), this.#tensor(weight), epsilon, gradients);
        break;
      }
      case 'rotary':
        rows.rotate(this.#slope(block, operation.x, qkvWidth(operation)), operation, this.#position, -1);
        break;
      case 'swiGlu': {
        const { x, innerWidth: I } = operation;
        rows.swiGluBackward(this.#activation(block, x, 2 * I), this.#slopePassage(block, operation, 2 * I, I), I);
        break;
      }
      case 'linear':
        this.#linearBackward(block, operation);
        break;
      case 'attention':
        attendBackward(this.#products, this.#attention(block, operation), {
          dqkv: this.#slope(block, operation.qkv, qkvWidth(operation)),
          dy: this.#slope(block, operation.y, operation.heads * operation.headWidth),
          dweights: this.#roomOf('dweights', this.#shape.positions ** 2),
        });
        break;
      case 'crossEntropy': {
        const dx = this.#slope(block, operation.logits, operation.vocabulary);
        addAll(dx, this.#roomOf('dlogits', dx.length));
        break;
      }
      default:
        assertNever(operation);
    }
  }

  #embed({ token, position }: OperationOf<'embed'>, y: Matrix): void {
    const C = this.#model.width;
    y.fill(0);
    for (let n = 0; n < this.#ids.length; n++) {
      const y_C = { values: y, from: n * C };
      addScaled(y_C, 1, { values: this.#tensor(token), from: at(this.#ids, n) * C }, C);
      if (position) addScaled(y_C, 1, { values: this.#tensor(position), from: this.#position(n) * C }, C);
    }
  }

  #embedBackward({ token, position, padding }: OperationOf<'embed'>, dy: Matrix): void {
    const C = this.#model.width;
    for (let n = 0; n < this.#ids.length; n++) {
      const dy_C = { values: dy, from: n * C };
      const id = at(this.#ids, n);
      if (id !== padding) addScaled({ values: this.#gradient(token), from: id * C }, 1, dy_C, C);
      if (position) addScaled({ values: this.#gradient(position), from: this.#position(n) * C }, 1, dy_C, C);
    }
  }

  #linear(block: number, operation: OperationOf<'linear'>): void {
    const { inWidth: P, outWidth: Q, bias, residual } = operation;
    const N = this.#rows;
    const x_NP = { values: this.#activation(block, operation.x, P), row: P };
    const y = this.#activation(block, operation.y, Q);
    if (bias) for (let n = 0; n < N; n++) y.set(this.#tensor(bias), n * Q);
    else y.fill(0);
    for (const { weight_PQ, from, width } of this.#weights(operation, this.#tensor))
      this.#products.add([N, width, P], x_NP, weight_PQ, { values: y, from, row: Q });
    if (operation.activation === 'gelu') rows.gelu(y, this.#roomOf(`gelu ${block}`, y.length));
    if (residual) addAll(y, this.#activation(block, residual, Q));
  }

  #linearBackward(block: number, operation: OperationOf<'linear'>): void {
    const { inWidth: P, outWidth: Q, bias, residual } = operation;
    const N = this.#rows;
    const x_NP = { values: this.#activation(block, operation.x, P), row: P };
    const dx_NP = { values: this.#slope(block, operation.x, P), row: P };
    const dy = this.#slope(block, operation.y, Q);
    if (residual) addAll(this.#slope(block, residual, Q), dy);
    if (operation.activation === 'gelu') rows.geluBackward(dy, this.#roomOf(`gelu ${block}`, dy.length));
    if (bias) addRows(this.#gradient(bias), dy);
    const weights = this.#weights(operation, this.#tensor);
    for (const [index, { weight_PQ: dweight_PQ, from, width }] of this.#weights(operation, this.#gradient).entries()) {
      const dy_NQ = { values: dy, from, row: Q };
      this.#products.add([N, P, width], dy_NQ, turned(at(weights, index).weight_PQ), dx_NP);
      if (operation.weightLayout === 'inOut') this.#products.add([P, width, N], turned(x_NP), dy_NQ, dweight_PQ);
      else this.#products.add([width, P, N], turned(dy_NQ), x_NP, turned(dweight_PQ));
    }
  }

  /** Weights of a linear row, or their gradients, as [P, Q], and which columns of y are theirs. */
  #weights({ weights, weightLayout, inWidth: P }: OperationOf<'linear'>, of: (name: string) => Matrix) {
    let from = 0;
    return weights.map((name) => {
      const values = of(name);
      const width = values.length / P;
      from += width;
      const weight_PQ: View = weightLayout === 'inOut' ? { values, row: width } : turned({ values, row: P });
      return { weight_PQ, from: from - width, width };
    });
  }

  #attention(block: number, operation: OperationOf<'attention'>) {
    const { sequences, positions: asked, context } = this.#shape;
    const width = qkvWidth(operation);
    const qkv = this.#activation(block, operation.qkv, width);
    const length = this.#first + asked;
    const kept = context === undefined ? qkv : this.#roomOf(`qkv ${block}`, context * width);
    if (kept !== qkv) kept.set(qkv, this.#first * width);
    const most = context ?? asked;
    return {
      ...operation,
      ...{ sequences, rows: length, asked, qkv: kept },
      y: this.#activation(block, operation.y, operation.heads * operation.headWidth),
      weights: this.#roomOf(`weights ${block}`, sequences * operation.heads * asked * most),
    };
  }

  readonly #position = (row: number): number => this.#first + (row % this.#shape.positions);

  readonly #tensor = (name: string): Matrix => got(this.#tensors, name);

  readonly #gradient = (name: string): Matrix => this.#found(this.gradients, name, () => this.#tensor(name).length);

  /** An activation of a block; its `x` is what the block before it ends with. */
  #activation(block: number, name: string, width = this.#model.width): Matrix {
    return this.#found(this.#activations, this.#key(block, name), () => this.#rows * width);
  }

  /** The gradient of an activation. */
  #slope(block: number, name: string, width = this.#model.width): Matrix {
    return this.#found(this.#slopes, this.#key(block, name), () => this.#rows * width);
  }

  #passage(block: number, { x, y }: { readonly x: string; readonly y: string }, xWidth?: number, yWidth?: number) {
    return { x: this.#activation(block, x, xWidth), y: this.#activation(block, y, yWidth) };
  }

  #slopePassage(block: number, { x, y }: { readonly x: string; readonly y: string }, xWidth?: number, yWidth?: number) {
    return { x: this.#slope(block, x, xWidth), y: this.#slope(block, y, yWidth) };
  }

  /** Room of a name, which may be another row's once what is in it was read. */
  #roomOf(name: string, length: number): Matrix {
    return this.#found(this.#kept, `${name} ${length}`, () => length);
  }

  #found(matrices: Map<string, Matrix>, key: string, length: () => number): Matrix {
    const found = matrices.get(key) ?? this.#products.zeros(length());
    matrices.set(key, found);
    return found;
  }

  #key(block: number, name: string): string {
    if (name !== 'x') return `${block} ${name}`;
    const { embedding, layer } = this.#model;
    const last = (block === 1 ? embedding : layer(block - 2)).at(-1);
    invariant(last && 'y' in last, 'a block ends with a row that writes y');
    return `${block - 1} ${last.y}`;
  }
}

const qkvWidth = ({
  heads,
  keyValueHeads,
  headWidth,
}: Pick<OperationOf<'attention'>, 'heads' | 'keyValueHeads' | 'headWidth'>) => (heads + 2 * keyValueHeads) * headWidth;
