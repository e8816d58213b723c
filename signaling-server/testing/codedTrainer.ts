/**
 * A run whose state goes as int8, in float64 on the CPU: written again from WI4 and WI30 to WI34, with nothing of the code that
 * trains. Of the code that plans it has who holds, keeps and gathers what, and where pieces are cut. Each holder has what the
 * codes of its sums missed; all compute with h, what holders have of p, but for what a stage gathers, which is p itself.
 */
import { arrayOf, at, got, type PeerId, totalOf } from '../../swarm/base.ts';
import { slices } from '../../swarm/model/layout.ts';
import { type BlockName, blocksOfStage, layerBlock, type Model, type Operation } from '../../swarm/model/model.ts';
import { codedParts, codesSums, codesValues } from '../../swarm/plan/codedState.ts';
import { holders, homeStage, type Plan, type PlanStage, type Shard } from '../../swarm/plan/plan.ts';
import type { Matrices, Matrix } from '../../swarm/reference/products.ts';
import { lossAndGradients, type ReferenceTrainer } from '../../swarm/reference/trainer.ts';
import { positionsOf, type Window } from '../../swarm/reference/transformer.ts';
import { learningRate } from '../../swarm/run/learningRate.ts';
import type { Train } from '../../swarm/run/runFile.ts';

const BLOCK = 64;
/** Ends the name of a tied table where the head reads it: its values and gradients there are of another stage. */
const IN_HEAD = ' in the head';

/** The values that codes of x stand for. */
function rounded(x: readonly number[]): number[] {
  const out: number[] = [];
  for (let from = 0; from < x.length; from += BLOCK) {
    const part = x.slice(from, from + BLOCK);
    const largest = Math.max(...part.map(Math.abs));
    let scale = 0;
    if (largest >= 2 ** -100) {
      // The least number 1.mmm · 2^e with 127 of it at least as large.
      let power = 1;
      while (127 * 1.875 * power < largest) power *= 2;
      while (127 * 0.9375 * power >= largest) power /= 2;
      scale =
        [1, 1.125, 1.25, 1.375, 1.5, 1.625, 1.75, 1.875].map((m) => m * power).find((s) => 127 * s >= largest) ?? 0;
    }
    for (const value of part) out.push(scale === 0 ? 0 : toEven(value / scale) * scale);
  }
  return out;
}

function toEven(value: number): number {
  const below = Math.floor(value);
  if (value - below !== 0.5) return Math.round(value);
  return below % 2 === 0 ? below : below + 1;
}

/** A number for each element of a block. */
type Planes = Map<string, Float64Array>;

/** The steps of a run with this plan. `tensors`: p, by full name, which others may change between two turns of an island. */
export function codedTrainer(
  model: Model,
  plan: Plan,
  train: Pick<Train, 'optimizer' | 'schedule' | 'gradientClipNorm' | 'islands'>,
  tensors: Matrices,
): ReferenceTrainer {
  const trainer = new CodedTrainer(model, plan, tensors);
  const { islands } = train;
  const turnSteps = islands && islands.count !== 'auto' ? islands.innerSteps : Infinity;
  let done = 0;
  return {
    tensors,
    step(windows, number = done) {
      if (done === 0 || done % turnSteps === 0) trainer.begin();
      const rate = learningRate(train, number);
      const { loss, sums } = trainer.sums(windows);
      let squares = 0;
      for (const sum of sums.values()) for (const value of sum) squares += value * value;
      const gradientNorm = Math.sqrt(squares);
      const clip = Math.min(1, (train.gradientClipNorm ?? Infinity) / (gradientNorm + 1e-6));
      done++;
      trainer.update(sums, { ...train.optimizer, rate, clip, done });
      return { loss, gradientNorm, learningRate: rate };
    },
  };
}

interface Update extends Pick<Train['optimizer'], 'betas' | 'epsilon' | 'weightDecay'> {
  readonly rate: number;
  readonly clip: number;
  /** Updates, this one included. */
  readonly done: number;
}

