/**
 * A training step on the CPU in float32: forward, backward, clip and AdamW of a GPT-2 model table, its products by
 * WebAssembly. The same digits on every machine. One trainer serves many islands: their values and moments are given to it
 * with each step. The formulas are swarm/reference's, against which it is tested.
 *
 * Letters: N rows (samples × T positions), C width, V vocabulary, H heads, D their width; a linear row has P columns in and
 * Q out. The gradient of x is dx, and every backward adds to what stands there.
 */
import { at, got, invariant, type Range } from '../../../swarm/base.ts';
import { type Model, type Operation, parameters } from '../../../swarm/model/model.ts';
import { learningRate } from '../../../swarm/run/learningRate.ts';
import type { Train } from '../../../swarm/run/runFile.ts';
import { attend, attendBackward } from './cpuAttention.ts';
import {
  addAll,
  addRows,
  crossEntropy,
  gelu,
  geluBackward,
  layerNorm,
  layerNormBackward,
  transposed,
} from './cpuRows.ts';
import { Products } from './products.ts';
import { adamW, normOf, type TrainedState, tensorRanges } from './trainedState.ts';

/** T inputs and T targets of each sample, as T+1 tokens. */
export type Window = ArrayLike<number>;

/** An activation and its gradient. */
interface Activation {
  readonly y: Float32Array;
  readonly dy: Float32Array;
}

type OperationOf<Op extends Operation['op']> = Extract<Operation, { op: Op }>;
type Linear = OperationOf<'linear'>;

const PRODUCTS_MEGABYTES = 256;

export class CpuTrainer {
  readonly #model: Model;
  readonly #train: Pick<Train, 'optimizer' | 'gradientClipNorm' | 'schedule'>;
  readonly #positions: number;
  readonly #rows: number;
  readonly #products = new Products(PRODUCTS_MEGABYTES);
  readonly #values: Float32Array;
  readonly #gradients: Float32Array;
  readonly #ranges: ReadonlyMap<string, Range>;
  readonly #decayed: readonly (readonly [Range, boolean])[];
  readonly #tensors: ReadonlyMap<string, Float32Array>;
  readonly #tensorGradients: ReadonlyMap<string, Float32Array>;
  /** All rows in order, with the number of their block. */
  readonly #operations: readonly (readonly [number, Operation])[];
  readonly #activations = new Map<string, Activation>();
  readonly #scratch = new Map<string, Float32Array>();
  #ids = new Int32Array();
  #targets = new Int32Array();

