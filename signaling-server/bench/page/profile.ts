/**
 * The profile of a step: each of its launches in a pass of its own, between two timestamps; by kernel, or by kernel and shape
 * with what each reaches.
 */

import type { Dims } from '../../../shaders/kernel/kernel.ts';
import { encodeLaunch, type Launch } from '../../../shaders/kernel/launch.ts';
import { mapped } from '../../../shaders/kernel/queueWait.ts';
import { at, invariant, totalOf } from '../../../swarm/base.ts';
import { GpuShards } from '../../../web/src/gpu/shards.ts';
import { GpuStage } from '../../../web/src/gpu/stage.ts';
import type { Solo } from '../../../web/src/testing/solo.ts';

/** Of one query set, by the standard. */
const QUERIES_LIMIT = 4096;

export interface KernelTime {
  readonly name: string;
  readonly calls: number;
  readonly ms: number;
}

export interface ShapeTime extends KernelTime {
  readonly dims: Dims;
  /** Of the whole profile. */
  readonly share: number;
  /** Null where the dims do not say it: a table's length is no dim of the kernels that read it. */
  readonly gflops: number | null;
  readonly gigabytesPerSecond: number | null;
}

/** One step's launches, each timed by itself on the GPU; summed by kernel, longest first. */
export async function profile(device: GPUDevice, solo: Solo): Promise<KernelTime[]> {
  const sums = new Map<string, KernelTime>();
  for (const [{ kernel }, ms] of await timedLaunches(device, solo)) {
    const { name } = kernel;
    const known = sums.get(name) ?? { name, calls: 0, ms: 0 };
    sums.set(name, { name, calls: known.calls + 1, ms: known.ms + ms });
  }
  return [...sums.values()].sort((a, b) => b.ms - a.ms);
}

/** The same by kernel and shape. */
export async function profileByShape(device: GPUDevice, solo: Solo): Promise<ShapeTime[]> {
  const launches = await timedLaunches(device, solo);
  const total = totalOf(launches, ([, ms]) => ms);
  const found = new Map<string, { launch: Launch; dims: Dims; calls: number; ms: number }>();
  for (const [launch, ms] of launches) {
    const dims = shapeOf(launch);
    const key = `${launch.kernel.name} ${JSON.stringify(dims)}`;
    const known = found.get(key) ?? { launch, dims, calls: 0, ms: 0 };
    found.set(key, { ...known, calls: known.calls + 1, ms: known.ms + ms });
  }
  return Array.from(found.values(), ({ launch: { kernel, dims: made }, dims, calls, ms }): ShapeTime => {
    const { flops, bytes } = kernel.cost(made);
    const rate = (work: number): number | null => (Number.isFinite(work) && ms > 0 ? (work * calls) / ms / 1e6 : null);
    const rates = { gflops: rate(flops), gigabytesPerSecond: rate(bytes) };
    return { name: kernel.name, dims, calls, ms, share: ms / total, ...rates };
  }).sort((a, b) => b.ms - a.ms);
}

/** Whole numbers: what else is a dim varies from launch to launch of one shape, or from step to step. */
const shapeOf = ({ kernel, dims }: Launch): Dims =>
  Object.fromEntries(
    kernel.dims.flatMap(({ name, type }) =>
      type === 'u32' && /^[A-Z]$|^count$/.test(name) ? [[name, dims[name] ?? 0]] : [],
    ),
  );

async function timedLaunches(device: GPUDevice, solo: Solo): Promise<[Launch, number][]> {
  const launches: Launch[] = [];
  for (const stage of solo.role.stages.values()) {
    invariant(stage instanceof GpuStage, 'a stage on a GPU');
    for (const { id } of solo.role.plan.microBatches) {
      const { forward, recompute, backward } = stage.launchesOf(id);
      launches.push(...forward, ...recompute, ...backward);
    }
  }
  invariant(solo.role.shards instanceof GpuShards, 'shards on a GPU');
  const { norms, update } = solo.role.shards.launches();
  launches.push(...norms, ...update);

  const timed: [Launch, number][] = [];
  for (let from = 0; from < launches.length; from += QUERIES_LIMIT / 2) {
    const part = launches.slice(from, from + QUERIES_LIMIT / 2);
    const times = await timesOf(device, part);
    part.forEach((launch, index) => {
      timed.push([launch, at(times, index)]);
    });
  }
  return timed;
}

/** Milliseconds of each launch, in a pass of its own. */
export async function timesOf(device: GPUDevice, launches: readonly Launch[]): Promise<number[]> {
  const count = launches.length * 2;
  const querySet = device.createQuerySet({ type: 'timestamp', count });
  const resolved = device.createBuffer({
    label: 'profile',
    size: count * 8,
    usage: GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC,
  });
  const readback = device.createBuffer({
    label: 'profile readback',
    size: count * 8,
    usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
  });
  const encoder = device.createCommandEncoder({ label: 'profile' });
  launches.forEach((launch, index) => {
    const pass = encoder.beginComputePass({
      timestampWrites: { querySet, beginningOfPassWriteIndex: index * 2, endOfPassWriteIndex: index * 2 + 1 },
    });
    encodeLaunch(pass, launch);
    pass.end();
  });
  encoder.resolveQuerySet(querySet, 0, count, resolved, 0);
  encoder.copyBufferToBuffer(resolved, 0, readback, 0, count * 8);
  device.queue.submit([encoder.finish()]);
  await mapped(device, readback);
  const stamps = new BigUint64Array(readback.getMappedRange().slice(0));
  const times = launches.map((_, index) => Number(at(stamps, index * 2 + 1) - at(stamps, index * 2)) / 1e6);
  for (const buffer of [resolved, readback]) buffer.destroy();
  querySet.destroy();
  return times;
}
