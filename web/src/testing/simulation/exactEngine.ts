/**
 * The executor's engine on whole numbers: what `web/src/gpu` is to a GPU this is to a queue of simulated work. What is
 * submitted is computed at once and is there when the queue has come to it, as a copy in a GPU's queue would be.
 */
import { at, got, invariant, overlap, type Range } from '../../../../swarm/base.ts';
import { type ShardWork, type StageSize, shardsOf } from '../../../../swarm/memory/memory.ts';
import { type BlockName, blocksOfStage, layerBlock, type Model } from '../../../../swarm/model/model.ts';
import type { StateKind } from '../../../../swarm/plan/stateKinds.ts';
import type {
  ForwardWork,
  Neighbour,
  Reading,
  ShardNorm,
  Shards,
  Stage,
  Stream,
  UpdateScalars,
} from '../../executor/engine.ts';
import type { Engine } from '../../executor/role.ts';
import type { Device } from './device.ts';
import {
  added,
  addedInOrder,
  embedded,
  embeddedBack,
  gradientAt,
  headBack,
  headRows,
  layer,
  layerBack,
  lossOf,
  type State,
  type Sums,
  squared,
  updated,
  type Values,
} from './integers.ts';
import { PLAIN, type WorkPace } from './pace.ts';

/** Who looks at what was computed. */
export interface Witness {
  /** A shard stands after so many updates. */
  updated(block: BlockName, range: Range, step: number, state: State): void;
}

/** What a stage has of a micro-batch between its forward and its backward. */
interface InFlight {
  readonly microBatch: number;
  readonly samples: number;
  readonly ids: Uint32Array;
  readonly targets: Uint32Array;
  readonly inputs: readonly Values[];
  readonly z_N: readonly number[];
}

const NO_TOKENS = new Uint32Array();

class ExactStage implements Stage {
  readonly bytes = 1;
  readonly values: ReadonlyMap<BlockName, Values>;
  readonly #device: Device;
  readonly #model: Model;
  readonly #size: StageSize;
  readonly #pace: WorkPace;
  readonly #slotOf = new Map<number, number>();
  readonly #taken = new Set<number>();
  readonly #slots = new Map<number, InFlight>();
  #forwarded: InFlight | null = null;
  /** The micro-batch that was computed again. */
  #again: number | null = null;
  readonly #sums = new Map<string, Sums>();
  /** What lies in each slot for the stage after and the one before, until another micro-batch takes it. */
  readonly #left = new Map<number, { readonly microBatch: number; readonly words: Values }>();
  #output: Values = new Float32Array();
  #inputGradient: Values = new Float32Array();

  constructor(device: Device, model: Model, size: StageSize, pace: WorkPace) {
    this.#device = device;
    this.#pace = pace;
    this.#model = model;
    this.#size = size;
    const uses = blocksOfStage(model, size.layers);
    this.values = new Map(
      uses.map(({ block }) => [
        block,
        new Float32Array(model.blocks.find(({ name }) => name === block)?.elements ?? 0).fill(Number.NaN),
      ]),
    );
  }

  begin(): void {
    this.#sums.clear();
    this.#slots.clear();
    this.#taken.clear();
  }

