/**
 * How new values get from the primaries to the holders and the replicas: what is cut into which parts, and who sends and
 * awaits them. Both ends derive the same parts from the plan. Holders cannot begin a step without them; a replica that does
 * not compute with them takes them beside the next step's work, before it reports that step.
 *
 * Where a plan has them go as codes (swarm/plan/codedState.ts) a step sends what holders lack; `whole` sends all of them as
 * floats, at an epoch's beginning and where an island's turn or round ends. Replicas have masters of their own then.
 */
import { got, invariant, type PeerId, type Range } from '../../../swarm/base.ts';
import type { ShardWork } from '../../../swarm/memory/memory.ts';
import type { TensorKey } from '../../../swarm/messages/frame.ts';
import { pieces, slices } from '../../../swarm/model/layout.ts';
import type { BlockName, BlockUse } from '../../../swarm/model/model.ts';
import { codedParts, holdsPart } from '../../../swarm/plan/codedState.ts';
import { holderOfAll, homeStage, type Shard } from '../../../swarm/plan/plan.ts';
import type { TensorName } from '../../../swarm/ways/passage.ts';
import { blockTensor } from '../../../swarm/ways/tensors.ts';
import type { Reading, Stage } from './engine.ts';
import type { Role } from './role.ts';
import type { Receive } from './surroundings.ts';

interface ValuePart {
  readonly block: BlockName;
  readonly to: PeerId;
  readonly stage: number;
  readonly part: Range;
  readonly tensor: TensorName;
}

/** The parts of a primary's values that another place computes with: holders elsewhere, its own other stages. */
export const holderParts = (role: Role, whole = false): ValuePart[] => [
  ...floatParts(role),
  ...role.kept.filter(isSentAsCodes).flatMap((work) => codedHolderParts(role, work, whole)),
];

const isSentAsCodes = ({ isPrimary, isCoded }: ShardWork): boolean => isPrimary && isCoded;

const floatParts = ({ model, peer, kept, uses }: Role): ValuePart[] =>
  kept
    .filter(({ isPrimary, isCoded }) => isPrimary && !isCoded)
    .flatMap(({ block, range, holders, valuesStage }) =>
      holders
        .filter((holder) => holder.peer !== peer || holder.stage !== valuesStage)
        .flatMap(({ peer: to, stage }) => {
          const use = uses.get(stage)?.find((candidate) => candidate.block === block);
          invariant(use, `stage ${stage} does not use ${block}`);
          return slices(use, range).map((part) => ({
            ...{ block, to, stage, part },
            tensor: blockTensor(model, 'values', stage, { block, range: part }),
          }));
        }),
    );

/** The stage that has the shard's values as its own is one of them where all is sent. */
const codedHolderParts = (
  { model, peer, plan }: Role,
  { block, range, holders, valuesStage }: ShardWork,
  whole: boolean,
): ValuePart[] =>
  codedParts(holders, range).flatMap((part) =>
    holders
      .filter((holder) => holdsPart(holder, part) && (whole || holder.peer !== peer || holder.stage !== valuesStage))
      .map(({ peer: to, stage }) => ({
        ...{ block, to, stage, part },
        tensor: blockTensor(model, 'values', stage, { block, range: part }, whole ? undefined : plan.stateWire),
      })),
  );

/** The parts of a primary's values for replicas that do not compute with them. */
export const replicaParts = ({ model, plan, kept }: Role): ValuePart[] =>
  plan.stateWire
    ? []
    : kept
        .filter(({ isPrimary }) => isPrimary)
        .flatMap(({ block, range, keepers, holders }) =>
          keepers
            .slice(1)
            .filter((replica) => !holderOfAll(holders, replica, range))
            .flatMap((to) => {
              const stage = homeStage(plan, block);
              return pieces(range).map((part) => ({
                ...{ block, to, stage, part },
                tensor: blockTensor(model, 'values', stage, { block, range: part }),
              }));
            }),
        );

type Send = (to: PeerId, key: TensorKey, reading: Reading) => void;

/** A primary's values on their way to the holders elsewhere (and to its own other stages, copied). */
export async function sendValues(role: Role, step: number, send: Send, whole = false): Promise<void> {
  await sendParts(role, floatParts(role), step, send);
  for (const work of role.kept.filter(isSentAsCodes)) await sendCoded(role, work, { step, send, whole });
}

