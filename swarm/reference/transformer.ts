/**
 * The model table, run on the CPU: forward and backward of each operation row over windows of tokens, or one token after
 * the other where text is made. Whose products it has decides its precision: float64 with plain loops.
 *
 * Letters: N rows (sequences × T positions), C the model's width; a linear row has P columns in and Q out, its weight is
 * [P, Q] (inOut) or [Q, P] (outIn). The gradient of x is dx.
 */
import { assertNever, at, got, invariant, type Range } from '../base.ts';
import type { AdapterPart, LinearAdapter, Model, Operation } from '../model/model.ts';
import { NO_TARGET, type WindowRows } from '../run/data.ts';
import { attentionOf } from './attention.ts';
import {
  addAll,
  addRows,
  addScaled,
  type Matrices,
  type Matrix,
  type Products,
  scaleAll,
  turned,
  type View,
} from './products.ts';
import * as rows from './rows.ts';

/** T inputs and T targets of a sequence: as T+1 tokens of text, or as rows of examples. */
export type Window = ArrayLike<number> | WindowRows;

/** The rows of a window. */
function rowsOf(window: Window): WindowRows {
  if ('ids' in window) return window;
  const tokens = Uint32Array.from(window);
  return { ids: tokens.subarray(0, -1), targets: tokens.subarray(1), firstRows: null };
}

export const positionsOf = (window: Window): number => ('ids' in window ? window.ids.length : window.length - 1);

type OperationOf<Op extends Operation['op']> = Extract<Operation, { op: Op }>;

interface Shape {
  readonly sequences: number;
  /** Positions of each that are run at once. */
  readonly positions: number;
  /** Positions that `next` may come to, whose queries, keys and values are kept; absent: there is no `next`. */
  readonly context?: number;
  /** Of a stage alone, which has the embedding where they begin with the first, the head where they end with the last; absent: all. */
  readonly layers?: Range;
}

/** An operation whose matrices are found: a step of a small model would otherwise look names up as long as it computes. */
interface Row {
  forward(): void;
  /** Finds where gradients go, which only a backward has room made for; answers with the backward. */
  backward(): () => void;
}

export class Transformer {
  /** Of tensors, by full name, in the last backward. */
  readonly gradients = new Map<string, Matrix>();
  readonly #model: Model;
  readonly #tensors: Matrices;
  readonly #products: Products;
  readonly #shape: Shape;
  readonly #rows: readonly Row[];
  /** Embedding, layers and head, numbered. */
  readonly #blocks: Range;
  #backwards: readonly (() => void)[] | null = null;
  /** Of tensors that stand, from rows that make all of their gradients at once: nobody reads these. */
  readonly #unread = new Map<string, Matrix>();
  readonly #trained: ReadonlySet<string>;
  /** By block and name. */
  readonly #activations = new Map<string, Matrix>();
  readonly #slopes = new Map<string, Matrix>();
  #ids: ArrayLike<number> = [];
  /** The row of its window at which each row's example begins; of text that is made, none. */
  #firstRows: readonly number[] = [];
  #targets: readonly number[] = [];
  /** Position of each sequence's first row. */
  #first = 0;
  /** What each target's loss counts, or each pair's: 1/(those of the step). */
  #lossScale = 0;
  #loss = 0;
  #logits: Matrix = new Float64Array();

