/** The executor's engine on a WebGPU device: stages and shards of one model. */
import { PipelineCache } from '../../../shaders/kernel/launch.ts';
import { invariant } from '../../../swarm/base.ts';
import type { Model } from '../../../swarm/model/model.ts';
import { type Compute, computeOf } from '../../../swarm/precision.ts';
import type { Train } from '../../../swarm/run/runFile.ts';
import type { RunWire } from '../../../swarm/wire.ts';
import type { Engine, StageSizes } from '../executor/role.ts';
import { GpuAnswerStage } from './answerStage.ts';
import { canHalve, type Gpu, type OpenDevice } from './device.ts';
import { withHostShards } from './hostShards.ts';
import { createShards } from './shards.ts';
import { createStage, GpuStage } from './stage.ts';
import type { StagePlan } from './stageCalls.ts';
import { warm } from './warm.ts';

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

/**
 * `asked`: the precision that the run asks for, which this device may not have. `evaluates`: whether the run has held-out
 * text.
 */
export function gpuEngine(
  gpu: Gpu,
  model: Model,
  { globalBatchSize: globalBatch, optimizer }: Train,
  wire: RunWire = 'f32',
  asked: Compute = 'f32',
  evaluates = true,
): Engine {
  const compute = computeOf(asked, canHalve(gpu.device, gpu.family));
  const planOf = ({ size, sizes }: StageSizes): StagePlan => ({
    ...{ size, sizes, globalBatch, evaluates },
    isScaled: asked === 'f16',
  });
  return {
    wire,
    asked,
    compute,
    stage: (size, sizes) => createStage(gpu, model, planOf({ size, sizes })),
    warm: (plan, peer, stages) => {
      const plans = new Map(Array.from(stages, ([index, sizes]) => [index, planOf(sizes)]));
      return warm({ gpu, model, compute, optimizer }, plan, peer, plans);
    },
    answers: (stage, size) => {
      invariant(stage instanceof GpuStage, 'a stage of this device');
      return GpuAnswerStage.create(gpu, model, stage, { ...size, compute });
    },
    shards: async (plan, peer, stages) =>
      withHostShards(await createShards(gpu, model, optimizer, compute, plan, peer, stages), {
        ...{ model, optimizer, compute, plan, peer, stages },
      }),
  };
}
