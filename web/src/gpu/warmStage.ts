/** Ahead of a stage: what takes long of making it, and needs no memory. */
import type { Model } from '../../../swarm/model/model.ts';
import { program } from '../../../swarm/model/program.ts';
import { pipelinesOf } from './compile.ts';
import type { Gpu } from './device.ts';
import { arenasOf, type StagePlan, stageCalls } from './stageCalls.ts';

/** Compiles the pipelines of such a stage, which are kept; no buffer is made. */
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
  };
  await pipelinesOf(gpu, compute, stageCalls(parts));
}

/** Calls name their buffers; nothing is bound where only their pipelines are wanted. */
const NO_BUFFERS = { get: () => ({}) as GPUBuffer };