  /** The tensors are read where they are, each time. */
  constructor(model: Model, tensors: Matrices, products: Products, shape: Shape) {
    [this.#model, this.#tensors, this.#products, this.#shape] = [model, tensors, products, shape];
    this.#trained = new Set(model.blocks.flatMap((own) => own.tensors.map(({ name }) => name)));
    const [first, end] = shape.layers ?? [0, model.layers];
    this.#blocks = [first === 0 ? 0 : first + 1, end === model.layers ? end + 2 : end + 1];
    this.#rows = [
      model.embedding,
      ...Array.from({ length: model.layers }, (_, index) => model.layer(index)),
      model.head,
    ].flatMap((operations, block) =>
      this.#blocks[0] <= block && block < this.#blocks[1]
        ? operations.map((operation) => this.#row(block, operation))
        : [],
    );
  }

  /** Of a later stage: what the stage before it made, which is read here at each forward. */
  get input(): Matrix {
    return this.#activation(this.#blocks[0], 'x');
  }

  /** Of an earlier stage: what it makes for the one after it. */
  get output(): Matrix {
    return this.#activation(this.#blocks[1], 'x');
  }

  /** Of a later stage, by the last backward. */
  get inputGradient(): Matrix {
    return this.#slope(this.#blocks[0], 'x');
  }

  /** The loss of the windows; of the whole step's `divisor` targets that count (or pairs), if these are a part of it. */
  forward(windows: readonly Window[], divisor?: number): number {
    const { sequences, positions } = this.#shape;
    invariant(
      windows.length === sequences && windows.every((window) => positionsOf(window) === positions),
      `${sequences} windows of ${positions} positions`,
    );
    const all = windows.map(rowsOf);
    this.#ids = all.flatMap(({ ids }) => [...ids]);
    this.#firstRows = all.flatMap(({ ids, firstRows }) => [...(firstRows ?? new Uint32Array(ids.length))]);
    this.#targets = all.flatMap(({ targets }) => [...targets]);
    const own = (): number => this.#targets.filter((target) => target !== NO_TARGET).length;
    this.#lossScale = 1 / (divisor ?? (this.#model.beta === undefined ? own() : sequences));
    for (const row of this.#rows) row.forward();
    return this.#loss;
  }

  /** Gradients of the loss of the last forward; of an earlier stage, from its output's. */
  backward(outputGradient?: ArrayLike<number>): void {
    this.#backwards ??= this.#rows.map((row) => row.backward()).toReversed();
    for (const dx of [...this.gradients.values(), ...this.#slopes.values()]) dx.fill(0);
    if (outputGradient) this.#slope(this.#blocks[1], 'x').set(outputGradient);
    for (const backward of this.#backwards) backward();
  }

  /** Reads the token behind those that were read; the logits of the one that follows. */
  next(token: number): Matrix {
    this.#ids = [token];
    // A head ends with its loss.
    for (const row of this.#rows.slice(0, -1)) row.forward();
    this.#first++;
    return this.#logits;
  }

  #row(block: number, operation: Operation): Row {
    switch (operation.op) {
      case 'embed':
        return this.#embed(operation, this.#activation(block, operation.y), () => this.#slope(block, operation.y));
      case 'layerNorm': {
        const { epsilon } = operation;
        const passage = this.#passage(block, operation);
        const [weight, bias] = [this.#tensor(operation.weight), this.#tensor(operation.bias)];
        return {
          forward: () => rows.layerNorm(passage, weight, bias, epsilon),
          backward: () => {
            const own = { weight: this.#gradient(operation.weight), bias: this.#gradient(operation.bias) };
            const slopes = { ...this.#slopePassage(block, operation), ...own };
            return () => rows.layerNormBackward(passage.x, weight, epsilon, slopes);
          },
        };
      }
      case 'rmsNorm': {
        const passage = this.#passage(block, operation);
        const weight = this.#tensor(operation.weight);
        const residual = operation.residual === null ? null : this.#activation(block, operation.residual);
        return {
          forward: () => {
            rows.rmsNorm(passage, weight, operation);
            if (residual) addAll(passage.y, residual);
          },
          backward: () => {
            const slopes = { ...this.#slopePassage(block, operation), weight: this.#gradient(operation.weight) };
            const dresidual = operation.residual === null ? null : this.#slope(block, operation.residual);
            return () => {
              if (dresidual) addAll(dresidual, slopes.y);
              rows.rmsNormBackward(passage.x, weight, operation, slopes);
            };
          },
        };
      }
      case 'headNorm': {
        const width = qkvWidth(operation);
        const passage = this.#passage(block, operation, width, width);
        const weights = operation.weights.map(this.#tensor);
        return {
          forward: () => rows.headNorm(passage, weights, operation),
          backward: () => {
            const slopes = this.#slopePassage(block, operation, width, width);
            const own = { ...slopes, weights: operation.weights.map(this.#gradient) };
            return () => rows.headNormBackward(passage.x, weights, operation, own);
          },
        };
      }
      case 'rotary': {
        // In place, as y is x.
        const x = this.#activation(block, operation.x, qkvWidth(operation));
        return {
          forward: () => rows.rotate(x, operation, this.#position, 1),
          backward: () => {
            const dx = this.#slope(block, operation.x, qkvWidth(operation));
            return () => rows.rotate(dx, operation, this.#position, -1);
          },
        };
      }
      case 'gated': {
        const { innerWidth: I, activation } = operation;
        const passage = this.#passage(block, operation, 2 * I, I);
        return {
          forward: () => rows.gated(passage, I, activation),
          backward: () => {
            const slopes = this.#slopePassage(block, operation, 2 * I, I);
            return () => rows.gatedBackward(passage.x, slopes, I, activation);
          },
        };
      }
      case 'linear':
        return this.#linear(block, operation);
      case 'attention':
        return this.#attention(block, operation);
      case 'crossEntropy':
        return this.#crossEntropy(block, operation);
      default:
        return assertNever(operation);
    }
  }

  #embed({ token, position, padding, scale }: OperationOf<'embed'>, y: Matrix, slope: () => Matrix): Row {
    const C = this.#model.width;
    const values = this.#tensor(token);
    const positions = position === null ? null : this.#tensor(position);
    return {
      forward: () => {
        y.fill(0);
        for (let n = 0; n < this.#ids.length; n++) {
          const y_C = { values: y, from: n * C };
          addScaled(y_C, scale, { values, from: at(this.#ids, n) * C }, C);
          if (positions) addScaled(y_C, 1, { values: positions, from: this.#position(n) * C }, C);
        }
      },
      backward: () => {
        const [dy, dvalues] = [slope(), this.#gradient(token)];
        const dpositions = position === null ? null : this.#gradient(position);
        return () => {
          for (let n = 0; n < this.#ids.length; n++) {
            const dy_C = { values: dy, from: n * C };
            const id = at(this.#ids, n);
            if (id !== padding) addScaled({ values: dvalues, from: id * C }, scale, dy_C, C);
            if (dpositions) addScaled({ values: dpositions, from: this.#position(n) * C }, 1, dy_C, C);
          }
        };
      },
    };
  }

  #linear(block: number, operation: OperationOf<'linear'>): Row {
    const { inWidth: P, outWidth: Q, weightLayout } = operation;
    const N = this.#rowCount;
    const products = this.#products;
    const x_NP: View = { values: this.#activation(block, operation.x, P), row: P };
    const y = this.#activation(block, operation.y, Q);
    const biases = this.#biases(operation, this.#tensor);
    const residual = operation.residual === null ? null : this.#activation(block, operation.residual, Q);
    const geluSlope = operation.activation === 'gelu' ? products.zeros(y.length) : null;
    const weights = this.#weights(operation, this.#tensor, y);
    const low = operation.adapter ? this.#lowRank(block, operation, operation.adapter) : null;
    return {
      forward: () => {
        y.fill(0);
        for (const { bias, from } of biases) for (let n = 0; n < N; n++) y.set(bias, n * Q + from);
        for (const { weight_PQ, y_NQ, width } of weights) products.add([N, width, P], x_NP, weight_PQ, y_NQ);
        low?.forward();
        if (geluSlope) rows.gelu(y, geluSlope);
        if (residual) addAll(y, residual);
      },
      backward: () => {
        const dx_NP: View = { values: this.#slope(block, operation.x, P), row: P };
        const dy = this.#slope(block, operation.y, Q);
        const stands = !this.#trained.has(operation.weights[0]);
        const dbiases = stands ? [] : this.#biases(operation, this.#gradient);
        const dresidual = operation.residual === null ? null : this.#slope(block, operation.residual, Q);
        const dweights = stands ? [] : this.#weights(operation, this.#gradient, dy);
        const lowBackward = low?.backward();
        return () => {
          if (dresidual) addAll(dresidual, dy);
          if (geluSlope) rows.geluBackward(dy, geluSlope);
          for (const { bias, from } of dbiases) addRows(bias, dy, from, Q);
          for (const { weight_PQ, y_NQ, width } of weights)
            products.add([N, P, width], { ...y_NQ, values: dy }, turned(weight_PQ), dx_NP);
          lowBackward?.();
          for (const { weight_PQ: dweight_PQ, y_NQ: dy_NQ, width } of dweights) {
            if (weightLayout === 'inOut') products.add([P, width, N], turned(x_NP), dy_NQ, dweight_PQ);
            else products.add([width, P, N], turned(dy_NQ), x_NP, turned(dweight_PQ));
          }
        };
      },
    };
  }

  /** What adapters add to a linear row before its activation: with h = scale·x·Aᵀ, h·Bᵀ in the part's columns of y. */
  #lowRank(block: number, operation: OperationOf<'linear'>, { parts, ...shared }: LinearAdapter): Row {
    const all = parts.map((part, index) => this.#lowRankPart(block, operation, { ...shared, ...part }, index));
    return {
      forward: () => {
        for (const row of all) row.forward();
      },
      backward: () => {
        const backwards = all.map((row) => row.backward());
        return () => {
          for (const backward of backwards) backward();
        };
      },
    };
  }

  #lowRankPart(
    block: number,
    { x, y, inWidth: P, outWidth: Q }: OperationOf<'linear'>,
    { scale, rank: R, a, b, from, width }: Omit<LinearAdapter, 'parts'> & AdapterPart,
    index: number,
  ): Row {
    const [N, T, products] = [this.#rowCount, this.#shape.positions, this.#products];
    // Text is made by the adapter alone.
    const isOfPairs = this.#model.beta !== undefined && this.#shape.context === undefined;
    const x_NP: View = { values: this.#activation(block, x, P), row: P };
    const y_NQ: View = { values: this.#activation(block, y, Q), from, row: Q };
    const a_RP: View = { values: this.#tensor(at(a, index)), row: P };
    const b_QR: View = { values: this.#tensor(b), row: R };
    const [h_NR, dh_NR]: [View, View] = [
      { values: products.zeros(N * R), row: R },
      { values: products.zeros(N * R), row: R },
    ];
    return {
      forward: () => {
        h_NR.values.fill(0);
        products.add([N, R, P], x_NP, turned(a_RP), h_NR);
        scaleAll(h_NR.values, scale);
        if (isOfPairs) for (let n = 0; n < N; n++) if (n % T >= T / 2) h_NR.values.fill(0, n * R, (n + 1) * R);
        products.add([N, width, R], h_NR, turned(b_QR), y_NQ);
      },
      backward: () => {
        const dy_NQ: View = { values: this.#slope(block, y, Q), from, row: Q };
        const dx_NP: View = { values: this.#slope(block, x, P), row: P };
        const [da_RP, db_QR]: [View, View] = [
          { values: this.#gradient(at(a, index)), row: P },
          { values: this.#gradient(b), row: R },
        ];
        return () => {
          dh_NR.values.fill(0);
          products.add([N, R, width], dy_NQ, b_QR, dh_NR);
          scaleAll(dh_NR.values, scale);
          products.add([width, R, N], turned(dy_NQ), h_NR, db_QR);
          products.add([R, P, N], turned(dh_NR), x_NP, da_RP);
          products.add([N, P, R], dh_NR, a_RP, dx_NP);
        };
      },
    };
  }

  /** Weights of a linear row, or their gradients, as [P, Q], and the columns of y that are theirs. */
  #weights(
    { weights, weightLayout, inWidth: P, outWidth: Q }: OperationOf<'linear'>,
    of: (name: string) => Matrix,
    y: Matrix,
  ) {
    let from = 0;
    return weights.map((name) => {
      const values = of(name);
      const width = values.length / P;
      const y_NQ: View = { values: y, from, row: Q };
      from += width;
      const weight_PQ: View = weightLayout === 'inOut' ? { values, row: width } : turned({ values, row: P });
      return { weight_PQ, y_NQ, width };
    });
  }

  /** Biases of a linear row, or their gradients, and the column of y that each begins at. */
  #biases({ biases }: OperationOf<'linear'>, of: (name: string) => Matrix) {
    let from = 0;
    return biases.map((name) => {
      const bias = of(name);
      from += bias.length;
      return { bias, from: from - bias.length };
    });
  }

  #attention(block: number, operation: OperationOf<'attention'>): Row {
    const { sequences, positions: asked, context } = this.#shape;
    const width = qkvWidth(operation);
    const qkv = this.#activation(block, operation.qkv, width);
    const outWidth = operation.heads * operation.headWidth;
    const y = this.#activation(block, operation.y, outWidth);
    const weights = this.#products.zeros(sequences * operation.heads * asked * (context ?? asked));
    const { window } = operation;
    const firstKey = (sequence: number, row: number): number =>
      Math.max(this.#firstRows[sequence * asked + row] ?? 0, window === null ? 0 : row - window + 1);
    const over = (rowCount: number, values: Matrix) => {
      const seen = { sequences, rows: rowCount, asked, firstKey };
      return attentionOf(this.#products, { ...operation, ...seen, qkv: values, y, weights });
    };
    if (context !== undefined) {
      const kept = this.#products.zeros(context * width);
      return {
        forward: () => {
          kept.set(qkv, this.#first * width);
          over(this.#first + asked, kept).forward();
        },
        backward: () => {
          throw new Error('text is made, not trained on');
        },
      };
    }
    const { forward, backward } = over(asked, qkv);
    return {
      forward,
      backward: () =>
        backward({
          dqkv: this.#slope(block, operation.qkv, width),
          dy: this.#slope(block, operation.y, outWidth),
          dweights: this.#products.zeros(asked ** 2),
        }),
    };
  }

  #crossEntropy(block: number, { logits, vocabulary }: OperationOf<'crossEntropy'>): Row {
    const x = this.#activation(block, logits, vocabulary);
    const [dlogits, losses] = [this.#products.zeros(x.length), new Float64Array(this.#rowCount)];
    const passage = { x, dx: dlogits };
    const { beta } = this.#model;
    this.#logits = x;
    return {
      forward: () => {
        rows.crossEntropy(passage, this.#targets, this.#lossScale, losses);
        if (beta !== undefined)
          rows.preferencePairs({ losses, dx: dlogits }, this.#firstRows, this.#shape.positions, beta);
        this.#loss = 0;
        for (const loss of losses) this.#loss += this.#lossScale * loss;
      },
      backward: () => {
        const dx = this.#slope(block, logits, vocabulary);
        return () => addAll(dx, dlogits);
      },
    };
  }

  readonly #position = (row: number): number =>
    this.#first + (row % this.#shape.positions) - (this.#firstRows[row] ?? 0);

  readonly #tensor = (name: string): Matrix => got(this.#tensors, name);

  readonly #gradient = (name: string): Matrix =>
    this.#found(this.#trained.has(name) ? this.gradients : this.#unread, name, this.#tensor(name).length);

  get #rowCount(): number {
    return this.#shape.sequences * this.#shape.positions;
  }

  /** An activation of a block; its `x` is what the block before it ends with. */
  #activation(block: number, name: string, width = this.#model.width): Matrix {
    return this.#found(this.#activations, this.#key(block, name), this.#rowCount * width);
  }

  /** The gradient of an activation. */
  #slope(block: number, name: string, width = this.#model.width): Matrix {
    return this.#found(this.#slopes, this.#key(block, name), this.#rowCount * width);
  }

  #passage(block: number, { x, y }: { readonly x: string; readonly y: string }, xWidth?: number, yWidth?: number) {
    return { x: this.#activation(block, x, xWidth), y: this.#activation(block, y, yWidth) };
  }

  #slopePassage(block: number, { x, y }: { readonly x: string; readonly y: string }, xWidth?: number, yWidth?: number) {
    return { x: this.#slope(block, x, xWidth), y: this.#slope(block, y, yWidth) };
  }

  #found(matrices: Map<string, Matrix>, key: string, length: number): Matrix {
    const found = matrices.get(key) ?? this.#products.zeros(length);
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
