/**
 * How new values get from the primaries to the holders and the replicas: what is cut into which parts, and who sends and
 * awaits them. Both ends derive the same parts from the plan.
 */
import { got, invariant, type PeerId } from '../../../swarm/base.ts';
import type { TensorKey } from '../../../swarm/messages/frame.ts';
import { pieces, slices } from '../../../swarm/model/layout.ts';
import { holderOfAll, homeStage } from '../../../swarm/plan/plan.ts';
import { blockTensor } from '../../../swarm/ways/tensors.ts';
import type { Reading } from './engine.ts';
import type { Role } from './role.ts';
import type { Receive } from './surroundings.ts';

/** The parts of a primary's values that another place needs: holders elsewhere, its own other stages, and replicas. */
export function valueParts({ plan, peer, kept, uses }: Role) {
  return kept
    .filter(({ isPrimary }) => isPrimary)
    .flatMap(({ block, range, keepers, holders, valuesStage }) => {
      const places = holders.filter((holder) => holder.peer !== peer || holder.stage !== valuesStage);
      const replicas = keepers.slice(1).filter((replica) => !holderOfAll(holders, replica, range));
      return [
        ...places.flatMap(({ peer: to, stage }) => {
          const use = uses.get(stage)?.find((candidate) => candidate.block === block);
          invariant(use, `stage ${stage} does not use ${block}`);
          return slices(use, range).map((part) => ({ block, to, stage, part }));
        }),
        ...replicas.flatMap((to) => pieces(range).map((part) => ({ block, to, stage: homeStage(plan, block), part }))),
      ];
    });
}

/** A primary's values on their way to the holders and replicas elsewhere (and to its own other stages, copied). */
export async function sendValues(
  role: Role,
  step: number,
  send: (to: PeerId, key: TensorKey, reading: Reading) => void,
): Promise<void> {
  const { model, epoch, peer, shards, stages } = role;
  for (const { block, to, stage, part } of valueParts(role)) {
    const reading = await shards.readValues(block, part);
    if (to === peer) {
      const own = got(stages, stage);
      await reading.take((values) => own.writeValues(block, part, values));
    } else {
      const name = blockTensor(model, 'values', stage, { block, range: part });
      send(to, { ...name, epoch, step }, reading);
    }
  }
}

/** Waits for the values of a stage's blocks that others are primaries of, and of the replicas that are at home in it. */
export async function gatherValues(role: Role, index: number, step: number, receive: Receive): Promise<void> {
  const { model, epoch, plan, peer, stages, uses, kept, shards } = role;
  const stage = stages.get(index);
  for (const use of stage ? got(uses, index) : []) {
    for (const shard of plan.state.find(({ block }) => block === use.block)?.shards ?? []) {
      if (shard.peer === peer) continue;
      // What it keeps of a stage's values that are halves lies beside them.
      const beside = kept.some(
        ({ block, range, valuesStage, master }) =>
          block === use.block && range[0] === shard.range[0] && valuesStage === index && master === 'own',
      );
      for (const range of slices(use, shard.range)) {
        const name = blockTensor(model, 'values', index, { block: use.block, range });
        const values = await receive({ ...name, epoch, step }, shard.peer);
        stage?.writeValues(use.block, range, values);
        if (beside) shards.writeState(use.block, range, 'value', values);
      }
    }
  }
  for (const { block, range, keepers, isPrimary, valuesStage } of kept) {
    const [primary] = keepers;
    if (isPrimary || !primary || valuesStage !== null || homeStage(plan, block) !== index) continue;
    for (const part of pieces(range)) {
      const name = blockTensor(model, 'values', index, { block, range: part });
      shards.writeState(block, part, 'value', await receive({ ...name, epoch, step }, primary));
    }
  }
}