class CodedTrainer {
  readonly #model: Model;
  readonly #plan: Plan;
  readonly #tensors: Matrices;
  /** What holders have. */
  readonly #held: Planes = new Map();
  readonly #moments: readonly [Planes, Planes];
  /** What codes missed, by stage, holder and block. */
  readonly #left: Planes = new Map();

  constructor(model: Model, plan: Plan, tensors: Matrices) {
    [this.#model, this.#plan, this.#tensors] = [model, plan, tensors];
    this.#moments = [this.#zeros(), this.#zeros()];
  }

  /** All values go whole, and nothing is left over. */
  begin(): void {
    this.#left.clear();
    for (const { name } of this.#model.blocks) this.#held.set(name, Float64Array.from(this.#flat(name, this.#tensors)));
  }

  /** The mean loss of the windows, and what keepers add up of its gradients. */
  sums(windows: readonly Window[]): { readonly loss: number; readonly sums: Planes } {
    const [model, values] = [this.#tiedApart(), this.#computedWith()];
    const targets = totalOf(windows, (window) => positionsOf(window));
    const found = new Map<number, Matrices>();
    let loss = 0;
    for (const { id, samples } of this.#plan.microBatches) {
      const one = lossAndGradients(model, values, windows.slice(...samples), targets);
      found.set(id, one.gradients);
      loss += one.loss;
    }
    const sums = this.#zeros();
    for (const [index, stage] of this.#plan.stages.entries())
      for (const { peer, microBatches } of stage.members)
        this.#addSums(
          index,
          stage,
          peer,
          microBatches.map((id) => got(found, id)),
          sums,
        );
    return { loss, sums };
  }

  update(sums: Planes, { betas: [beta1, beta2], epsilon, weightDecay, rate, clip, done }: Update): void {
    const [means, squares] = this.#moments;
    for (const { name, tensors } of this.#model.blocks)
      for (const { name: tensor, offset, elements, shape } of tensors) {
        const [p, sum, m, v] = [got(this.#tensors, tensor), got(sums, name), got(means, name), got(squares, name)];
        const decay = shape.length > 1 ? 1 - rate * weightDecay : 1;
        for (let i = 0; i < elements; i++) {
          const gradient = at(sum, offset + i) * clip;
          const mean = beta1 * at(m, offset + i) + (1 - beta1) * gradient;
          const square = beta2 * at(v, offset + i) + (1 - beta2) * gradient * gradient;
          m[offset + i] = mean;
          v[offset + i] = square;
          p[i] =
            at(p, i) * decay -
            (rate * mean) / (1 - beta1 ** done) / (Math.sqrt(square / (1 - beta2 ** done)) + epsilon);
        }
      }
    for (const { block, shards } of this.#plan.state) for (const shard of shards) this.#sendValues(block, shard);
  }

  #sendValues(block: BlockName, shard: Shard): void {
    const order = got(holders(this.#model, this.#plan), block);
    const [p, h] = [this.#flat(block, this.#tensors), got(this.#held, block)];
    const isCoded = codesValues(this.#plan, shard, order);
    for (const [from, to] of isCoded ? codedParts(order, shard.range) : [shard.range]) {
      const lacking = p.slice(from, to).map((value, i) => value - at(h, from + i));
      for (const [i, value] of (isCoded ? rounded(lacking) : lacking).entries()) h[from + i] = at(h, from + i) + value;
    }
  }

  /** Of one member: its sums of what the stage computes with, as the keepers add them. */
  #addSums(index: number, stage: PlanStage, peer: PeerId, gradients: readonly Matrices[], sums: Planes): void {
    for (const use of blocksOfStage(this.#model, stage.layers)) {
      const own = gradients.map((one) => this.#flat(use.block, this.#ofStage(stage, one)));
      const whole = own[0]?.map((_, i) => totalOf(own, (values) => at(values, i))) ?? [];
      const sum = got(sums, use.block);
      const key = `${index} ${peer} ${use.block}`;
      const rest = this.#left.get(key) ?? new Float64Array(sum.length);
      this.#left.set(key, rest);
      for (const shard of this.#plan.state.find(({ block }) => block === use.block)?.shards ?? [])
        for (const [from, to] of slices(use, shard.range)) {
          const x = whole.slice(from, to).map((value, i) => value + at(rest, from + i));
          const isCoded = !this.#gathers(index, use.block) && codesSums(this.#plan, shard, peer);
          for (const [i, value] of (isCoded ? rounded(x) : x).entries()) {
            sum[from + i] = at(sum, from + i) + value;
            rest[from + i] = at(x, i) - value;
          }
        }
    }
  }

  /** The gradients that a stage makes, by the tensors' own names: of a tied table the first stage's, the last one's, or both. */
  #ofStage({ layers }: PlanStage, gradients: Matrices): Matrices {
    const [isFirst, isLast] = [layers[0] === 0, layers[1] === this.#model.layers];
    const own = new Map(gradients);
    for (const [name, inHead] of gradients) {
      const tensor = name.endsWith(IN_HEAD) ? name.slice(0, -IN_HEAD.length) : null;
      const inEmbedding = tensor && gradients.get(tensor);
      if (!tensor || !inEmbedding) continue;
      const both = inHead.map((value, i) => (isLast ? value : 0) + (isFirst ? at(inEmbedding, i) : 0));
      own.set(tensor, both);
    }
    return own;
  }

  #gathers(stage: number, block: BlockName): boolean {
    return at(this.#plan.stages, stage).gathered !== undefined && homeStage(this.#plan, block) === stage;
  }

  /** By tensor, as the stage that reads it has it. */
  #computedWith(): Map<string, Matrix> {
    const { layers, tied } = this.#model;
    const last = this.#plan.stages.length - 1;
    const found = new Map<string, Matrix>();
    const put = (block: BlockName, stage: number, ending = '') => {
      for (const { name, offset, elements } of this.#model.blocks.find(({ name }) => name === block)?.tensors ?? []) {
        const values = this.#gathers(stage, block)
          ? got(this.#tensors, name).slice()
          : got(this.#held, block).slice(offset, offset + elements);
        found.set(name + ending, values);
      }
    };
    const blocks = ['embedding', 'head', ...arrayOf(layers, (i) => layerBlock(i))] as const;
    for (const block of blocks) put(block, homeStage(this.#plan, block));
    if (tied) put('embedding', last, IN_HEAD);
    return found;
  }

  #tiedApart(): Model {
    const embedding = this.#model.tied && this.#model.blocks.find(({ name }) => name === 'embedding');
    if (!embedding) return this.#model;
    const names = new Set(embedding.tensors.map(({ name }) => name));
    const apart = (name: string) => (names.has(name) ? name + IN_HEAD : name);
    // Only tensors of blocks get a gradient.
    const inHead = { ...embedding, tensors: embedding.tensors.map((one) => ({ ...one, name: apart(one.name) })) };
    const head = this.#model.head.map((row): Operation => {
      if (row.op !== 'linear') return row;
      const [first, ...more] = row.weights;
      return { ...row, weights: [apart(first), ...more.map(apart)] };
    });
    return { ...this.#model, blocks: [...this.#model.blocks, inHead], head };
  }

  #flat(block: string, tensors: ReadonlyMap<string, ArrayLike<number>>): number[] {
    const rows = this.#model.blocks.find(({ name }) => name === block)?.tensors ?? [];
    return rows.flatMap(({ name }) => Array.from(got(tensors, name)));
  }

  #zeros(): Planes {
    return new Map(this.#model.blocks.map(({ name, elements }) => [name, new Float64Array(elements)]));
  }
}
