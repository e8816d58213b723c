/**
 * How new values get from the primaries to the holders: what is cut into which parts, and who sends and awaits them.
 * Both ends derive the same parts from the plan.
 */
import { got, invariant, type PeerId } from '../../../swarm/base.ts';
import type { TensorKey } from '../../../swarm/messages/frame.ts';
import { slices } from '../../../swarm/model/layout.ts';
import { blockTensor } from '../../../swarm/ways/tensors.ts';
import type { Reading } from './engine.ts';
import type { Role } from './role.ts';
import type { Receive } from './surroundings.ts';

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
  const { model, epoch, peer, shards, stages } = role;
  for (const { block, holder, part } of valueParts(role)) {
    const reading = await shards.readValues(block, part);
    const own = holder.peer === peer ? stages.get(holder.stage) : undefined;
    if (own) await reading.take((values) => own.writeValues(block, part, values));
    else {
      const name = blockTensor(model, 'values', holder.stage, { block, range: part });
      send(holder.peer, { ...name, epoch, step }, reading);
    }
  }
}

/** Waits for the values of a stage's blocks that others are primaries of. */
export async function gatherValues(role: Role, index: number, step: number, receive: Receive): Promise<void> {
  const { model, epoch, plan, peer, stages, uses } = role;
  const stage = stages.get(index);
  if (!stage) return;
  for (const use of got(uses, index)) {
    for (const shard of plan.state.find(({ block }) => block === use.block)?.shards ?? []) {
      if (shard.peer === peer) continue;
      for (const range of slices(use, shard.range)) {
        const name = blockTensor(model, 'values', index, { block: use.block, range });
        stage.writeValues(use.block, range, await receive({ ...name, epoch, step }, shard.peer));
      }
    }
  }
}
