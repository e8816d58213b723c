import type { Launch } from '../../../shaders/kernel/launch.ts';
import { ADAMW_SCALARS, adamwScalars } from '../../../shaders/update/adamw.ts';
import { at, got, invariant, overlap, type PeerId, type Range } from '../../../swarm/base.ts';
import { PASSES } from '../../../swarm/memory/bufferSpec.ts';
import { PARTIALS, shardBuffers, shardsOf } from '../../../swarm/memory/memory.ts';
import { type Arena, pieces, segmentsIn } from '../../../swarm/model/layout.ts';
import type { BlockName, Model } from '../../../swarm/model/model.ts';
import type { Plan } from '../../../swarm/plan/plan.ts';
import type { StateKind } from '../../../swarm/plan/stateKinds.ts';
import type { Compute } from '../../../swarm/precision.ts';
import type { Train } from '../../../swarm/run/runFile.ts';
import type { Reading, ShardNorm, Shards, Stage, UpdateScalars } from '../executor/engine.ts';
import { BufferSet, created, type Proof, ReadbackPool, type Run } from './buffers.ts';
import { launchesOf } from './compile.ts';
import type { Gpu } from './device.ts';
import type { KernelCall } from './kernelCall.ts';
import { Passes } from './passes.ts';
import {
  closeLaunches,
  incomingName,
  onThisDevice,
  type Shard,
  type ShardCalls,
  type ShardParts,
  shardCalls,
} from './shard.ts';
import { type Placed, VALUE_CODES, ValueCodec } from './stateCodec.ts';
import { writeRange } from './writeRange.ts';

/** Of all that a peer keeps on its GPU. */
const callsOfShards = (parts: ShardParts, plan: Plan, peer: PeerId): ShardCalls[] =>
  shardsOf(parts.model, plan, peer, undefined, parts.compute)
    .filter((one) => one.in === 'gpu')
    .map((work) => shardCalls(parts, work));

const callsIn = (shards: readonly ShardCalls[]): KernelCall[] =>
  shards.flatMap(({ calls: { add, norm, update } }) => [...add, ...norm, ...update]);

/** Of all of its shards, which may have no buffers yet; and of what codes their values. */
export function everyShardCall(parts: ShardParts, plan: Plan, peer: PeerId): KernelCall[] {
  const shards = callsOfShards(parts, plan, peer);
  return [...callsIn(shards), ...(shards.some(({ held }) => held) ? VALUE_CODES : [])];
}

/** Every pipeline is asked for at once, of all shards. */
async function boundShards(gpu: Gpu, shards: readonly ShardCalls[]): Promise<Shard[]> {
  const calls = callsIn(shards);
  const launches = await launchesOf(gpu, null, calls);
  const made = new Map(calls.map((one, place) => [one, at(launches, place)]));
  const bound = (some: readonly KernelCall[]): Launch[] => some.map((one) => got(made, one));
  return shards.map(({ calls: { add, norm, update }, ...shard }) => {
    return { ...shard, launches: { add: bound(add), norm: bound(norm), update: bound(update) } };
  });
}

export async function createShards(
  gpu: Gpu,
  model: Model,
  optimizer: Train['optimizer'],
  compute: Compute,
  plan: Plan,
  peer: PeerId,
  stages: ReadonlyMap<number, Stage>,
): Promise<GpuShards> {
  const specs = shardBuffers(model, plan, peer, undefined, compute);
  const buffers = await created(gpu.device, 'shards', () => new BufferSet(gpu.device, 'shards', specs));
  let shards: Shard[] = [];
  try {
    const homes = new Map(Array.from(stages, ([index, stage]) => [index, onThisDevice(stage)]));
    const parts = { gpu, model, compute, optimizer, buffers, stages: homes };
    shards = await boundShards(gpu, callsOfShards(parts, plan, peer));
    const passes = shards.length === 0 ? null : await Passes.create(gpu, buffers.get(PASSES));
    const computed = [...homes.values()].map(({ proof }) => proof);
    const isCoded = passes && shards.some(({ held }) => held);
    const codec = isCoded ? await ValueCodec.create(gpu, buffers, passes) : null;
    return new GpuShards(gpu, { buffers, shards, passes, codec, optimizer, computed });
  } catch (cause) {
    for (const shard of shards) closeLaunches(shard);
    buffers.close();
    throw cause;
  }
}

