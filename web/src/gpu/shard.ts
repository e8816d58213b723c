/**
 * One shard that this peer keeps: where its values, moments and the sum of its gradients lie, and what adds,
 * measures and updates them. Where one holder alone is the primary too they lie in the stage's own buffers.
 */
import { addInto } from '../../../shaders/arrays/addInto.ts';
import { inHalves } from '../../../shaders/kernel/inHalves.ts';
import { type BufferSlice, closeLaunch, type Launch } from '../../../shaders/kernel/launch.ts';
import { adamw, adamwShadow } from '../../../shaders/update/adamw.ts';
import { sumSquares } from '../../../shaders/update/sumSquares.ts';
import { dimsOfRun, runParts, type UpdatedTensor, updateRuns } from '../../../shaders/update/updateRuns.ts';
import { got, invariant } from '../../../swarm/base.ts';
import {
  GATHERED_INCOMING,
  hasHeld,
  momentArenas,
  type ShardWork,
  shardBufferKey,
} from '../../../swarm/memory/memory.ts';
import { type Arena, arena, type Segment, segmentsIn } from '../../../swarm/model/layout.ts';
import { type BlockName, block, type Model } from '../../../swarm/model/model.ts';
import type { Compute } from '../../../swarm/precision.ts';
import type { Train } from '../../../swarm/run/runFile.ts';
import type { Stage } from '../executor/engine.ts';
import type { BufferSet } from './buffers.ts';
import type { Gpu } from './device.ts';
import { call, type KernelCall } from './kernelCall.ts';
import { muonCalls, type WholeTensor } from './muonCalls.ts';
import { GpuStage } from './stage.ts';
import type { Placed } from './stateCodec.ts';
import { partElements, parts, windowOf } from './windows.ts';

/** What a shard does, as calls or as launches. */
interface ShardWorks<One> {
  /** Empty where one holder alone makes the gradient. */
  readonly add: readonly One[];
  readonly norm: readonly One[];
  readonly update: readonly One[];
}

export interface Shard {
  readonly work: ShardWork;
  readonly key: string;
  /** Layout of the shard's own buffers: sum and incoming; and of its moments. */
  readonly arena: Arena;
  readonly moments: ReturnType<typeof momentArenas>;
  readonly values: Placed;
  /** What those who are sent its values have of them; null: they are sent none, or not from here. */
  readonly held: Placed | null;
  readonly sum: Placed;
  readonly launches: ShardWorks<Launch>;
}

/** A shard before its pipelines are compiled. */
export interface ShardCalls extends Omit<Shard, 'launches'> {
  readonly calls: ShardWorks<KernelCall>;
}

export function onThisDevice(stage: Stage | undefined): GpuStage {
  invariant(stage instanceof GpuStage, 'a stage of another device');
  return stage;
}

/** Where what is added to a sum comes in. */
export const incomingName = ({ isGathered }: Pick<ShardWork, 'isGathered'>, key: string): string =>
  isGathered ? GATHERED_INCOMING : `incoming/${key}`;

export function closeLaunches({ launches: { add, norm, update } }: Shard): void {
  [...add, ...norm, ...update].forEach(closeLaunch);
}

/** Where the blocks of a stage lie. */
type Home = Pick<GpuStage, 'arena' | 'valuesBuffer' | 'gradientsBuffer'>;

/** What shards are made of; `buffers` are those of all of them. */
export interface ShardParts {
  readonly gpu: Gpu;
  readonly model: Model;
  readonly compute: Compute;
  readonly optimizer: Train['optimizer'];
  readonly buffers: Pick<BufferSet, 'get'>;
  readonly stages: ReadonlyMap<number, Home>;
}

