/** The executor's engine on a WebGPU device: stages and shards of one model. */
import { PipelineCache } from '../../../shaders/kernel/launch.ts';
import { invariant } from '../../../swarm/base.ts';
import type { Model } from '../../../swarm/model/model.ts';
import { program } from '../../../swarm/model/program.ts';
import { type Compute, computeOf } from '../../../swarm/precision.ts';
import type { Train } from '../../../swarm/run/runFile.ts';
import type { RunWire } from '../../../swarm/wire.ts';
import type { Engine } from '../executor/role.ts';
import { GpuAnswerStage } from './answerStage.ts';
import { pipelinesOf } from './compile.ts';
import { canHalve, type Gpu, type OpenDevice } from './device.ts';
import { withHostShards } from './hostShards.ts';
import { createShards } from './shards.ts';
import { createStage, GpuStage } from './stage.ts';
import { arenasOf, type StagePlan, stageCalls, standingPartsOf } from './stageCalls.ts';

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

/** Ahead of a stage: compiles its pipelines, which takes long and needs no memory. They are kept; no buffer is made. */
export async function warmStage(gpu: Gpu, model: Model, plan: StagePlan): Promise<void> {
  const { layers, compute = 'f32' } = plan.size;
  const arenas = arenasOf(model, plan);
  const parts = {
    model,
    plan,
    compute,
    gpu,
    program: program(model, layers, plan.size),
    buffers: NO_BUFFERS,
    arenas,
    standing: standingPartsOf(model, plan),
  };
  await pipelinesOf(gpu, compute, stageCalls(parts));
}

/** Calls name their buffers; nothing is bound where only their pipelines are wanted. */
const NO_BUFFERS = { get: () => ({}) as GPUBuffer };
