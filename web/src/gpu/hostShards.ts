/**
 * Shards in main memory (PatrickStar, ZeRO-Offload): values, moments and the sum of gradients of some shards lie here, and
 * are updated here, so that of a parameter that the GPU computes with it has 8 bytes in place of 16. Those of the same peer
 * that lie on its GPU are updated there meanwhile, and the next step's first forward begins: a shard that goes on being updated
 * makes wait who asks for it, or gives it something, and nobody else. The arithmetic is float32's, one operation after the
 * other, so that all keepers of a shard have the same bits whatever their adapters.
 */
import { ADAMW_SCALARS, adamwScalars } from '../../../shaders/update/adamw.ts';
import { adamwInMemory } from '../../../shaders/update/adamwInMemory.ts';
import { packInt8Difference } from '../../../shaders/wire/packInt8.ts';
import { got, invariant, outside, overlap, type PeerId, type Range } from '../../../swarm/base.ts';
import { inUpdateOrder, type ShardWork, shardsOf } from '../../../swarm/memory/memory.ts';
import { pieces, slices } from '../../../swarm/model/layout.ts';
import { matricesOf } from '../../../swarm/model/matrices.ts';
import { type BlockName, type BlockUse, block, type Model, type TensorSpec } from '../../../swarm/model/model.ts';
import { keptUses, type Plan } from '../../../swarm/plan/plan.ts';
import { FLOAT_BYTES, STATE_KINDS, type StateKind } from '../../../swarm/plan/stateKinds.ts';
import type { Compute } from '../../../swarm/precision.ts';
import { MuonRoom } from '../../../swarm/reference/muon.ts';
import { plainProducts } from '../../../swarm/reference/products.ts';
import type { Train } from '../../../swarm/run/runFile.ts';
import { packedWords } from '../../../swarm/wire.ts';
import type { Reading, ShardNorm, Shards, Stage, UpdateScalars } from '../executor/engine.ts';
import { LongWork } from '../executor/longWork.ts';

/** Multiplications that take as long as an element's update. */
const PRODUCTS_AN_ELEMENT = 8;
/** Elements that are updated at a time, and then written to the stage that computes with them. */
const UPDATED_ELEMENTS = 65_536;

interface HostShard {
  readonly work: ShardWork;
  /** By kind, in elements of the shard's range. */
  readonly planes: ReadonlyMap<StateKind, Float32Array>;
  readonly sum: Float32Array;
  /** What those who are sent its values have of them. */
  readonly held: Float32Array | null;
  /** What is done to it, and has to be over before anything else is; null: nothing. */
  busy: Promise<void> | null;
}

interface HostParts {
  readonly model: Model;
  readonly optimizer: Train['optimizer'];
  readonly compute: Compute;
  readonly plan: Plan;
  readonly peer: PeerId;
  readonly stages: ReadonlyMap<number, Stage>;
}

/** All shards of this peer, those of `gpu` and those in main memory; where it has none there, `gpu` itself. */
export function withHostShards<S extends Shards>(gpu: S, parts: HostParts): S | HostShards {
  const kept = shardsOf(parts.model, parts.plan, parts.peer, undefined, parts.compute);
  return kept.some((work) => work.in === 'host') ? new HostShards(gpu, parts, kept) : gpu;
}

class HostShards implements Shards {
  readonly bytes: number;
  readonly #gpu: Shards;
  readonly #parts: HostParts;
  /** On the GPU and here, in the order of the plan's state. */
  readonly #kept: readonly ShardWork[];
  readonly #shards: readonly HostShard[];
  readonly #uses: ReadonlyMap<Stage, readonly BlockUse[]>;
  /** Shards whose sum holds something of this step already. */
  readonly #begun = new Set<HostShard>();
  readonly #work = new LongWork();
  readonly #muon = new MuonRoom({ ...plainProducts, zeros: (length) => new Float32Array(length) });
  #isClosed = false;

  constructor(gpu: Shards, parts: HostParts, kept: readonly ShardWork[]) {
    this.bytes = gpu.bytes;
    this.#gpu = gpu;
    this.#parts = parts;
    this.#kept = kept;
    this.#shards = kept
      .filter((work) => work.in === 'host')
      .map((work): HostShard => {
        const plane = (): Float32Array => new Float32Array(work.range[1] - work.range[0]);
        const held = work.isPrimary && parts.plan.stateWire ? plane() : null;
        return { work, planes: new Map(STATE_KINDS.map((kind) => [kind, plane()])), sum: plane(), held, busy: null };
      });
    const { model, plan, stages } = parts;
    this.#uses = new Map([...stages].map(([index, stage]) => [stage, keptUses(model, plan, index)]));
  }

