/**
 * How gradient sums get from the holders to the primaries, the other way round than values (values.ts): which slices of
 * a block a holder sends to whom, and how a primary adds those of all holders, in the plan's order, whenever they come.
 */
import { got, invariant, type PeerId } from '../../../swarm/base.ts';
import type { TensorKey } from '../../../swarm/messages/frame.ts';
import { slices } from '../../../swarm/model/layout.ts';
import { blockTensor } from '../../../swarm/ways/tensors.ts';
import type { Reading } from './engine.ts';
import type { Role } from './role.ts';
import type { Receive } from './surroundings.ts';

/** This peer's gradient sums of a stage's blocks, to the primaries elsewhere. */
export async function sendSlices(
  role: Role,
  index: number,
  step: number,
  send: (to: PeerId, key: TensorKey, reading: Reading) => void,
): Promise<void> {
  const { model, epoch, plan, peer, uses, stages } = role;
  const stage = stages.get(index);
  invariant(stage, `this peer has no stage ${index}`);
  for (const use of got(uses, index)) {
    for (const shard of plan.state.find(({ block }) => block === use.block)?.shards ?? []) {
      if (shard.peer === peer) continue;
      for (const range of slices(use, shard.range)) {
        const name = blockTensor(model, 'slice', index, { block: use.block, range });
        send(shard.peer, { ...name, epoch, step }, await stage.readGradient(use.block, range));
      }
    }
  }
}

/** Waits for every holder's slices of what this peer is the primary of, and adds them. */
export async function addSlices(role: Role, step: number, receive: Receive): Promise<void> {
  const { model, epoch, peer, kept, shards, stages, uses } = role;
  for (const { block, range, holders } of kept) {
    for (const holder of holders) {
      const own = holder.peer === peer ? stages.get(holder.stage) : undefined;
      if (own) {
        shards.addOwn(block, range, own);
        continue;
      }
      const use = uses.get(holder.stage)?.find((candidate) => candidate.block === block);
      invariant(use, `stage ${holder.stage} does not use ${block}`);
      const pieces = slices(use, range).map(async (part) => {
        const name = blockTensor(model, 'slice', holder.stage, { block, range: part });
        return { range: part, values: await receive({ ...name, epoch, step }, holder.peer) };
      });
      shards.addReceived(block, range, await Promise.all(pieces));
    }
  }
}