  constructor(
    model: Model,
    train: Pick<Train, 'optimizer' | 'gradientClipNorm' | 'schedule'>,
    samples: number,
    positions: number,
  ) {
    this.#model = model;
    this.#train = train;
    this.#positions = positions;
    this.#rows = samples * positions;
    this.#values = this.#products.floats(parameters(model));
    this.#gradients = this.#products.floats(parameters(model));
    this.#ranges = tensorRanges(model);
    const partsOf = (values: Float32Array) =>
      new Map([...this.#ranges].map(([name, range]) => [name, values.subarray(...range)]));
    [this.#tensors, this.#tensorGradients] = [partsOf(this.#values), partsOf(this.#gradients)];
    this.#operations = [
      model.embedding,
      ...Array.from({ length: model.layers }, (_, index) => model.layer(index)),
      model.head,
    ].flatMap((rows, place) => rows.map((row) => [place, row] as const));
    const shapes = new Map(
      model.blocks.flatMap(({ tensors }) => tensors.map(({ name, shape }) => [name, shape.length])),
    );
    this.#decayed = [...this.#ranges].map(([name, range]) => [range, got(shapes, name) > 1]);
  }

  /** One whole step of `state`, in place, at the rate of step `number`. The loss is from before the update. */
  step(state: TrainedState, windows: readonly Window[], number: number): { loss: number; gradientNorm: number } {
    const loss = this.#forward(state.values, windows);
    this.#gradients.fill(0);
    for (const { dy } of this.#activations.values()) dy.fill(0);
    this.#backward();
    const gradientNorm = normOf(this.#gradients);
    this.#update(state, gradientNorm, number);
    return { loss, gradientNorm };
  }

  /** Of the values: what a meeting takes one by one. */
  get tensors(): readonly Range[] {
    return [...this.#ranges.values()];
  }

  /** Mean loss of as many windows as a step has. */
  loss(values: Float32Array, windows: readonly Window[]): number {
    return this.#forward(values, windows);
  }

  #forward(values: Float32Array, windows: readonly Window[]): number {
    invariant(windows.length * this.#positions === this.#rows, 'as many windows as the trainer was made for');
    this.#values.set(values);
    this.#ids = Int32Array.from(windows.flatMap((window) => Array.from(window).slice(0, -1)));
    this.#targets = Int32Array.from(windows.flatMap((window) => Array.from(window).slice(1)));
    let loss = 0;
    for (const [place, operation] of this.#operations) loss += this.#runForward(place, operation);
    return loss;
  }

  #backward(): void {
    for (const [place, operation] of this.#operations.toReversed()) this.#runBackward(place, operation);
  }

  /** An activation of a block; its `x` is what the block before it ends with. */
  #activation(place: number, name: string, width = this.#model.width): Activation {
    if (name === 'x') return this.#activation(place - 1, this.#outputOf(place - 1));
    const key = `${place} ${name}`;
    const found = this.#activations.get(key);
    if (found) return found;
    const elements = this.#rows * width;
    const made = { y: this.#products.floats(elements), dy: this.#products.floats(elements) };
    this.#activations.set(key, made);
    return made;
  }

  #outputOf(place: number): string {
    const { embedding, layer } = this.#model;
    const last = (place === 0 ? embedding : layer(place - 1)).at(-1);
    invariant(last && 'y' in last, 'a block ends with a row that writes y');
    return last.y;
  }

  #scratchOf(name: string, length: number): Float32Array {
    const found = this.#scratch.get(name);
    if (found && found.length >= length) return found.subarray(0, length);
    const made = this.#products.floats(length);
    this.#scratch.set(name, made);
    return made;
  }

  readonly #tensor = (name: string): Float32Array => got(this.#tensors, name);
  readonly #gradient = (name: string): Float32Array => got(this.#tensorGradients, name);

  #runForward(place: number, operation: Operation): number {
    switch (operation.op) {
      case 'embed':
        this.#embed(operation, this.#activation(place, operation.y).y);
        return 0;
      case 'layerNorm':
        layerNorm(
          this.#activation(place, operation.x).y,
          [this.#tensor(operation.weight), this.#tensor(operation.bias)],
          operation.epsilon,
          this.#activation(place, operation.y).y,
        );
        return 0;
      case 'linear':
        this.#linear(place, operation);
        return 0;
      case 'attention':
        attend(this.#attention(place, operation));
        return 0;
      case 'crossEntropy': {
        const { y, dy } = this.#activation(place, operation.logits, operation.vocabulary);
        const probabilities = this.#scratchOf('probabilities', dy.length);
        return crossEntropy(y, this.#targets, operation.vocabulary, probabilities);
      }
      default:
        throw new Error(`the trainer of this benchmark has no ${operation.op}`);
    }
  }

  #runBackward(place: number, operation: Operation): void {
    switch (operation.op) {
      case 'embed':
        this.#embedBackward(operation, this.#activation(place, operation.y).dy);
        break;
      case 'layerNorm':
        this.#layerNormBackward(place, operation);
        break;
      case 'linear':
        this.#linearBackward(place, operation);
        break;
      case 'attention':
        attendBackward(this.#attention(place, operation));
        break;
      case 'crossEntropy': {
        const { dy } = this.#activation(place, operation.logits, operation.vocabulary);
        dy.set(this.#scratchOf('probabilities', dy.length));
        break;
      }
      default:
        throw new Error(`the trainer of this benchmark has no ${operation.op}`);
    }
  }

  #layerNormBackward(place: number, { x, weight, bias, epsilon, y }: OperationOf<'layerNorm'>): void {
    const input = this.#activation(place, x);
    layerNormBackward(input.y, this.#tensor(weight), epsilon, {
      dy: this.#activation(place, y).dy,
      dx: input.dy,
      gradients: [this.#gradient(weight), this.#gradient(bias)],
    });
  }

  #attention(place: number, { qkv, y, heads, keyValueHeads, headWidth }: OperationOf<'attention'>) {
    invariant(keyValueHeads === heads, 'each head has keys of its own');
    const weights = this.#rows * heads * this.#positions;
    return {
      products: this.#products,
      positions: this.#positions,
      samples: this.#rows / this.#positions,
      ...{ heads, headWidth },
      qkv: this.#activation(place, qkv, 3 * heads * headWidth),
      output: this.#activation(place, y),
      weights: this.#scratchOf(`weights ${place}`, weights),
      square: this.#scratchOf('square', this.#positions ** 2),
      turned: this.#scratchOf('turned', headWidth * this.#positions),
    };
  }

  #embed({ token, position }: OperationOf<'embed'>, y_NC: Float32Array): void {
    invariant(position !== null, 'positions are learned');
    const [{ width: C }, token_VC, position_TC] = [this.#model, this.#tensor(token), this.#tensor(position)];
    for (const [n, id] of this.#ids.entries()) {
      const place = (n % this.#positions) * C;
      for (let c = 0; c < C; c++) y_NC[n * C + c] = (token_VC[id * C + c] ?? 0) + (position_TC[place + c] ?? 0);
    }
  }

  #embedBackward({ token, position }: OperationOf<'embed'>, dy_NC: Float32Array): void {
    invariant(position !== null, 'positions are learned');
    const [{ width: C }, dtoken_VC, dposition_TC] = [this.#model, this.#gradient(token), this.#gradient(position)];
    for (const [n, id] of this.#ids.entries()) {
      const place = (n % this.#positions) * C;
      for (let c = 0; c < C; c++) {
        const dy = dy_NC[n * C + c] ?? 0;
        dtoken_VC[id * C + c] = (dtoken_VC[id * C + c] ?? 0) + dy;
        dposition_TC[place + c] = (dposition_TC[place + c] ?? 0) + dy;
      }
    }
  }

  #linear(place: number, operation: Linear): void {
    const { inWidth: P, outWidth: Q, bias, residual } = operation;
    const N = this.#rows;
    const x_NP = this.#activation(place, operation.x, P).y;
    const y_NQ = this.#activation(place, operation.y, Q).y;
    if (bias) for (let n = 0; n < N; n++) y_NQ.set(this.#tensor(bias), n * Q);
    else y_NQ.fill(0);
    this.#products.add(
      [N, Q, P],
      { values: x_NP, row: P },
      { values: this.#weight(operation, 'inOut'), row: Q },
      { values: y_NQ, row: Q },
    );
    if (operation.activation === 'gelu') gelu(y_NQ, this.#scratchOf(`slope ${place}`, N * Q));
    if (residual) addAll(y_NQ, this.#activation(place, residual).y);
  }

  #linearBackward(place: number, operation: Linear): void {
    const { inWidth: P, outWidth: Q, bias, residual } = operation;
    const N = this.#rows;
    const { y: x_NP, dy: dx_NP } = this.#activation(place, operation.x, P);
    const { dy: dy_NQ } = this.#activation(place, operation.y, Q);
    if (residual) addAll(this.#activation(place, residual).dy, dy_NQ);
    if (operation.activation === 'gelu') geluBackward(dy_NQ, this.#scratchOf(`slope ${place}`, N * Q));
    if (bias) addRows(this.#gradient(bias), dy_NQ);
    const [x, dy] = [
      { values: x_NP, row: P },
      { values: dy_NQ, row: Q },
    ];
    this.#products.add([N, P, Q], dy, { values: this.#weight(operation, 'outIn'), row: P }, { values: dx_NP, row: P });
    const dweight = this.#gradient(at(operation.weights, 0));
    if (operation.weightLayout === 'inOut')
      this.#products.add([P, Q, N], { values: x_NP, row: 1, column: P }, dy, { values: dweight, row: Q });
    else this.#products.add([Q, P, N], { values: dy_NQ, row: 1, column: Q }, x, { values: dweight, row: P });
  }

  /** In this layout, turned where it is stored in the other. */
  #weight({ weights, weightLayout, inWidth: P, outWidth: Q }: Linear, layout: Linear['weightLayout']): Float32Array {
    invariant(weights.length === 1, 'a linear row has one weight');
    const weight = this.#tensor(at(weights, 0));
    if (layout === weightLayout) return weight;
    const [rows, columns] = weightLayout === 'inOut' ? [P, Q] : [Q, P];
    return transposed(weight, rows, columns, this.#scratchOf('weight', P * Q));
  }

  #update(state: TrainedState, norm: number, number: number): void {
    const { optimizer, gradientClipNorm } = this.#train;
    const [beta1, beta2] = optimizer.betas;
    const clip = gradientClipNorm === null ? 1 : Math.min(1, gradientClipNorm / (norm + 1e-6));
    const rate = learningRate(this.#train, number);
    state.time++;
    for (const [range, isDecayed] of this.#decayed)
      adamW(state, this.#gradients, range, {
        ...{ beta1, beta2, clip, epsilon: optimizer.epsilon },
        rate: rate / (1 - beta1 ** state.time),
        squareScale: 1 / (1 - beta2 ** state.time),
        kept: isDecayed ? 1 - rate * optimizer.weightDecay : 1,
      });
  }
}
