/**
 * How new values get from the primaries to the holders: what is cut into which parts, and who sends and awaits them.
 * Both ends derive the same parts from the plan.
 */
import { invariant, type PeerId } from '../../../swarm/base.ts';
import type { TensorKey } from '../../../swarm/frame.ts';
import { slices } from '../../../swarm/layout.ts';
import type { Model } from '../../../swarm/model.ts';
import type { Reading } from './engine.ts';
import type { Role, Surroundings } from './execute.ts';

export const blockIndex = (model: Model, name: string): number =>
  model.blocks.findIndex((block) => block.name === name);

/** The parts of a primary's values that another place needs: holders elsewhere, and its own other stages. */
export function valueParts({ peer, kept, uses }: Role) {
  return kept.flatMap(({ block, range, holders, valuesStage }) =>
    holders
      .filter((holder) => holder.peer !== peer || holder.stage !== valuesStage)
      .flatMap((holder) => {
        const use = uses.get(holder.stage)?.find((candidate) => candidate.block === block);
        invariant(use, `stage ${holder.stage} does not use ${block}`);
        return slices(use, range).map((part) => ({ block, holder, part }));
      }),
  );
}

/** A primary's values on their way to the holders elsewhere (and to its own other stages, copied). */
export async function sendValues(
  role: Role,
  step: number,
  send: (to: PeerId, key: TensorKey, reading: Reading) => void,
): Promise<void> {
  const { model, peer, epoch, shards, stages } = role;
  for (const { block, holder, part } of valueParts(role)) {
    const reading = await shards.readValues(block, part);
    const own = holder.peer === peer ? stages.get(holder.stage) : undefined;
    if (own) await reading.take((values) => own.writeValues(block, part, values));
    else {
      const index = blockIndex(model, block);
      send(holder.peer, { kind: 'values', epoch, step, stage: holder.stage, index, range: part }, reading);
    }
  }
}

/** Waits for the values of a stage's blocks that others are primaries of. */
export async function gatherValues(
  { model, plan, peer, epoch, stages, uses }: Role,
  index: number,
  step: number,
  receive: Surroundings['receive'],
): Promise<void> {
  const stage = stages.get(index);
  if (!stage) return;
  for (const use of uses.get(index) ?? []) {
    for (const shard of plan.state.find(({ block }) => block === use.block)?.shards ?? []) {
      if (shard.peer === peer) continue;
      for (const range of slices(use, shard.range)) {
        const key: TensorKey = {
          kind: 'values',
          epoch,
          step,
          stage: index,
          index: blockIndex(model, use.block),
          range,
        };
        stage.writeValues(use.block, range, await receive(key, shard.peer));
      }
    }
  }
}
