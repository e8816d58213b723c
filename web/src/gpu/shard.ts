/**
 * One shard that this peer keeps: where its values, moments and the sum of its gradients lie, and what adds,
 * measures and updates them. Where one holder alone is the primary too they lie in the stage's own buffers.
 */
import { addInto } from '../../../shaders/arrays/addInto.ts';
import { inHalves } from '../../../shaders/kernel/inHalves.ts';
import type { Dims, Kernel } from '../../../shaders/kernel/kernel.ts';
import { type BufferSlice, closeLaunch, createLaunch, type Launch } from '../../../shaders/kernel/launch.ts';
import { chooseLaunch } from '../../../shaders/kernel/watchdog.ts';
import { adamw, adamwShadow } from '../../../shaders/update/adamw.ts';
import { sumSquares } from '../../../shaders/update/sumSquares.ts';
import { dimsOfRun, runParts, type UpdatedTensor, updateRuns } from '../../../shaders/update/updateRuns.ts';
import { invariant } from '../../../swarm/base.ts';
import { GATHERED_INCOMING, hasHeld, type ShardWork, shardBufferKey } from '../../../swarm/memory/memory.ts';
import { type Arena, arena, type Segment, segmentsIn } from '../../../swarm/model/layout.ts';
import { type BlockName, block, type Model } from '../../../swarm/model/model.ts';
import type { Compute } from '../../../swarm/precision.ts';
import type { Stage } from '../executor/engine.ts';
import { type BufferSet, created } from './buffers.ts';
import type { Gpu } from './device.ts';
import { GpuStage } from './stage.ts';
import type { Placed } from './stateCodec.ts';
import { partElements, parts, windowOf } from './windows.ts';

export interface Shard {
  readonly work: ShardWork;
  readonly key: string;
  /** Layout of the shard's own buffers: m, v, sum, incoming. */
  readonly arena: Arena;
  readonly values: Placed;
  /** What those who are sent its values have of them; null: they are sent none, or not from here. */
  readonly held: Placed | null;
  readonly sum: Placed;
  /** `add` is empty where one holder alone makes the gradient. */
  readonly launches: {
    readonly add: readonly Launch[];
    readonly norm: readonly Launch[];
    readonly update: readonly Launch[];
  };
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

/** What shards are made of; `buffers` are those of all of them. */
interface ShardParts {
  readonly gpu: Gpu;
  readonly model: Model;
  readonly compute: Compute;
  readonly buffers: BufferSet;
  readonly stages: ReadonlyMap<number, Stage>;
}

export async function createShard(from: ShardParts, work: ShardWork): Promise<Shard> {
  const { gpu, model, compute, buffers, stages } = from;
  const key = shardBufferKey(work.block, work.range);
  const own = arena(block(model, work.block), [work.range], compute);
  const inStage = (index: number): GpuStage => onThisDevice(stages.get(index));
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
  const launch: MakeLaunch = async (kernel, slices, dims) => {
    const choice = chooseLaunch(gpu.device, gpu.family, kernel, dims);
    const pipeline = await gpu.pipelines.get(kernel, dims, choice.variant);
    const request = { device: gpu.device, pipeline, kernel, ...choice, buffers: slices, dims, label: key };
    return created(gpu.device, `shard ${key}`, () => createLaunch(request));
  };
  const slice = (
    buffer: GPUBuffer,
    { from, length }: { readonly from: number; readonly length: number },
  ): BufferSlice => ({
    buffer,
    offset: from * 4,
    size: length * 4,
  });
  const shadow = home && work.master === 'own' && compute === 'f16' ? home : null;
  const update = await updateLaunches(
    { key, own, values, sum },
    gpu.bindingBytes,
    buffers,
    shadow && valuesOf(shadow, work.block),
    launch,
  );
  const add: Launch[] = [];
  const norm: Launch[] = [];
  const incoming = work.holders.length > 1 || work.isGathered ? buffers.get(incomingName(work, key)) : null;
  const partials = { buffer: buffers.get(`partials/${key}`) };
  for (const part of parts(n, gpu.bindingBytes)) {
    const acc = slice(sum.buffer, part);
    if (incoming) add.push(await launch(addInto, { x: slice(incoming, part), acc }, { n: part.length }));
    const accumulate = part.from === 0 ? 0 : 1;
    norm.push(await launch(sumSquares, { x: acc, partials }, { n: part.length, accumulate }));
  }
  const held = hasHeld(work)
    ? { buffer: buffers.get(`held/${key}`), arena: own }
    : home && work.isPrimary && work.isCoded
      ? valuesOf(home, work.block)
      : null;
  return { work, key, arena: own, values, held, sum, launches: { add, norm, update } };
}

const valuesOf = (stage: GpuStage, name: BlockName): Placed => ({
  buffer: stage.valuesBuffer(name),
  arena: stage.arena(name),
});

type MakeLaunch = (kernel: Kernel, slices: Record<string, BufferSlice>, dims: Dims) => Promise<Launch>;

/** `shadow`: the halves of a stage, written beside the master. */
async function updateLaunches(
  {
    key,
    own,
    values,
    sum,
  }: { readonly key: string; readonly own: Arena; readonly values: Placed; readonly sum: Placed },
  bindingBytes: number,
  buffers: BufferSet,
  shadow: Placed | null,
  launch: MakeLaunch,
): Promise<Launch[]> {
  const scalars = { buffer: buffers.get('scalars') };
  const tensors = own.segments.map(
    (segment): UpdatedTensor => ({
      ...{ at: segment.at, length: segment.length, decays: segment.tensor.shape.length >= 2 },
      valuesAt: placeIn(values.arena, segment),
      ...(shadow ? { shadowAt: placeIn(shadow.arena, segment) } : {}),
    }),
  );
  const update: Launch[] = [];
  for (const run of updateRuns(tensors).flatMap((whole) => runParts(whole, partElements(bindingBytes)))) {
    const { offset, gradientOffset, momentOffset, shadowOffset = 0, ...dims } = dimsOfRun(run);
    const over = (buffer: GPUBuffer, at: number, elementBytes = 4) =>
      windowOf(buffer, { at, length: run.count }, bindingBytes, elementBytes);
    const [master, grads] = [over(values.buffer, offset), over(sum.buffer, gradientOffset)];
    const [m, v] = [over(buffers.get(`m/${key}`), momentOffset), over(buffers.get(`v/${key}`), momentOffset)];
    const bound = { values: master.slice, grads: grads.slice, m: m.slice, v: v.slice, scalars };
    const placed = { ...dims, offset: master.at, gradientOffset: grads.at, momentOffset: m.at };
    if (shadow === null) {
      update.push(await launch(adamw, bound, placed));
      continue;
    }
    const half = over(shadow.buffer, shadowOffset, 2);
    const shadowed = { ...placed, shadowOffset: half.at };
    update.push(await launch(inHalves(adamwShadow), { ...bound, shadow: half.slice }, shadowed));
  }
  return update;
}

function placeIn(layout: Arena, { from, length, tensor }: Segment): number {
  const [place] = segmentsIn(layout, [from, from + length]);
  invariant(place?.length === length, `${tensor.name} has no place among the values`);
  return place.at;
}
