/**
 * The benchmarks' device where no browser is wanted: Dawn for Node. It is given back with nothing left in its queue: a
 * process that exits while SwiftShader's threads compute dies of what they then touch.
 */

import { Option } from 'commander';
import { queueDone } from '../../shaders/kernel/queueWait.ts';
import { type DawnDriver, dawnDevice } from '../../shaders/testing/dawn.ts';
import { type Result, success } from '../../swarm/base.ts';
import type { AdapterProfile } from '../../swarm/messages/profile.ts';
import { COMPUTE_PRECISIONS, type Compute } from '../../swarm/precision.ts';
import { adapterProfile, measurable, type OpenDevice } from '../../web/src/gpu/device.ts';
import { failed, need } from '../commands/failure.ts';
import { unlessLost } from './page/unlessLost.ts';

/** `browser`: headless; `dawn`: Dawn for Node on a software adapter; `gpu`: Dawn on what Vulkan, Metal or D3D12 finds. */
const ADAPTERS = ['browser', 'dawn', 'gpu'] as const;
export type BenchAdapter = (typeof ADAPTERS)[number];
export type DawnAdapter = Exclude<BenchAdapter, 'browser'>;

export const adapterOption = (): Option =>
  new Option('--adapter <name>', 'a headless browser, or Dawn for Node: on a software adapter, on the GPU')
    .choices(ADAPTERS)
    .default('browser');

export const computeOption = (): Option =>
  new Option('--compute <name>', 'f16: activations and weights as halves, where the adapter has shader-f16')
    .choices(COMPUTE_PRECISIONS)
    .default('f32');

const driverOf = (adapter: DawnAdapter): DawnDriver => (adapter === 'gpu' ? 'system' : 'software');

export async function inDawn<T>(
  adapter: DawnAdapter,
  compute: Compute,
  work: (opened: OpenDevice) => Promise<T>,
  features: readonly string[] = [],
): Promise<T> {
  const opened = measurable(await openDawn(driverOf(adapter), features), compute);
  if (!opened.ok) throw failed(opened.reason);
  const { device, profile } = opened.value;
  try {
    const problem = softwareProblem(adapter, profile);
    if (problem !== null) throw failed(problem);
    return need(await unlessLost(device, () => work(opened.value)), failed);
  } finally {
    await queueDone(device).catch(() => {}); // a lost device has no work left
    device.destroy();
  }
}

/** Why this is not what was asked for, or null: what a GPU does in a second takes a CPU hours. */
export function softwareProblem(adapter: DawnAdapter, { software, description }: AdapterProfile): string | null {
  return adapter === 'gpu' && software
    ? `there is no GPU here, only a software adapter (${description}): --adapter dawn measures it`
    : null;
}

async function openDawn(driver: DawnDriver, features: readonly string[]): Promise<Result<OpenDevice>> {
  const opened = await dawnDevice(driver, features);
  if (!opened.ok) return opened;
  const { device, family, units, gpuClass, info } = opened.value;
  return success({ device, family, units, gpuClass, profile: adapterProfile(info, `Node ${process.version}, Dawn`) });
}