  forward({ microBatch, samples, input, tokens, evaluation }: ForwardWork): void {
    const { layers, sequence } = this.#size;
    this.#takeSlot(microBatch, evaluation);
    if (!this.#size.recomputesAhead) this.#again = null;
    const { ids = NO_TOKENS, targets = NO_TOKENS } = tokens ?? {};
    let x =
      layers[0] === 0
        ? embedded(this.#model, this.#values('embedding'), ids, sequence)
        : this.#wordsOf(input, microBatch).slice();
    invariant(x.length === samples * sequence * this.#model.width, 'an input has a row for each position');
    const inputs: Values[] = [];
    for (let index = layers[0]; index < layers[1]; index++) {
      inputs.push(x);
      x = layer(this.#values(layerBlock(index)), x);
    }
    this.#output = x;
    this.#leave(microBatch, x);
    const z_N = this.#isLast ? headRows(this.#model, this.#values('embedding'), this.#values('head'), x, targets) : [];
    this.#forwarded = { microBatch, samples, ids, targets, inputs, z_N };
    const slot = got(this.#slotOf, microBatch);
    invariant(evaluation || !this.#slots.has(slot), `slot ${slot} is taken`);
    if (!evaluation) this.#slots.set(slot, this.#forwarded);
    this.#device.submit(this.#pace.forwardMs(this.#size, samples));
  }

  recompute(microBatch: number): void {
    this.#again = microBatch;
    const { samples } = got(this.#slots, got(this.#slotOf, microBatch));
    this.#device.submit(this.#pace.recomputeMs(this.#size, samples));
  }

  backward(microBatch: number, gradient: Stream | Neighbour | null): void {
    const { layers } = this.#size;
    const slot = got(this.#slotOf, microBatch);
    const kept = got(this.#slots, slot);
    invariant(kept.microBatch === microBatch, `slot ${slot} is of micro-batch ${kept.microBatch}`);
    this.#slots.delete(slot);
    const isRecomputed = (this.#size.recompute ?? []).length === 0 || this.#again === microBatch;
    invariant(isRecomputed, `micro-batch ${microBatch} is computed again before its backward`);
    this.#again = null;
    let d = this.#isLast
      ? headBack(this.#model, kept.z_N, kept.targets, this.#sumsOf('table'), this.#sumsOf('head'))
      : this.#wordsOf(gradient, microBatch).slice();
    for (let index = layers[1] - 1; index >= layers[0]; index--) {
      const name = layerBlock(index);
      d = layerBack(this.#values(name), at(kept.inputs, index - layers[0]), d, this.#sumsOf(name));
    }
    if (layers[0] === 0) embeddedBack(kept.ids, d, this.#model.width, this.#sumsOf('embedding'));
    this.#inputGradient = d;
    this.#leave(microBatch, d);
    this.#device.submit(this.#pace.backwardMs(this.#size, kept.samples));
  }

  async readOutput(): Promise<Reading> {
    return this.#device.read(this.#output);
  }

  async readInputGradient(): Promise<Reading> {
    return this.#device.read(this.#inputGradient);
  }

  async readLoss(microBatch: number): Promise<Reading> {
    invariant(this.#forwarded?.microBatch === microBatch, `micro-batch ${microBatch} is not the newest`);
    return this.#device.read(Float32Array.from(this.#forwarded.z_N, lossOf));
  }

  async readGradient(block: BlockName, range: Range): Promise<Reading> {
    return this.#device.read(this.gradient(block, range));
  }

  gradient(block: BlockName, [from, to]: Range): Values {
    const { width, vocabulary } = this.#model;
    const values = this.#values(block);
    const own = this.#sums.get(block);
    const table = block === 'embedding' ? this.#sums.get('table') : undefined;
    return Float32Array.from({ length: to - from }, (_, offset) => {
      const index = from + offset;
      const value = at(values, index);
      const first = own ? gradientAt(own, index, value) : 0;
      return table && index < vocabulary * width ? added(first, gradientAt(table, index, value)) : first;
    });
  }

  writeValues(block: BlockName, range: Range, values: Float32Array): void {
    this.#values(block).set(values, range[0]);
  }

  async readValues(block: BlockName, range: Range): Promise<Reading> {
    return this.#device.read(this.#values(block).slice(...range));
  }

  free(microBatch: number): void {
    invariant(this.#taken.delete(got(this.#slotOf, microBatch)), `the slot of ${microBatch} is free already`);
  }

  #takeSlot(microBatch: number, evaluation: boolean): void {
    let slot = 0;
    while (!evaluation && this.#taken.has(slot)) slot++;
    invariant(slot < this.#size.slots, `no slot is free for micro-batch ${microBatch}`);
    if (!evaluation) this.#taken.add(slot);
    this.#slotOf.set(microBatch, slot);
  }

  settled(): Promise<void> {
    return this.#device.settled();
  }

  close(): void {}

  #leave(microBatch: number, words: Values): void {
    this.#left.set(got(this.#slotOf, microBatch), { microBatch, words });
  }

  #wordsOf(given: Stream | Neighbour | null, microBatch: number): Values {
    if (given === null) return new Float32Array();
    if (!('stage' in given)) return given.words;
    invariant(given.stage instanceof ExactStage, 'a stage of this engine');
    const left = given.stage.#left.get(got(given.stage.#slotOf, microBatch));
    invariant(left?.microBatch === microBatch, `what was left of micro-batch ${microBatch} lies there no more`);
    return left.words;
  }

  get #isLast(): boolean {
    return this.#size.layers[1] === this.#model.layers;
  }

  #values(block: BlockName): Values {
    return got(this.values, block);
  }

  #sumsOf(name: string): Sums {
    const known = this.#sums.get(name) ?? { s: 0, u: 0 };
    this.#sums.set(name, known);
    return known;
  }
}

interface Kept {
  readonly work: ShardWork;
  /** Of the range alone, but for the values that lie in a stage. */
  readonly own: State;
  readonly stage: ExactStage | null;
  sum: Float64Array;
  parts: number;
  /** Of a replica that is late: the update that it has yet to do. */
  late: { readonly sum: Float64Array; readonly scalars: UpdateScalars } | null;
}

/** How an engine differs from one that is right. */
export interface Otherwise {
  /** Other sums come of another order of their parts. */
  readonly isOrdered?: boolean;
  /** Replicas do each update when the next one is due. */
  readonly isReplicaLate?: boolean;
  /** Absent: `PLAIN`. */
  readonly pace?: WorkPace;
}

class ExactShards implements Shards {
  readonly bytes = 1;
  readonly hostBytes = 0;
  readonly #device: Device;
  readonly #witness: Witness;
  readonly #shards: readonly Kept[];
  readonly #otherwise: Otherwise;
  readonly #pace: WorkPace;

  constructor(device: Device, witness: Witness, shards: readonly Kept[], otherwise: Otherwise) {
    this.#device = device;
    this.#witness = witness;
    this.#shards = shards;
    this.#otherwise = otherwise;
    this.#pace = otherwise.pace ?? PLAIN;
  }

  begin(): void {
    for (const shard of this.#shards) shard.parts = 0;
  }

  addOwn(block: BlockName, range: Range, stage: Stage): void {
    invariant(stage instanceof ExactStage, 'a stage of this engine');
    this.#add(this.#shard(block, range), Float64Array.from(stage.gradient(block, range)));
  }

  addReceived(block: BlockName, range: Range, pieces: Parameters<Shards['addReceived']>[2]): void {
    const part = new Float64Array(range[1] - range[0]);
    for (const piece of pieces) part.set(piece.values, piece.range[0] - range[0]);
    this.#add(this.#shard(block, range), part);
  }

  async sumSquares(): Promise<readonly ShardNorm[]> {
    this.#device.submit(this.#pace.smallMs);
    const norms = this.#shards.map(({ work, sum, parts }): ShardNorm => {
      invariant(parts === work.holders.length, `${parts} of ${work.holders.length} parts of ${work.block} are added`);
      return { block: work.block, range: work.range, sumSquares: sum.reduce((all, one) => all + squared(one), 0) };
    });
    await this.#device.settled();
    return norms;
  }

  update(scalars: UpdateScalars): void {
    const elements = this.#shards.reduce((sum, { work: { range } }) => sum + range[1] - range[0], 0);
    this.#device.submit(this.#pace.updateMs(elements));
    for (const shard of this.#shards) {
      const { late } = shard;
      const isLate = this.#otherwise.isReplicaLate && !shard.work.isPrimary;
      if (isLate) shard.late = { sum: shard.sum, scalars };
      if (!isLate) this.#apply(shard, shard.sum, scalars);
      else if (late) this.#apply(shard, late.sum, late.scalars);
    }
  }

  #apply({ work, own, stage }: Kept, sum: Float64Array, scalars: UpdateScalars): void {
    const value = stage ? got(stage.values, work.block).subarray(...work.range) : own.value;
    const state = { ...own, value };
    updated(state, sum, scalars);
    // What a replica was never given says nothing.
    const isWhole = work.isPrimary || ![state.m, state.v, state.value].some((values) => values.some(Number.isNaN));
    if (isWhole) this.#witness.updated(work.block, work.range, scalars.time, state);
  }

  async readValues(block: BlockName, range: Range): Promise<Reading> {
    const shard = this.#shards.find(
      ({ work }) => work.block === block && work.range[0] <= range[0] && range[1] <= work.range[1],
    );
    invariant(shard, `no shard of ${block} here`);
    const [from] = shard.work.range;
    return this.#device.read(this.#stateOf(shard, 'value').slice(range[0] - from, range[1] - from));
  }

  /** One kind after the other: what changes meanwhile tears the copy, as it would on a GPU. */
  async readState(block: BlockName, range: Range, kinds: readonly StateKind[]): Promise<Values> {
    const length = range[1] - range[0];
    const shard = this.#shard(block, range);
    const state = new Float32Array(kinds.length * length);
    for (const [index, kind] of kinds.entries()) {
      this.#device.submit(this.#pace.smallMs);
      await this.#device
        .read(this.#stateOf(shard, kind).slice(range[0] - shard.work.range[0], range[1] - shard.work.range[0]))
        .take((values) => state.set(values, index * length));
    }
    return state;
  }

  writeState(block: BlockName, range: Range, kind: StateKind, values: Float32Array): void {
    for (const shard of this.#shards) {
      const { work } = shard;
      const part = work.block === block ? overlap(work.range, range) : null;
      if (!part) continue;
      const inside = values.subarray(part[0] - range[0], part[1] - range[0]);
      this.#stateOf(shard, kind).set(inside, part[0] - work.range[0]);
    }
  }

  close(): void {}

  #add(shard: Kept, part: Float64Array): void {
    const before = shard.parts === 0 ? new Float64Array(part.length) : shard.sum;
    const sum = this.#otherwise.isOrdered ? addedInOrder : added;
    shard.sum = before.map((one, index) => sum(one, at(part, index)));
    shard.parts++;
  }

  #stateOf({ work, own, stage }: Kept, kind: StateKind): Values {
    if (kind === 'value' && stage) return got(stage.values, work.block).subarray(...work.range);
    invariant(kind === 'value' || kind === 'm' || kind === 'v', `the GPU has no ${kind}`);
    return own[kind];
  }

  #shard(block: BlockName, range: Range): Kept {
    const found = this.#shards.find(
      ({ work }) => work.block === block && work.range[0] <= range[0] && range[1] <= work.range[1],
    );
    invariant(found, `no shard of ${block} at ${range[0]} here`);
    return found;
  }
}

export function exactEngine(device: Device, witness: Witness, model: Model, otherwise: Otherwise = {}): Engine {
  const unknown = (elements: number): Values => new Float32Array(elements).fill(Number.NaN);
  return {
    ...{ wire: 'f32', asked: 'f32', compute: 'f32' },
    async stage(size) {
      await device.compiles();
      return new ExactStage(device, model, size, otherwise.pace ?? PLAIN);
    },
    warm: () => device.compiles(),
    async shards(plan, peer, stages) {
      const kept = shardsOf(model, plan, peer).map((work): Kept => {
        const stage = work.valuesStage === null ? null : got(stages, work.valuesStage);
        invariant(stage === null || stage instanceof ExactStage, 'a stage of this engine');
        const elements = work.range[1] - work.range[0];
        const own = { value: unknown(elements), m: unknown(elements), v: unknown(elements) };
        return { work, own, stage, sum: new Float64Array(elements), parts: 0, late: null };
      });
      return new ExactShards(device, witness, kept, otherwise);
    },
  };
}
