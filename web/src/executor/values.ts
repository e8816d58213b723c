/**
 * How new values get from the primaries to the holders and the replicas: what is cut into which parts, and who sends and
 * awaits them. Both ends derive the same parts from the plan. Holders cannot begin a step without them; a replica that does
 * not compute with them takes them beside the next step's work, before it reports that step.
 */
import { got, invariant, type PeerId, type Range } from '../../../swarm/base.ts';
import type { TensorKey } from '../../../swarm/messages/frame.ts';
import { pieces, slices } from '../../../swarm/model/layout.ts';
import type { BlockName } from '../../../swarm/model/model.ts';
import { holderOfAll, homeStage } from '../../../swarm/plan/plan.ts';
import { blockTensor } from '../../../swarm/ways/tensors.ts';
import type { Reading } from './engine.ts';
import type { Role } from './role.ts';
import type { Receive } from './surroundings.ts';

interface ValuePart {
  readonly block: BlockName;
  readonly to: PeerId;
  readonly stage: number;
  readonly part: Range;
}

/** The parts of a primary's values that another place computes with: holders elsewhere, its own other stages. */
export const holderParts = ({ peer, kept, uses }: Role): ValuePart[] =>
  kept
    .filter(({ isPrimary }) => isPrimary)
    .flatMap(({ block, range, holders, valuesStage }) =>
      holders
        .filter((holder) => holder.peer !== peer || holder.stage !== valuesStage)
        .flatMap(({ peer: to, stage }) => {
          const use = uses.get(stage)?.find((candidate) => candidate.block === block);
          invariant(use, `stage ${stage} does not use ${block}`);
          return slices(use, range).map((part) => ({ block, to, stage, part }));
        }),
    );

/** The parts of a primary's values for replicas that do not compute with them. */
export const replicaParts = ({ plan, kept }: Role): ValuePart[] =>
  kept
    .filter(({ isPrimary }) => isPrimary)
    .flatMap(({ block, range, keepers, holders }) =>
      keepers
        .slice(1)
        .filter((replica) => !holderOfAll(holders, replica, range))
        .flatMap((to) => pieces(range).map((part) => ({ block, to, stage: homeStage(plan, block), part }))),
    );

type Send = (to: PeerId, key: TensorKey, reading: Reading) => void;

/** A primary's values on their way to the holders elsewhere (and to its own other stages, copied). */
export const sendValues = (role: Role, step: number, send: Send): Promise<void> =>
  sendParts(role, holderParts(role), step, send);

/** A primary's values on their way to replicas. `step`: the first one that is done with them. */
export const sendToReplicas = (role: Role, step: number, send: Send): Promise<void> =>
  sendParts(role, replicaParts(role), step, send);

async function sendParts(role: Role, parts: readonly ValuePart[], step: number, send: Send): Promise<void> {
  const { model, epoch, peer, shards, stages } = role;
  for (const { block, to, stage, part } of parts) {
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

/** Waits for the values of a stage's blocks that others are primaries of. */
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
}

/** Waits for the values of what this peer keeps a copy of and does not compute with. */
export async function gatherAsReplica(role: Role, step: number, receive: Receive): Promise<void> {
  const { model, epoch, plan, kept, shards } = role;
  for (const { block, range, keepers, isPrimary, valuesStage } of kept) {
    const [primary] = keepers;
    if (isPrimary || !primary || valuesStage !== null) continue;
    for (const part of pieces(range)) {
      const name = blockTensor(model, 'values', homeStage(plan, block), { block, range: part });
      shards.writeState(block, part, 'value', await receive({ ...name, epoch, step }, primary));
    }
  }
}