/** A primary's values on their way to replicas. `step`: the first one that is done with them. */
export const sendToReplicas = (role: Role, step: number, send: Send): Promise<void> =>
  sendParts(role, replicaParts(role), step, send);

async function sendParts(role: Role, parts: readonly ValuePart[], step: number, send: Send): Promise<void> {
  const { epoch, peer, shards, stages } = role;
  for (const { block, to, stage, part, tensor } of parts) {
    const reading = await shards.readValues(block, part);
    if (to === peer) {
      const own = got(stages, stage);
      await reading.take((values) => own.writeValues(block, part, values));
    } else {
      send(to, { ...tensor, epoch, step }, reading);
    }
  }
}

interface Sending {
  readonly step: number;
  readonly send: Send;
  readonly whole: boolean;
}

/** Each part is read once, whoever gets it: to read it as codes is to have sent it. */
async function sendCoded(role: Role, work: ShardWork, { step, send, whole }: Sending): Promise<void> {
  const { epoch, peer, shards, stages } = role;
  const { block, holders, range } = work;
  const all = codedHolderParts(role, work, whole);
  for (const part of codedParts(holders, range)) {
    const reading = await (whole ? shards.readValues(block, part) : shards.packValues(block, part));
    const words = reading.take((read) => read.slice());
    words.catch(() => undefined); // whoever sends it fails
    for (const one of all) {
      if (one.part[0] !== part[0] || one.to === peer) continue;
      send(one.to, { ...one.tensor, epoch, step }, { take: async (use) => use(await words) });
    }
    const own = all.filter((one) => one.part[0] === part[0] && one.to === peer);
    if (whole) shards.writeState(block, part, 'value', await words); // what holders have is what it has
    for (const { stage } of own) take(got(stages, stage), { block, part, words: await words, whole });
  }
}

interface Taken {
  readonly block: BlockName;
  readonly part: Range;
  readonly words: Float32Array;
  readonly whole: boolean;
}

function take(stage: Stage, { block, part, words, whole }: Taken): void {
  if (whole) stage.writeValues(block, part, words);
  else stage.addValues(block, part, words);
}

/** Waits for the values of a stage's blocks that others are primaries of. */
export async function gatherValues(
  role: Role,
  index: number,
  step: number,
  receive: Receive,
  whole = false,
): Promise<void> {
  const { model, epoch, plan, peer, stages, uses, shards } = role;
  const stage = stages.get(index);
  for (const use of stage ? got(uses, index) : []) {
    for (const shard of plan.state.find(({ block }) => block === use.block)?.shards ?? []) {
      if (!stage || shard.peer === peer) continue;
      const beside = isBeside(role, index, use.block, shard);
      const stateWire = whole ? undefined : plan.stateWire;
      for (const part of partsOf(role, use, shard)) {
        const name = blockTensor(model, 'values', index, { block: use.block, range: part }, stateWire);
        const words = await receive({ ...name, epoch, step }, shard.peer);
        take(stage, { block: use.block, part, words, whole: !stateWire });
        if (beside && !stateWire) shards.writeState(use.block, part, 'value', words);
      }
    }
  }
}

const partsOf = ({ plan, holders }: Role, use: BlockUse, { range }: Shard): Range[] =>
  plan.stateWire
    ? codedParts(got(holders, use.block), range).filter((part) => holdsPart(use, part))
    : slices(use, range);

/** What it keeps of a stage's values that are halves, or what codes add up to, lies beside them. */
const isBeside = ({ kept }: Role, index: number, name: BlockName, shard: Shard): boolean =>
  kept.some(
    ({ block, range, valuesStage, master }) =>
      block === name && range[0] === shard.range[0] && valuesStage === index && master === 'own',
  );

/** Waits for the values of what this peer keeps a copy of and does not compute with. */
export async function gatherAsReplica(role: Role, step: number, receive: Receive): Promise<void> {
  const { model, epoch, plan, kept, shards } = role;
  if (plan.stateWire) return; // it updates a master of its own
  for (const { block, range, keepers, isPrimary, valuesStage } of kept) {
    const [primary] = keepers;
    if (isPrimary || !primary || valuesStage !== null) continue;
    for (const part of pieces(range)) {
      const name = blockTensor(model, 'values', homeStage(plan, block), { block, range: part });
      shards.writeState(block, part, 'value', await receive({ ...name, epoch, step }, primary));
    }
  }
}
