/**
 * Every pipeline that a role's steps run, asked for at once and ahead of the role: compiling takes long and needs no
 * memory. What the first forwards run comes first. Pipelines are kept (`Gpu.pipelines`), so whatever is made afterwards finds
 * its own; no buffer is made.
 */
import { countPass } from '../../../shaders/arrays/countPass.ts';
import { got, type PeerId } from '../../../swarm/base.ts';
import type { Arena } from '../../../swarm/model/layout.ts';
import type { BlockName } from '../../../swarm/model/model.ts';
import { program } from '../../../swarm/model/program.ts';
import type { Plan } from '../../../swarm/plan/plan.ts';
import { compiledCalls, everyCall } from './compile.ts';
import { WRITES_HALVES } from './halves.ts';
import type { KernelCall } from './kernelCall.ts';
import type { ShardParts } from './shard.ts';
import { everyShardCall } from './shards.ts';
import { arenasOf, type StagePlan, stageCalls, standingPartsOf } from './stageCalls.ts';
import { SUM_CODES } from './stateCodec.ts';

/** Calls name their buffers; nothing is bound where only their pipelines are wanted. */
const NO_BUFFER = { size: 0 } as GPUBuffer;
const NO_BUFFERS = { get: () => NO_BUFFER };

const homeOf = (arenas: ReadonlyMap<BlockName, Arena>) => ({
  arena: (name: BlockName) => got(arenas, name),
  valuesBuffer: () => NO_BUFFER,
  gradientsBuffer: () => NO_BUFFER,
});

/** `stages`: those of this peer. Rejects with the first that does not compile. */
export async function warm(
  parts: Omit<ShardParts, 'stages' | 'buffers'>,
  plan: Plan,
  peer: PeerId,
  stages: ReadonlyMap<number, StagePlan>,
): Promise<void> {
  const { gpu, model, compute } = parts;
  const slots = Array.from(stages.values(), (stage) => {
    const own = { program: program(model, stage.size.layers, stage.size), arenas: arenasOf(model, stage) };
    const standing = standingPartsOf(model, stage);
    return stageCalls({ model, plan: stage, compute, gpu, ...own, buffers: NO_BUFFERS, standing });
  });
  const homes = Array.from(stages, ([index, stage]) => [index, homeOf(arenasOf(model, stage))] as const);
  const isCoded = Array.from(stages.values()).some(({ size }) => size.stateWire);
  const others: readonly KernelCall[] = [
    { kernel: countPass, dims: {}, buffers: {}, label: 'pass' },
    ...(compute === 'f16' ? [WRITES_HALVES] : []),
    ...(isCoded ? SUM_CODES : []),
    ...everyShardCall({ ...parts, buffers: NO_BUFFERS, stages: new Map(homes) }, plan, peer),
  ];
  await Promise.all([
    compiledCalls(gpu, compute, everyCall(slots.flatMap((own) => [...own.values()]))),
    compiledCalls(gpu, null, others),
  ]);
}