  get hostBytes(): number {
    const floats = this.#shards.reduce(
      (all, { sum, planes, held }) => all + sum.length * (planes.size + 1) + (held?.length ?? 0),
      0,
    );
    return this.#gpu.hostBytes + floats * FLOAT_BYTES;
  }

  begin(): void {
    this.#begun.clear();
    this.#gpu.begin();
  }

  async addOwn(name: BlockName, range: Range, stage: Stage): Promise<void> {
    const shard = this.#shard(name, range);
    if (!shard) return this.#gpu.addOwn(name, range, stage);
    const use = got(this.#uses, stage).find((one) => one.block === name);
    invariant(use, `a stage adds gradients of ${name}, which it does not use`);
    await shard.busy;
    this.#begin(shard);
    for (const part of slices(use, range)) {
      const reading = await stage.readGradient(name, [part]);
      await reading.take((values) => add(shard, part, values));
    }
  }

  async addReceived(name: BlockName, range: Range, pieces: Parameters<Shards['addReceived']>[2]): Promise<void> {
    const shard = this.#shard(name, range);
    if (!shard) return this.#gpu.addReceived(name, range, pieces);
    await shard.busy;
    this.#begin(shard);
    for (const piece of pieces) add(shard, piece.range, piece.values);
  }

  async sumSquares(): Promise<readonly ShardNorm[]> {
    const onGpu = this.#gpu.sumSquares();
    onGpu.catch(() => undefined); // awaited below
    const own = new Map<ShardWork, number>();
    for (const { work, sum, busy } of this.#shards) {
      await busy;
      own.set(work, sumOfSquares(sum));
      await this.#work.did(sum.length);
    }
    const norms = [...(await onGpu)];
    return this.#kept.map((work): ShardNorm => {
      const squares = own.get(work);
      if (squares !== undefined) return { block: work.block, range: work.range, sumSquares: squares };
      const norm = norms.shift();
      invariant(norm, `the GPU has a norm of ${work.block}`);
      return norm;
    });
  }

  /**
   * The GPU's are in its queue first: both are updated at the same time. Of those in main memory what others wait for is first,
   * then what the next forward computes with, in its order.
   */
  async update(scalars: UpdateScalars): Promise<void> {
    const onGpu = this.#gpu.update(scalars);
    const { betas, epsilon, weightDecay } = this.#parts.optimizer;
    const { learningRate, clipScale, time: update } = scalars;
    const rates = { learningRate, clipScale, weightDecay, update };
    const words = adamwScalars({ ...rates, beta1: betas[0], beta2: betas[1], epsilon });
    invariant(words.length === ADAMW_SCALARS.length, 'scalars have their table');
    const inOrder = inUpdateOrder(this.#shards);
    let last: Promise<void> = Promise.all(inOrder.map(({ busy }) => busy)).then(() => undefined);
    for (const shard of inOrder) {
      last = last.then(() => this.#update(shard, words, scalars));
      this.#occupy(shard, last);
    }
    await last;
    await onGpu;
  }

  #occupy(shard: HostShard, until: Promise<void>): void {
    const busy = until.finally(() => {
      if (shard.busy === busy) shard.busy = null;
    });
    busy.catch(() => undefined); // a lost device ends the step of whoever waits for it
    shard.busy = busy;
  }

  written(stage: number, name: BlockName): Promise<void> | null {
    const busy = this.#shards.flatMap(({ work, busy }) =>
      work.block === name && work.valuesStage === stage && !work.isCoded && busy ? busy : [],
    );
    return busy.length === 0 ? null : Promise.all(busy).then(() => undefined);
  }

  async #update(shard: HostShard, words: Float32Array, scalars: UpdateScalars): Promise<void> {
    const { work, planes, sum } = shard;
    const [first] = work.range;
    const arrays = { values: got(planes, 'value'), m: got(planes, 'm'), v: got(planes, 'v'), grads: sum };
    for (const spec of block(this.#parts.model, work.block).tensors) {
      const { offset, elements, shape, matrices } = spec;
      const tensor = overlap(work.range, [offset, offset + elements]);
      if (!tensor) continue;
      if (matrices !== undefined) {
        await this.#updateWhole(shard, spec, scalars);
        continue;
      }
      for (let from = tensor[0]; from < tensor[1]; from += UPDATED_ELEMENTS) {
        if (this.#isClosed) return;
        const to = Math.min(from + UPDATED_ELEMENTS, tensor[1]);
        adamwInMemory(arrays, [from - first, to - first], shape.length >= 2, words);
        this.#show(work, [from, to], arrays.values.subarray(from - first, to - first));
        await this.#work.did(to - from);
      }
    }
  }

  /** By Muon, in float32. */
  async #updateWhole({ work, planes, sum }: HostShard, tensor: TensorSpec, scalars: UpdateScalars): Promise<void> {
    const { optimizer } = this.#parts;
    invariant(optimizer.type === 'muon', `${tensor.name} is updated whole`);
    const { learningRate: rate, clipScale: clip } = scalars;
    const [first] = work.range;
    const arrays = { values: got(planes, 'value'), m: got(planes, 'm'), grads: sum, first: tensor.offset - first };
    for (const matrix of matricesOf(tensor))
      for (const products of this.#muon.update(arrays, matrix, { ...optimizer, rate, clip })) {
        if (this.#isClosed) return;
        await this.#work.did(products / PRODUCTS_AN_ELEMENT);
      }
    const end = tensor.offset + tensor.elements;
    for (const piece of pieces([tensor.offset, end]))
      this.#show(work, piece, arrays.values.subarray(piece[0] - first, piece[1] - first));
  }

  /** What the stage of this peer computes with is a copy; or what its codes add up to, which come later. */
  #show({ block: name, valuesStage, isCoded }: ShardWork, range: Range, values: Float32Array): void {
    if (valuesStage === null || isCoded) return;
    got(this.#parts.stages, valuesStage).writeValues(name, range, values);
  }

  async readValues(name: BlockName, range: Range): Promise<Reading> {
    const shard = this.#shard(name, range);
    if (!shard) return this.#gpu.readValues(name, range);
    await shard.busy;
    const values = within(shard, 'value', range).slice();
    return { take: async (use) => use(values) };
  }

  async packValues(name: BlockName, range: Range): Promise<Reading> {
    const shard = this.#shard(name, range);
    if (!shard) return this.#gpu.packValues(name, range);
    await shard.busy;
    const { work, held } = shard;
    invariant(held, `no values of ${name} are sent from here as codes`);
    const n = range[1] - range[0];
    const had = held.subarray(range[0] - work.range[0], range[1] - work.range[0]);
    const packed = new Uint32Array(packedWords('int8', n));
    packInt8Difference.cpu({ x: within(shard, 'value', range), packed, held: had }, { n });
    if (work.valuesStage !== null) got(this.#parts.stages, work.valuesStage).writeValues(name, range, had);
    await this.#work.did(n);
    return { take: async (use) => use(new Float32Array(packed.buffer)) };
  }

  async readState(name: BlockName, range: Range, kinds: readonly StateKind[]): Promise<Float32Array<ArrayBuffer>> {
    const shard = this.#shard(name, range);
    if (!shard) return this.#gpu.readState(name, range, kinds);
    await shard.busy;
    const length = range[1] - range[0];
    const state = new Float32Array(kinds.length * length);
    for (const [place, kind] of kinds.entries()) state.set(within(shard, kind, range), place * length);
    return state;
  }

  writeState(name: BlockName, range: Range, kind: StateKind, values: Float32Array): void {
    this.#gpu.writeState(name, range, kind, values);
    for (const shard of this.#shards) {
      const part = shard.work.block === name ? overlap(shard.work.range, range) : null;
      if (!part) continue;
      const inside = values.subarray(part[0] - range[0], part[1] - range[0]);
      if (shard.busy) {
        const later = inside.slice();
        this.#occupy(
          shard,
          shard.busy.then(() => take(shard, kind, part, later)),
        );
      } else take(shard, kind, part, inside);
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#gpu.close();
  }

  /** Null: it lies on the GPU. */
  #shard(name: BlockName, range: Range): HostShard | null {
    const isHere = ({ work }: HostShard): boolean =>
      work.block === name && work.range[0] <= range[0] && range[1] <= work.range[1];
    return this.#shards.find(isHere) ?? null;
  }

  #begin(shard: HostShard): void {
    if (!this.#begun.has(shard)) shard.sum.fill(0);
    this.#begun.add(shard);
  }
}

const within = ({ work, planes }: HostShard, kind: StateKind, [from, to]: Range): Float32Array<ArrayBuffer> =>
  got(planes, kind).subarray(from - work.range[0], to - work.range[0]) as Float32Array<ArrayBuffer>; // none is shared

function take(shard: HostShard, kind: StateKind, part: Range, values: Float32Array): void {
  within(shard, kind, part).set(values);
  if (kind === 'value') shard.held?.set(values, part[0] - shard.work.range[0]);
}

const add = ({ work, sum }: HostShard, [from]: Range, values: Float32Array): void =>
  addTo(sum, from - work.range[0], values);

/** Adds values to those of a sum from this place on. */
export function addTo(sum: Float32Array, first: number, values: Float32Array): void {
  for (let i = 0; i < values.length; i++) {
    const place = first + i;
    sum[place] = (sum[place] ?? outside(sum, place)) + (values[i] ?? outside(values, i));
  }
}

export function sumOfSquares(sum: Float32Array): number {
  let squares = 0;
  for (const one of sum) squares += one * one;
  return squares;
}
