/** The benchmarks' device where no browser is wanted: Dawn for Node. */
import { Option } from 'commander';
import { type DawnDriver, dawnDevice } from '../../shaders/dawn.ts';
import { type Result, success } from '../../swarm/base.ts';
import { COMPUTE_PRECISIONS } from '../../swarm/precision.ts';
import { adapterProfile, type OpenDevice } from '../../web/src/gpu/device.ts';

/** `browser`: headless; `dawn`: Dawn for Node on a software adapter; `gpu`: Dawn on what Vulkan, Metal or D3D12 finds. */
const ADAPTERS = ['browser', 'dawn', 'gpu'] as const;
export type BenchAdapter = (typeof ADAPTERS)[number];

export const adapterOption = (): Option =>
  new Option('--adapter <name>', 'a headless browser, or Dawn for Node: on a software adapter, on the GPU')
    .choices(ADAPTERS)
    .default('browser');

export const computeOption = (): Option =>
  new Option('--compute <name>', 'f16: activations and weights as halves, where the adapter has shader-f16')
    .choices(COMPUTE_PRECISIONS)
    .default('f32');

export const driverOf = (adapter: Exclude<BenchAdapter, 'browser'>): DawnDriver =>
  adapter === 'gpu' ? 'system' : 'software';

export async function openDawn(driver: DawnDriver): Promise<Result<OpenDevice>> {
  const opened = await dawnDevice(driver);
  if (!opened.ok) return opened;
  const { device, family, units, info } = opened.value;
  return success({ device, family, units, profile: adapterProfile(info, `Node ${process.version}, Dawn`) });
}
