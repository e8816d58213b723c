/** The executor's engine on a WebGPU device: stages and shards of one model. */
import { PipelineCache } from '../../../shaders/launch.ts';
import type { Model } from '../../../swarm/model.ts';
import type { Train } from '../../../swarm/runFile.ts';
import type { WireEncoding } from '../../../swarm/wire.ts';
import type { Engine } from '../executor/role.ts';
import type { OpenDevice } from './device.ts';
import { createShards } from './shards.ts';
import { createStage, type Gpu } from './stage.ts';

/** Pipelines outlive plans: a cache for each device. */
export const gpuOf = ({ device, family }: Pick<OpenDevice, 'device' | 'family'>): Gpu => ({
  device,
  family,
  pipelines: new PipelineCache(device),
});

export const gpuEngine = (gpu: Gpu, model: Model, train: Train, wire: WireEncoding = 'f32'): Engine => ({
  wire,
  stage: (size, slotOf, sizes) => createStage(gpu, model, { size, slotOf, sizes, globalBatch: train.globalBatchSize }),
  shards: (plan, peer, stages) => createShards(gpu, model, train, plan, peer, stages),
});