interface AllShards {
  readonly buffers: BufferSet;
  readonly shards: readonly Shard[];
  readonly passes: Passes | null;
  readonly codec: ValueCodec | null;
  readonly optimizer: Train['optimizer'];
  readonly computed: readonly Proof[];
}

export class GpuShards implements Shards {
  readonly bytes: number;
  readonly hostBytes = 0;
  readonly #gpu: Gpu;
  readonly #buffers: BufferSet;
  readonly #shards: readonly Shard[];
  readonly #optimizer: Train['optimizer'];
  readonly #partials: ReadbackPool | null;
  readonly #state: ReadbackPool | null;
  /** Null: there are no shards. */
  readonly #passes: Passes | null;
  /** Null: no values go as codes. */
  readonly #codec: ValueCodec | null;
  /** Of the stages whose gradients are added up here. */
  readonly #computed: readonly Proof[];
  /** Shards whose sum holds something of this step already. */
  readonly #begun = new Set<string>();

  constructor(gpu: Gpu, { buffers, shards, passes, codec, optimizer, computed }: AllShards) {
    this.#gpu = gpu;
    this.#buffers = buffers;
    this.#shards = shards;
    this.#passes = passes;
    this.#codec = codec;
    this.#optimizer = optimizer;
    this.#computed = computed;
    this.bytes = buffers.bytes;
    const pool = (name: string) => new ReadbackPool(gpu.device, [buffers.get(name)]);
    this.#partials = shards.length > 0 ? pool('partialsReadback') : null;
    this.#state = shards.length > 0 ? pool('shardReadback') : null;
  }

  begin(): void {
    this.#begun.clear();
  }

