/** The executor's engine on a WebGPU device: stages and shards of one model. */
import { PipelineCache } from '../../../shaders/kernel/launch.ts';
import type { Model } from '../../../swarm/model/model.ts';
import { type Compute, computeOf } from '../../../swarm/precision.ts';
import type { Train } from '../../../swarm/run/runFile.ts';
import type { RunWire } from '../../../swarm/wire.ts';
import type { Engine } from '../executor/role.ts';
import { canHalve, type Gpu, type OpenDevice } from './device.ts';
import { withHostShards } from './hostShards.ts';
import { createShards } from './shards.ts';
import { createStage } from './stage.ts';
import { warmStage } from './warmStage.ts';

/** No units: the plain kernels; no class: the usual one. */
type OpenedGpu = Pick<OpenDevice, 'device' | 'family'> &
  Partial<Pick<OpenDevice, 'units' | 'gpuClass'> & Pick<Gpu, 'bindingBytes'>>;

export const gpuOf = ({ device, family, units = [], gpuClass, bindingBytes }: OpenedGpu): Gpu => ({
  device,
  family,
  offeredUnits: units,
  units,
  gpuClass,
  bindingBytes: bindingBytes ?? device.limits.maxStorageBufferBindingSize,
  pipelines: new PipelineCache(device),
});

/** `asked`: the precision that the run asks for, which this device may not have. */
export function gpuEngine(
  gpu: Gpu,
  model: Model,
  { globalBatchSize: globalBatch, optimizer }: Train,
  wire: RunWire = 'f32',
  asked: Compute = 'f32',
): Engine {
  const compute = computeOf(asked, canHalve(gpu.device, gpu.family));
  return {
    wire,
    asked,
    compute,
    stage: (size, sizes) => createStage(gpu, model, { size, sizes, globalBatch, isScaled: asked === 'f16' }),
    warm: (size, sizes) => warmStage(gpu, model, { size, sizes, globalBatch, isScaled: asked === 'f16' }),
    shards: async (plan, peer, stages) =>
      withHostShards(await createShards(gpu, model, optimizer, compute, plan, peer, stages), {
        ...{ model, optimizer, compute, plan, peer, stages },
      }),
  };
}