export function shardCalls(from: ShardParts, work: ShardWork): ShardCalls {
  const { gpu, model, compute, optimizer, buffers, stages } = from;
  const key = shardBufferKey(work.block, work.range);
  const own = arena(block(model, work.block), [work.range], compute);
  const inStage = (index: number): Home => got(stages, index);
  const home = work.valuesStage === null ? null : inStage(work.valuesStage);
  const values =
    home && work.master === 'stage' ? valuesOf(home, work.block) : { buffer: buffers.get(`values/${key}`), arena: own };
  const first = work.sumInPlace && work.holders[0] ? inStage(work.holders[0].stage) : null;
  const sum = first
    ? { buffer: first.gradientsBuffer(work.block), arena: first.arena(work.block) }
    : { buffer: buffers.get(`sum/${key}`), arena: own };
  // In place the shard is a whole arena of its stage, so the sum is laid out as the shard's own buffers are.
  const n = own.floats;
  invariant(sum.arena.floats === n, `shard ${key} is added in place but is not the whole of its block`);
  const slice = (
    buffer: GPUBuffer,
    { from, length }: { readonly from: number; readonly length: number },
  ): BufferSlice => ({
    buffer,
    offset: from * 4,
    size: length * 4,
  });
  const shadow = home && work.master === 'own' && compute === 'f16' ? home : null;
  const moments = momentArenas(model, work, compute);
  const placed = { key, own, moments, values, sum, shadow: shadow && valuesOf(shadow, work.block) };
  const update = updateCalls(placed, gpu.bindingBytes, buffers);
  if (optimizer.type === 'muon') {
    const parts = { gpu, buffers, momentum: optimizer.momentum, label: key };
    update.push(...muonCalls(parts, wholeTensors(placed, buffers)));
  }
  const add: KernelCall[] = [];
  const norm: KernelCall[] = [];
  const incoming = work.holders.length > 1 || work.isGathered ? buffers.get(incomingName(work, key)) : null;
  const partials = { buffer: buffers.get(`partials/${key}`) };
  for (const part of parts(n, gpu.bindingBytes)) {
    const acc = slice(sum.buffer, part);
    if (incoming) add.push(call(addInto, { x: slice(incoming, part), acc }, { n: part.length }, key));
    const accumulate = part.from === 0 ? 0 : 1;
    norm.push(call(sumSquares, { x: acc, partials }, { n: part.length, accumulate }, key));
  }
  const held = hasHeld(work)
    ? { buffer: buffers.get(`held/${key}`), arena: own }
    : home && work.isPrimary && work.isCoded
      ? valuesOf(home, work.block)
      : null;
  return { work, key, arena: own, moments, values, held, sum, calls: { add, norm, update } };
}

const valuesOf = (stage: Home, name: BlockName): Placed => ({
  buffer: stage.valuesBuffer(name),
  arena: stage.arena(name),
});

/** Where a shard lies. */
interface PlacedShard extends Pick<Shard, 'key' | 'moments' | 'values' | 'sum'> {
  readonly own: Arena;
  /** The halves of a stage, written beside the master. */
  readonly shadow: Placed | null;
}

function wholeTensors(
  { key, own, moments, values, sum, shadow }: PlacedShard,
  buffers: ShardParts['buffers'],
): WholeTensor[] {
  const begins = ({ buffer, arena: layout }: Placed, segment: Segment) => ({ buffer, at: placeIn(layout, segment) });
  return own.segments
    .filter(({ tensor }) => tensor.matrices !== undefined)
    .map((segment): WholeTensor => {
      const { tensor, length } = segment;
      invariant(length === tensor.elements, `shard ${key} has a part of ${tensor.name}, which is updated whole`);
      const m = begins({ buffer: buffers.get(`m/${key}`), arena: moments.m }, segment);
      return {
        ...{ tensor, m, values: begins(values, segment), sum: begins(sum, segment) },
        shadow: shadow && begins(shadow, segment),
      };
    });
}

/** Of what is updated element by element. */
function updateCalls(
  { key, own, moments, values, shadow, sum }: PlacedShard,
  bindingBytes: number,
  buffers: ShardParts['buffers'],
): KernelCall[] {
  const scalars = { buffer: buffers.get('scalars') };
  const elementwise = own.segments.filter(({ tensor }) => tensor.matrices === undefined);
  const tensors = elementwise.map(
    (segment): UpdatedTensor => ({
      ...{ at: segment.at, length: segment.length, decays: segment.tensor.shape.length >= 2 },
      valuesAt: placeIn(values.arena, segment),
      momentsAt: placeIn(moments.m, segment),
      ...(shadow ? { shadowAt: placeIn(shadow.arena, segment) } : {}),
    }),
  );
  const update: KernelCall[] = [];
  for (const run of updateRuns(tensors).flatMap((whole) => runParts(whole, partElements(bindingBytes)))) {
    const { offset, gradientOffset, momentOffset, shadowOffset = 0, ...dims } = dimsOfRun(run);
    const over = (buffer: GPUBuffer, at: number, elementBytes = 4) =>
      windowOf(buffer, { at, length: run.count }, bindingBytes, elementBytes);
    const [master, grads] = [over(values.buffer, offset), over(sum.buffer, gradientOffset)];
    const [m, v] = [over(buffers.get(`m/${key}`), momentOffset), over(buffers.get(`v/${key}`), momentOffset)];
    const bound = { values: master.slice, grads: grads.slice, m: m.slice, v: v.slice, scalars };
    invariant(m.at === v.at, `moments of ${key} lie alike`);
    const placed = { ...dims, offset: master.at, gradientOffset: grads.at, momentOffset: m.at };
    if (shadow === null) {
      update.push(call(adamw, bound, placed, key));
      continue;
    }
    const half = over(shadow.buffer, shadowOffset, 2);
    const shadowed = { ...placed, shadowOffset: half.at };
    update.push(call(inHalves(adamwShadow), { ...bound, shadow: half.slice }, shadowed, key));
  }
  return update;
}

function placeIn(layout: Arena, { from, length, tensor }: Segment): number {
  const [place] = segmentsIn(layout, [from, from + length]);
  invariant(place?.length === length, `${tensor.name} has no place among the values`);
  return place.at;
}