  addOwn(name: BlockName, range: Range, stage: Stage): void {
    const shard = this.#shard(name, range);
    const first = this.#isFirst(shard);
    if (first && shard.work.sumInPlace) return;
    const holder = onThisDevice(stage);
    const target = first
      ? shard.sum
      : { buffer: this.#buffers.get(incomingName(shard.work, shard.key)), arena: shard.arena };
    const encoder = this.#gpu.device.createCommandEncoder({ label: `add ${shard.key}` });
    encoder.clearBuffer(target.buffer);
    for (const { at, from, length } of segmentsIn(holder.arena(name), range)) {
      const [to] = segmentsIn(target.arena, [from, from + length]);
      invariant(to, `${shard.key} has no place for its own gradient`);
      const source = holder.gradientsBuffer(name);
      encoder.copyBufferToBuffer(source, at * 4, target.buffer, to.at * 4, length * 4);
    }
    this.#gpu.device.queue.submit([encoder.finish()]);
    if (!first) this.#add(shard);
  }

  addReceived(
    name: BlockName,
    range: Range,
    pieces: readonly { readonly range: Range; readonly values: Float32Array }[],
  ): void {
    const shard = this.#shard(name, range);
    const first = this.#isFirst(shard);
    const target = first
      ? shard.sum
      : { buffer: this.#buffers.get(incomingName(shard.work, shard.key)), arena: shard.arena };
    const encoder = this.#gpu.device.createCommandEncoder({ label: `clear ${shard.key}` });
    encoder.clearBuffer(target.buffer);
    this.#gpu.device.queue.submit([encoder.finish()]);
    for (const piece of pieces) writeRange(this.#gpu.device, target.arena, target.buffer, piece.range, piece.values);
    if (!first) this.#add(shard);
  }

  async sumSquares(): Promise<readonly ShardNorm[]> {
    if (!this.#partials || !this.#passes) return [];
    this.#pass(
      'norms',
      this.#shards.flatMap(({ launches }) => launches.norm),
    );
    const runs = this.#shards.map(
      ({ key }): Run => ({ source: this.#buffers.get(`partials/${key}`), at: 0, length: PARTIALS }),
    );
    const reading = await this.#partials.read(runs, this.#passes.proof, ...this.#computed);
    return reading.take((partials) =>
      this.#shards.map(({ work }, index) => {
        let sum = 0;
        for (let i = index * PARTIALS; i < (index + 1) * PARTIALS; i++) sum += at(partials, i);
        return { block: work.block, range: work.range, sumSquares: sum };
      }),
    );
  }

  update({ learningRate, clipScale, time }: UpdateScalars): void {
    if (this.#shards.length === 0) return;
    const { betas, epsilon, weightDecay } = this.#optimizer;
    const scalars = adamwScalars({
      learningRate,
      clipScale,
      beta1: betas[0],
      beta2: betas[1],
      epsilon,
      weightDecay,
      update: time,
    });
    invariant(scalars.length === ADAMW_SCALARS.length, 'scalars have their table');
    this.#gpu.device.queue.writeBuffer(this.#buffers.get('scalars'), 0, scalars);
    this.#pass(
      'update',
      this.#shards.flatMap(({ launches }) => launches.update),
    );
  }

  async readValues(name: BlockName, range: Range): Promise<Reading> {
    const shard = this.#shard(name, range);
    invariant(this.#state && this.#passes, 'no shards here');
    return this.#state.read(runsOf(shard.values.buffer, shard.values.arena, range), this.#passes.proof);
  }

  async packValues(name: BlockName, range: Range): Promise<Reading> {
    const { values, held } = this.#shard(name, range);
    invariant(this.#state && this.#passes && this.#codec && held, `no values of ${name} are sent from here as codes`);
    return this.#state.read([this.#codec.pack(values, held, range)], this.#passes.proof);
  }

  async readState(name: BlockName, range: Range, kinds: readonly StateKind[]): Promise<Float32Array<ArrayBuffer>> {
    const shard = this.#shard(name, range);
    invariant(this.#state && this.#passes, 'no shards here');
    const length = range[1] - range[0];
    const places = kinds.map((kind) => this.#place(shard, kind));
    const state = new Float32Array(places.length * length);
    for (const piece of pieces(range)) {
      const read = places.flatMap((place, kind) =>
        place === null
          ? []
          : segmentsIn(place.arena, piece).map((segment) => ({
              ...{ source: place.buffer, at: segment.at, length: segment.length },
              to: kind * length + segment.from - range[0],
            })),
      );
      const reading = await this.#state.read(read, this.#passes.proof);
      await reading.take((values) => {
        let done = 0;
        for (const run of read) {
          state.set(values.subarray(done, done + run.length), run.to);
          done += run.length;
        }
      });
    }
    return state;
  }

  writeState(name: BlockName, range: Range, kind: StateKind, values: Float32Array): void {
    for (const shard of this.#shards) {
      const part = shard.work.block === name ? overlap(shard.work.range, range) : null;
      if (!part) continue;
      const target = this.#place(shard, kind);
      if (target === null) continue;
      const from = part[0] - range[0];
      const inside = values.subarray(from, from + part[1] - part[0]);
      writeRange(this.#gpu.device, target.arena, target.buffer, part, inside);
      if (kind === 'value' && shard.held)
        writeRange(this.#gpu.device, shard.held.arena, shard.held.buffer, part, inside);
    }
  }

  /** What one update dispatches, for the profile. */
  launches(): { readonly norms: readonly Launch[]; readonly update: readonly Launch[] } {
    return {
      norms: this.#shards.flatMap(({ launches }) => launches.norm),
      update: this.#shards.flatMap(({ launches }) => launches.update),
    };
  }

  close(): void {
    for (const shard of this.#shards) closeLaunches(shard);
    this.#passes?.close();
    this.#codec?.close();
    this.#buffers.close();
  }

  #add(shard: Shard): void {
    invariant(shard.launches.add.length > 0, `${shard.key} has one holder`);
    this.#pass(`add ${shard.key}`, shard.launches.add);
  }

  #pass(label: string, launches: readonly Launch[]): void {
    invariant(this.#passes, 'no shards here');
    this.#passes.submit(label, launches);
  }

  #isFirst({ key }: Shard): boolean {
    if (this.#begun.has(key)) return false;
    this.#begun.add(key);
    return true;
  }

  /** Where the shard's float32 values or moments lie; what has no place is 0. Null: nothing of it has one. */
  #place({ key, moments, values }: Shard, kind: StateKind): Placed | null {
    if (kind === 'value') return values;
    invariant(kind === 'm' || kind === 'v', `the GPU has no ${kind}`);
    const { [kind]: arena } = moments;
    return arena.floats === 0 ? null : { buffer: this.#buffers.get(`${kind}/${key}`), arena };
  }

  #shard(name: BlockName, range: Range): Shard {
    const found = this.#shards.find(
      ({ work }) => work.block === name && work.range[0] <= range[0] && range[1] <= work.range[1],
    );
    invariant(found, `no shard ${name} from ${range[0]} here`);
    return found;
  }
}

const runsOf = (source: GPUBuffer, layout: Arena, range: Range): Run[] =>
  segmentsIn(layout, range).map(({ at, length }) => ({ source, at, length }));
