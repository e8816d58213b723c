/** The shards of a peer on whole numbers: each update is shown to who holds it against the sequential run. */
import { at, got, invariant, overlap, type Range, totalOf } from '../../../../swarm/base.ts';
import { HOST_FLOATS, inUpdateOrder, type ShardWork } from '../../../../swarm/memory/memory.ts';
import type { BlockName } from '../../../../swarm/model/model.ts';
import { FLOAT_BYTES, type StateKind } from '../../../../swarm/plan/stateKinds.ts';
import type { Reading, ShardNorm, Shards, Stage, UpdateScalars } from '../../executor/engine.ts';
import type { Device } from './device.ts';
import { ExactStage } from './exactStage.ts';
import { added, addedInOrder, noCodes, type State, squared, updated, type Values } from './integers.ts';
import { PLAIN, type WorkPace } from './pace.ts';

/** Who looks at what was computed. */
export interface Witness {
  /** A shard stands after so many updates. */
  updated(block: BlockName, range: Range, step: number, state: State): void;
}

export interface Kept {
  readonly work: ShardWork;
  /** Of the range alone, but for the values that lie in a stage. */
  readonly own: State;
  /** Where its values lie; null: here. */
  readonly stage: ExactStage | null;
  /** Of one in main memory: who computes with a copy. */
  readonly shownTo: ExactStage | null;
  sum: Float64Array;
  parts: number;
  /** That a step adds: of each holder one, and of what is gathered of each micro-batch. */
  readonly expected: number;
  /** In main memory: what is done to it. */
  busy: Promise<void> | null;
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

export class ExactShards implements Shards {
  readonly bytes = 1;
  readonly packValues = noCodes;
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

  get hostBytes(): number {
    const inHost = this.#shards.filter(({ work }) => work.in === 'host');
    return totalOf(inHost, ({ own }) => own.m.length * HOST_FLOATS * FLOAT_BYTES);
  }

  begin(): void {
    for (const shard of this.#shards) shard.parts = 0;
  }

  async addOwn(block: BlockName, range: Range, stage: Stage): Promise<void> {
    invariant(stage instanceof ExactStage, 'a stage of this engine');
    const shard = this.#shard(block, range);
    await shard.busy;
    this.#add(shard, Float64Array.from(stage.gradient(block, range)));
  }

  async addReceived(block: BlockName, range: Range, pieces: Parameters<Shards['addReceived']>[2]): Promise<void> {
    const part = new Float64Array(range[1] - range[0]);
    for (const piece of pieces) part.set(piece.values, piece.range[0] - range[0]);
    const shard = this.#shard(block, range);
    await shard.busy;
    this.#add(shard, part);
  }

  async sumSquares(): Promise<readonly ShardNorm[]> {
    this.#device.submit(this.#pace.smallMs);
    for (const { busy } of this.#shards) await busy;
    const norms = this.#shards.map(({ work, sum, parts, expected }): ShardNorm => {
      invariant(parts === expected, `${parts} of ${expected} parts of ${work.block} are added`);
      return { block: work.block, range: work.range, sumSquares: totalOf(sum, (one) => squared(one)) };
    });
    await this.#device.settled();
    await this.#device.works(this.#pace.hostSumMs(this.#elementsIn('host')));
    return norms;
  }

  /** As `HostShards`: one after the other, while who asks for one that is not done waits. */
  async update(scalars: UpdateScalars): Promise<void> {
    this.#device.submit(this.#pace.updateMs(this.#elementsIn('gpu')));
    for (const shard of this.#in('gpu')) this.#update(shard, scalars);
    const inOrder = inUpdateOrder(this.#shards);
    let last = Promise.resolve();
    for (const shard of inOrder) {
      last = last.then(async () => {
        await this.#device.works(this.#pace.hostUpdateMs(shard.own.m.length));
        this.#update(shard, scalars);
      });
      occupy(shard, last);
    }
    await last;
  }

  written(stage: number, block: BlockName): Promise<void> | null {
    const busy = this.#shards.flatMap(({ work, busy }) =>
      work.block === block && work.valuesStage === stage && !work.isCoded && busy ? busy : [],
    );
    return busy.length === 0 ? null : Promise.all(busy).then(() => undefined);
  }

  #in(place: ShardWork['in']): Kept[] {
    return this.#shards.filter(({ work }) => work.in === place);
  }

  #elementsIn(place: ShardWork['in']): number {
    return totalOf(this.#in(place), ({ own }) => own.m.length);
  }

  #update(shard: Kept, scalars: UpdateScalars): void {
    const { late } = shard;
    const isLate = this.#otherwise.isReplicaLate && !shard.work.isPrimary;
    if (isLate) shard.late = { sum: shard.sum, scalars };
    if (!isLate) this.#apply(shard, shard.sum, scalars);
    else if (late) this.#apply(shard, late.sum, late.scalars);
  }

  #apply({ work, own, stage, shownTo }: Kept, sum: Float64Array, scalars: UpdateScalars): void {
    const value = stage ? got(stage.values, work.block).subarray(...work.range) : own.value;
    const state = { ...own, value };
    updated(state, sum, scalars);
    shownTo?.writeValues(work.block, work.range, value);
    // What a replica was never given says nothing.
    const isWhole = work.isPrimary || ![state.m, state.v, state.value].some((values) => values.some(Number.isNaN));
    if (isWhole) this.#witness.updated(work.block, work.range, scalars.time, state);
  }

  async readValues(block: BlockName, range: Range): Promise<Reading> {
    const shard = this.#shards.find(
      ({ work }) => work.block === block && work.range[0] <= range[0] && range[1] <= work.range[1],
    );
    invariant(shard, `no shard of ${block} here`);
    await shard.busy;
    const [from] = shard.work.range;
    return this.#device.read(this.#stateOf(shard, 'value').slice(range[0] - from, range[1] - from));
  }

  /** One kind after the other: what changes meanwhile tears the copy, as it would on a GPU. */
  async readState(block: BlockName, range: Range, kinds: readonly StateKind[]): Promise<Values> {
    const length = range[1] - range[0];
    const shard = this.#shard(block, range);
    const state = new Float32Array(kinds.length * length);
    await shard.busy;
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
      const inside = values.slice(part[0] - range[0], part[1] - range[0]);
      const write = (): void => this.#stateOf(shard, kind).set(inside, part[0] - work.range[0]);
      if (shard.busy === null) write();
      else occupy(shard, shard.busy.then(write));
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

function occupy(shard: Kept, until: Promise<void>): void {
  const busy = until.then(() => {
    if (shard.busy === busy) shard.busy = null;
  });
  shard.busy = busy;
}
