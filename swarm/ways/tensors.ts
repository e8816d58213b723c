/**
 * Which tensors go from whom to whom: what a step sends, and what a change of plan does. Everything that a peer may be
 * sent follows from this list, and so do the bytes that a step moves. Keys are named here alone, for both ends.
 */
import { at, got, type PeerId, type Range } from '../base.ts';
import { GATHER_KINDS, tensorBytes } from '../messages/frame.ts';
import { pieces, slices } from '../model/layout.ts';
import type { BlockName, BlockUse, Model } from '../model/model.ts';
import { codedParts, codesValues, holdsPart } from '../plan/codedState.ts';
import { type Transfer, transfers } from '../plan/handover.ts';
import { holderOfAll, holders, homeStage, keepersOf, keptUses, type Plan, type Shard } from '../plan/plan.ts';
import { wireBetween } from '../plan/planLink.ts';
import type { StateKind } from '../plan/stateKinds.ts';
import { sumParts } from '../plan/tokenRows.ts';
import type { MicroAction } from '../schedule/action.ts';
import { awaitsBeginning } from '../schedule/varuna.ts';
import { lineTurns } from '../simulate/lineTurns.ts';
import type { CodedState, RunWire, WireEncoding } from '../wire.ts';
import { gatherTensors, withoutOccasion } from './gathers.ts';
import type { Passage, TensorName } from './passage.ts';

/** Of the stream: T positions a sample, written as the run says, or where that is `auto` as the plan does. */
export interface StreamSize {
  readonly sequence: number;
  readonly wire: RunWire;
}

/** Of one link. */
interface Written {
  readonly sequence: number;
  readonly width: number;
  readonly encoding: WireEncoding;
}

/** Micro-batch ids of an evaluation's round begin here. */
const ROUND = 65_536;

/** To the stage before: the backward of a micro-batch has begun in the next one (SC16). */
export const beginningTensor = (stage: number, microBatch: number): TensorName => ({
  ...{ kind: 'beginning', stage, index: microBatch, range: [0, 1] },
});

/** To whose message it is the turn of, from who sent the one before it over the line that they share (PL63). */
export function turnTensor({ op, stage, microBatch }: MicroAction): TensorName {
  const isForward = op === 'SEND_F';
  const range: Range = isForward ? [0, 1] : [1, 2];
  return { kind: 'turn', stage: isForward ? stage + 1 : stage - 1, index: microBatch, range };
}

export const streamTensor = (
  kind: 'activation' | 'gradient' | 'heldOut',
  stage: number,
  microBatch: { readonly id: number; readonly samples: number; readonly round?: number },
  { sequence, width, encoding }: Written,
): TensorName => {
  const { id, samples, round = 0 } = microBatch;
  return { kind, stage, index: round * ROUND + id, range: [0, samples * sequence * width], encoding };
};

/** The round of an evaluation that a tensor is of, and the same tensor's name in the first round; of what is gathered, its name for every micro-batch. */
export const roundOf = ({ kind, index }: Pick<TensorName, 'kind' | 'index'>): { round: number; index: number } =>
  kind === 'heldOut'
    ? { round: Math.floor(index / ROUND), index: index % ROUND }
    : { round: 0, index: GATHER_KINDS.includes(kind) ? withoutOccasion(index) : index };

/** A tensor of an evaluation's first round, as the one of another round is named. */
export const inRound = (tensor: TensorName, round: number): TensorName => ({
  ...tensor,
  index: round * ROUND + tensor.index,
});

/** `stage`: the holder's; the block's home where values come to a replica that does not compute with them. */
export const blockTensor = (
  model: Model,
  kind: 'slice' | 'values',
  stage: number,
  { block, range }: { readonly block: BlockName; readonly range: Range },
  encoding?: CodedState,
): TensorName => ({ kind, stage, index: blockIndex(model, block), range, ...(encoding && { encoding }) });

/** `kinds`: the run's. */
export const stateTensor = (
  model: Model,
  kinds: readonly StateKind[],
  { block, kind, range }: Transfer,
): TensorName => ({
  ...{ kind: 'state', stage: kinds.indexOf(kind), index: blockIndex(model, block), range },
});

/** Of a replica that gets its shard beside the steps: never taken for what moves before them. */
export const lateTensor = (model: Model, kinds: readonly StateKind[], transfer: Transfer): TensorName => ({
  ...stateTensor(model, kinds, transfer),
  stage: kinds.length + kinds.indexOf(transfer.kind),
});

export const blockIndex = (model: Model, name: BlockName): number =>
  model.blocks.findIndex((block) => block.name === name);

/** Everything that one training step sends. */
export function stepTensors(model: Model, plan: Plan, size: StreamSize): Passage[] {
  const written = writtenAs(model, plan, size);
  return [
    ...handoffs(plan).flatMap(({ before, after, stage, ...microBatch }): Passage[] => [
      { from: before, to: after, tensor: streamTensor('activation', stage, microBatch, written(before, after)) },
      { from: after, to: before, tensor: streamTensor('gradient', stage - 1, microBatch, written(after, before)) },
      ...(awaitsBeginning(plan, stage, microBatch.id) === before
        ? [{ from: after, to: before, tensor: beginningTensor(stage - 1, microBatch.id) }]
        : []),
    ]),
    ...turns(plan),
    ...gradientSlices(model, plan),
    ...holderValues(model, plan),
    ...replicaValues(model, plan),
    ...gatherTensors(model, plan),
  ];
}

/** How one peer writes its stream to another under this plan. */
export function writtenAs(
  { width }: Pick<Model, 'width'>,
  plan: Pick<Plan, 'links'>,
  { sequence, wire }: StreamSize,
): (from: PeerId, to: PeerId) => Written {
  const between = wireBetween(plan, wire);
  return (from, to) => ({ sequence, width, encoding: between(from, to) });
}

