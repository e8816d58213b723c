/**
 * How fast this GPU updates state: AdamW, as a shard has it done, over more elements than a launch costs. So what lies in main
 * memory can be cut where both end together.
 */
import { closeLaunch, createLaunch, encodeLaunch } from '../../../shaders/kernel/launch.ts';
import { emptyWaitOf, queueDone } from '../../../shaders/kernel/queueWait.ts';
import { chooseLaunch } from '../../../shaders/kernel/watchdog.ts';
import { ADAMW_SCALARS, adamw } from '../../../shaders/update/adamw.ts';
import { decayDims } from '../../../shaders/update/updateRuns.ts';
import { NoRoom, storage } from '../../../swarm/memory/bufferSpec.ts';
import { FLOAT_BYTES } from '../../../swarm/plan/stateKinds.ts';
import { BufferSet, created } from './buffers.ts';
import type { Gpu } from './device.ts';
import { timePasses } from './layerTime.ts';
import { TIMED_SCALARS } from './mainMemorySpeed.ts';

/** Values, moments and sums take 16 MiB. */
const ELEMENTS = 2 ** 20;
const ARRAYS = ['values', 'grads', 'm', 'v'] as const;

/** Seconds of an element; `now` in seconds. Null: there is no room for it within these bytes. */
export async function updateSpeed(
  { device, family, pipelines }: Pick<Gpu, 'device' | 'family' | 'pipelines'>,
  memoryBytes: number | null,
  now: () => number,
): Promise<number | null> {
  if (memoryBytes !== null && ARRAYS.length * ELEMENTS * FLOAT_BYTES > memoryBytes) return null;
  const specs = [...ARRAYS.map((name) => storage(name, ELEMENTS)), storage('scalars', ADAMW_SCALARS.length)];
  try {
    const buffers = await created(device, 'a try of updates', () => new BufferSet(device, 'a try of updates', specs));
    device.queue.writeBuffer(buffers.get('scalars'), 0, TIMED_SCALARS);
    const places = { offset: 0, count: ELEMENTS, gradientOffset: 0, momentOffset: 0 };
    const dims = { ...places, ...decayDims([[0, ELEMENTS]]) };
    const choice = chooseLaunch(device, family, adamw, dims);
    const pipeline = await pipelines.get(adamw, dims, choice.variant);
    const bound = Object.fromEntries(specs.map(({ name }) => [name, { buffer: buffers.get(name) }]));
    const launch = createLaunch({ device, pipeline, kernel: adamw, ...choice, buffers: bound, dims, label: 'a try' });
    const update = (): void => {
      const encoder = device.createCommandEncoder({ label: 'a try of updates' });
      const pass = encoder.beginComputePass();
      encodeLaunch(pass, launch);
      pass.end();
      device.queue.submit([encoder.finish()]);
    };
    const work = { forward: update, backward: () => undefined, settled: () => queueDone(device) };
    const { forwardSeconds } = await timePasses(work, emptyWaitOf(device), now);
    closeLaunch(launch);
    buffers.close();
    return forwardSeconds / ELEMENTS;
  } catch (error) {
    if (!(error instanceof NoRoom)) throw error;
    return null;
  }
}
