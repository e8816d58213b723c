/** Opens the GPU: the adapter, the device with the limits and features that the kernels want, and what to call it. */

import { requiredLimits, WANTED_FEATURES } from '../../../shaders/deviceLimits.ts';
import { adapterFamily, type GpuClass, gpuClassOf } from '../../../shaders/family/adapterFamily.ts';
import { type MatrixUnit, matrixUnits } from '../../../shaders/family/matrixUnit.ts';
import { allowImmediates } from '../../../shaders/kernel/dims.ts';
import type { AdapterFamily } from '../../../shaders/kernel/kernel.ts';
import type { PipelineCache } from '../../../shaders/kernel/launch.ts';
import { measureEmptyWait } from '../../../shaders/kernel/queueWait.ts';
import { type Result, refusal, success } from '../../../swarm/base.ts';
import type { AdapterProfile } from '../../../swarm/messages/profile.ts';
import type { Compute } from '../../../swarm/precision.ts';

export interface OpenDevice {
  readonly device: GPUDevice;
  readonly family: AdapterFamily;
  /** What it multiplies matrices with; hardly a browser says so yet. */
  readonly units: readonly MatrixUnit[];
  /** What its invocations have registers for; absent: the usual. */
  readonly gpuClass?: GpuClass;
  readonly profile: AdapterProfile;
}

/** What stages and shards are made on. Pipelines outlive plans: a cache for each device. */
export interface Gpu {
  readonly device: GPUDevice;
  readonly family: AdapterFamily;
  /** What the adapter offers; and what of it is used, which the check of a run decides (examination.ts). */
  readonly offeredUnits: readonly MatrixUnit[];
  units: readonly MatrixUnit[];
  readonly gpuClass?: GpuClass | undefined;
  /** What it binds of a buffer at once. */
  readonly bindingBytes: number;
  readonly pipelines: PipelineCache;
}

const SOFTWARE = /swiftshader|llvmpipe|lavapipe|software|basic render/i;

/** Right after a GPU process ended, or while another GPU is switched on, a browser may have no adapter for a moment. */
const ADAPTER_TRIES = 3;
const ADAPTER_PAUSE_SECONDS = 0.5;

/** What the thread has that opens it. */
interface Clock {
  /** Seconds. */
  readonly now: () => number;
  readonly wait: (seconds: number) => Promise<void>;
}

/** Null where there is none for good. The last time it is asked for any: some have no faster one to give. */
async function adapterOf(gpu: GPU, { wait }: Clock): Promise<GPUAdapter | null> {
  for (let left = ADAPTER_TRIES - 1; left > 0; left--) {
    const adapter = await gpu.requestAdapter({ powerPreference: 'high-performance' });
    if (adapter) return adapter;
    await wait(ADAPTER_PAUSE_SECONDS);
  }
  return gpu.requestAdapter();
}

export async function openDevice(gpu: GPU | undefined, browser: string, clock: Clock): Promise<Result<OpenDevice>> {
  if (!gpu) return refusal('This browser has no WebGPU: try a current Chrome, Edge, Firefox or Safari.');
  const adapter = await adapterOf(gpu, clock);
  if (!adapter) {
    return refusal(
      'The browser offers no GPU adapter: look at its page about the GPU (chrome://gpu, about:support), and whether hardware acceleration is on.',
    );
  }
  const limits = requiredLimits(adapter.limits);
  if (!limits.ok) return limits;
  const device = await adapter.requestDevice({
    label: 'shoal',
    requiredFeatures: WANTED_FEATURES.filter((feature) => adapter.features.has(feature)),
    requiredLimits: limits.value,
  });
  allowImmediates(device, gpu);
  await measureEmptyWait(device, clock.now);
  const family = adapterFamily(adapter.info, device.features);
  return success({
    device,
    family,
    units: matrixUnits(adapter.info, device.features),
    gpuClass: gpuClassOf(adapter.info),
    profile: { ...adapterProfile(adapter.info, browser), ...(canHalve(device, family) ? { halves: true } : {}) },
  });
}

/** Whether it can compute with halves. The kernels for software adapters are not written for them: SwiftShader has none. */
export const canHalve = ({ features }: GPUDevice, family: AdapterFamily): boolean =>
  family === 'gpu' && features.has('shader-f16');

/** A device to measure on, where it computes as is asked. */
export function measurable(opened: Result<OpenDevice>, compute: Compute): Result<OpenDevice> {
  const lacksHalves = opened.ok && compute === 'f16' && !canHalve(opened.value.device, opened.value.family);
  return lacksHalves ? refusal('this adapter has no shader-f16: only f32 can be measured here') : opened;
}

/** What others are told of an adapter. */
export function adapterProfile(info: GPUAdapterInfo, browser: string): AdapterProfile {
  const described = `${info.vendor} ${info.architecture} ${info.description} ${info.device}`;
  return {
    vendor: info.vendor.slice(0, 200),
    architecture: info.architecture.slice(0, 200),
    description: info.description.slice(0, 200),
    software: SOFTWARE.test(described) || info.isFallbackAdapter === true,
    browser: browser.slice(0, 200),
  };
}
