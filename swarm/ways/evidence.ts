/**
 * What members commit to in an audited step, and what an audit of one of them needs of whom. Both follow from the plan, so
 * that nobody has to be told: a donor is asked for an audit by (stage, member), and a tensor of it is named by its place in
 * the list. Rules AU in SPEC.md.
 */
import { at, type PeerId, type Range } from '../base.ts';
import { shardsOf } from '../memory/memory.ts';
import { slices } from '../model/layout.ts';
import { type BlockName, blocksOfStage, type Model, standingOfStage, usedElements } from '../model/model.ts';
import { gathersAny, keptUses, type Plan } from '../plan/plan.ts';
import { sumParts } from '../plan/tokenRows.ts';
import type { Passage, TensorName } from './passage.ts';
import { blockTensor, bytesOf, type StreamSize, stepTensors } from './tensors.ts';

/** One member at one stage: all that it computed there in a step. */
export interface AuditedWork {
  readonly stage: number;
  readonly peer: PeerId;
}

/** activation, gradient: as it was sent. slice: a part of the member's gradient sums. values: as they stood in the step. */
export interface EvidencePiece {
  /** Who has it, and uploads it. */
  readonly from: PeerId;
  readonly tensor: TensorName;
  /** Of gradient sums that go as rows: the part of the table that they lie in. */
  readonly table?: Range;
}

/** Gathered blocks and coded state leave nothing that could be done again from what members commit to. */
export const isAuditable = ({ stages, stateWire }: Plan): boolean => stateWire === undefined && !gathersAny(stages);

const COMMITTED: readonly TensorName['kind'][] = ['activation', 'gradient', 'slice'];
const known = new WeakMap<Plan, readonly Passage[]>();

/** Of a step, in the plan's order: of each both ends say a digest. */
export function committedPassages(model: Model, plan: Plan, size: StreamSize): readonly Passage[] {
  const before = known.get(plan);
  if (before) return before;
  const found = stepTensors(model, plan, size).filter(({ tensor }) => COMMITTED.includes(tensor.kind));
  known.set(plan, found);
  return found;
}

/** Of these those that a peer sends or gets: in this order are its digests. */
export const committedBy = (passages: readonly Passage[], peer: PeerId): readonly Passage[] =>
  passages.filter(({ from, to }) => from === peer || to === peer);

/** Who computes neighbouring stages sends nothing between them: there is nothing to be seen from outside. */
export function isSeenByOthers(plan: Plan, { stage, peer }: AuditedWork): boolean {
  return [stage - 1, stage + 1].every((other) => plan.stages[other]?.members.every((one) => one.peer !== peer) ?? true);
}

/** In float64, twice: a server has no room for more. */
const MOST_ELEMENTS = 2 ** 26;
/** A processor makes some 10⁹ of its multiplications a second, twice where a difference has to be explained. */
const MOST_PRODUCTS = 2e11;

/** Whether a server can do it again in the memory and time that it has. */
export function isWithinReach(model: Model, plan: Plan, sequence: number, { stage, peer }: AuditedWork): boolean {
  const { layers, members } = at(plan.stages, stage);
  const elements = usedElements([...blocksOfStage(model, layers), ...standingOfStage(model, layers)]);
  const rows = sequence * (members.find((member) => member.peer === peer)?.samples ?? 0);
  return elements <= MOST_ELEMENTS && 3 * elements * rows <= MOST_PRODUCTS;
}

/** In the order of their places. */
export function evidenceOf(model: Model, plan: Plan, size: StreamSize, work: AuditedWork): EvidencePiece[] {
  const stream = committedPassages(model, plan, size).flatMap(({ from, to, tensor }): EvidencePiece[] => {
    const isIn = to === work.peer && tensor.stage === work.stage;
    const isOut =
      from === work.peer && tensor.stage === (tensor.kind === 'activation' ? work.stage + 1 : work.stage - 1);
    return tensor.kind !== 'slice' && (isIn || isOut) ? [{ from, tensor }] : [];
  });
  return [...stream, ...sumsOf(model, plan, work), ...valuesOf(model, plan, work)];
}

/** The shards of all blocks that a stage computes with. */
const shardsUsed = (model: Model, plan: Plan, stage: number) =>
  keptUses(model, plan, stage).flatMap((use) =>
    (plan.state.find(({ block }) => block === use.block)?.shards ?? []).map((shard) => ({ use, shard })),
  );

/** A sum is the member's own no more where others' are added onto it, where it lies. */
function sumsOf(model: Model, plan: Plan, { stage, peer }: AuditedWork): EvidencePiece[] {
  const lost = shardsOf(model, plan, peer)
    .filter(({ sumInPlace, holders }) => sumInPlace && holders.length > 1)
    .map(({ block, range }) => `${block} ${range}`);
  return shardsUsed(model, plan, stage).flatMap(({ use, shard }) =>
    lost.includes(`${use.block} ${shard.range}`)
      ? []
      : sumParts(model, plan, { stage, peer }, use, shard.range).map(({ range, table }) => ({
          ...pieceOf(model, peer, 'slice', { stage, block: use.block, range }),
          ...(table && { table }),
        })),
  );
}

/** The primaries' word, and the member's own: where they differ nobody is judged by one of them alone. */
const valuesOf = (model: Model, plan: Plan, { stage, peer }: AuditedWork): EvidencePiece[] =>
  shardsUsed(model, plan, stage).flatMap(({ use, shard }) =>
    slices(use, shard.range).flatMap((range) =>
      [...new Set([shard.peer, peer])].map((from) =>
        pieceOf(model, from, 'values', { stage, block: use.block, range }),
      ),
    ),
  );

const pieceOf = (
  model: Model,
  from: PeerId,
  kind: 'slice' | 'values',
  { stage, ...part }: { readonly stage: number; readonly block: BlockName; readonly range: Range },
): EvidencePiece => ({ from, tensor: blockTensor(model, kind, stage, part) });

export const evidenceBytes = (all: readonly EvidencePiece[]): number =>
  all.reduce((sum, { from, tensor }) => sum + bytesOf({ from, to: from, tensor }), 0);

/** How many micro-batches the member carries there, forward and backward: items of an audit. */
export const itemsOf = (plan: Plan, { stage, peer }: AuditedWork): number =>
  2 * (at(plan.stages, stage).members.find((member) => member.peer === peer)?.microBatches.length ?? 0);