/** What a round of an evaluation sends, named as in the first one. */
export function heldOutTensors(model: Model, plan: Plan, size: StreamSize): Passage[] {
  const written = writtenAs(model, plan, size);
  return handoffs(plan).map(({ before, after, stage, ...microBatch }) => ({
    ...{ from: before, to: after },
    tensor: streamTensor('heldOut', stage, microBatch, written(before, after)),
  }));
}

/** What peers send each other where the state goes from the members of one plan to those of the next. */
export const handoverTensors = (
  model: Model,
  kinds: readonly StateKind[],
  before: Plan,
  after: Plan,
  keptOnly: boolean,
): Passage[] =>
  transfers(model, kinds, before, after, keptOnly).flatMap((transfer) =>
    transfer.from === transfer.to ? [] : { ...transfer, tensor: stateTensor(model, kinds, transfer) },
  );

export const bytesOf = ({ tensor }: Passage): number => tensorBytes(tensor);

/** Where neighbouring stages have different owners for a micro-batch. */
function handoffs({ stages, microBatches }: Plan) {
  const owners = stages.map(
    ({ members }) => new Map(members.flatMap(({ peer, microBatches: ids }) => ids.map((id) => [id, peer] as const))),
  );
  return owners.slice(1).flatMap((next, index) =>
    microBatches.flatMap(({ id, samples: [from, to] }) => {
      const [before, after] = [got(at(owners, index), id), got(next, id)];
      return before === after ? [] : { before, after, stage: index + 1, id, samples: to - from };
    }),
  );
}

const turns = (plan: Plan): Passage[] =>
  lineTurns(plan).flatMap((messages) =>
    messages.slice(1).flatMap(({ from: to, action }, place): Passage[] => {
      const { from } = at(messages, place);
      return from === to ? [] : [{ from, to, tensor: turnTensor(action) }];
    }),
  );

/** The gradients of a plan's blocks on their way to all who keep a shard of them. */
const gradientSlices = (model: Model, plan: Plan): Passage[] =>
  heldParts(model, plan, (use, shard, member) =>
    sumParts(model, plan, member, use, shard.range).map(({ range }) => range),
  ).flatMap(({ holder, shard, stage, ...part }) =>
    keepersOf(shard).flatMap((keeper) =>
      keeper === holder
        ? []
        : { from: holder, to: keeper, tensor: blockTensor(model, 'slice', stage, part, plan.stateWire) },
    ),
  );

/** The new values on their way from the primaries to all who compute with them. */
export const holderValues = (model: Model, plan: Plan): Passage[] =>
  plan.stateWire ? codedValues(model, plan, plan.stateWire) : floatValues(model, plan);

/** Values that go as floats where those of a step go as codes: whoever holds them begins anew with them. */
export const wholeValues = (model: Model, plan: Plan): Passage[] => (plan.stateWire ? codedValues(model, plan) : []);

function codedValues(model: Model, plan: Plan, encoding?: CodedState): Passage[] {
  const known = holders(model, plan);
  return plan.state.flatMap(({ block, shards }) => {
    const order = got(known, block);
    return shards.flatMap((shard) =>
      (codesValues(plan, shard, order) ? codedParts(order, shard.range) : []).flatMap((range) =>
        order.flatMap((holder) =>
          holder.peer === shard.peer || !holdsPart(holder, range)
            ? []
            : {
                ...{ from: shard.peer, to: holder.peer },
                tensor: blockTensor(model, 'values', holder.stage, { block, range }, encoding),
              },
        ),
      ),
    );
  });
}

const floatValues = (model: Model, plan: Plan): Passage[] =>
  heldParts(model, plan, (use, shard) => slices(use, shard.range)).flatMap(({ holder, shard, stage, ...part }) =>
    shard.peer === holder ? [] : { from: shard.peer, to: holder, tensor: blockTensor(model, 'values', stage, part) },
  );

/** To the replicas that do not: beside the next step. Where values go as codes replicas update masters of their own. */
export const replicaValues = (model: Model, plan: Plan): Passage[] =>
  plan.stateWire
    ? []
    : replicaParts(model, plan).map(({ replica, primary, stage, ...part }) => ({
        ...{ from: primary, to: replica, tensor: blockTensor(model, 'values', stage, part) },
      }));

/** What a member computes with, shard by shard, in pieces that travel. */
function heldParts(
  model: Model,
  plan: Plan,
  cut: (use: BlockUse, shard: Shard, member: { readonly stage: number; readonly peer: PeerId }) => readonly Range[],
) {
  const { stages, state } = plan;
  const shardsOf = new Map(state.map(({ block, shards }) => [block, shards]));
  return stages.flatMap(({ members }, stage) =>
    keptUses(model, plan, stage).flatMap((use) =>
      got(shardsOf, use.block).flatMap((shard) =>
        members.flatMap(({ peer: holder }) =>
          cut(use, shard, { stage, peer: holder }).map((range) => ({ holder, shard, stage, block: use.block, range })),
        ),
      ),
    ),
  );
}

/** What a replica does not compute with: it comes apart, named as of the block's home stage. */
function replicaParts(model: Model, plan: Plan) {
  const known = holders(model, plan);
  return plan.state.flatMap(({ block, shards }) =>
    shards.flatMap(({ peer: primary, range, replicas }) =>
      replicas
        .filter((replica) => !holderOfAll(got(known, block), replica, range))
        .flatMap((replica) =>
          pieces(range).map((part) => ({ replica, primary, stage: homeStage(plan, block), block, range: part })),
        ),
    ),
  );
}
