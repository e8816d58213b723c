/**
 * The plan: who computes what, and who keeps which part of the training state. Plain data; every schedule, memory
 * figure, message and frame follows from it. A peer may own several stages, a stage several peers, a shard's keeper
 * need not compute with it. `problems` is the one validator. See SPEC.md, rules PL.
 */
import { z } from 'zod';
import { at, countIn, invariant, type PeerId, peerId, type Range, totalOf } from '../base.ts';
import { count, range } from '../fields.ts';
import { type BlockName, type BlockUse, blocksOfStage, type Model } from '../model/model.ts';
import { type Islands, MOST_ISLANDS } from '../run/runFile.ts';
import type { CodedState, StateWire } from '../wire.ts';
import { layeredProblem } from './layered.ts';
import { chimeraProblem, interleavedProblem } from './ownerTable.ts';
import { type PlanLine, type PlanLink, planLinesSchema, planLinksSchema, wayProblems } from './planLink.ts';
import { cutElements, shardCutUpTo } from './shardCuts.ts';

/** The orders that peers run. */
export const SCHEDULE_NAMES = ['gpipe', '1f1b', 'interleaved', 'breadth-first', 'chimera', 'eager', 'varuna'] as const;
export type ScheduleName = (typeof SCHEDULE_NAMES)[number];

/**
 * How many forwards of 1F1B come before the first backward. `overlap` (Zhuang et al. 2023) runs min(m, 2(p − s) − 1) of
 * them, so that each transfer has an action's time to hide in, for up to twice the micro-batches in flight.
 */
const WARM_UPS = ['normal', 'overlap'] as const;
export type WarmUp = (typeof WARM_UPS)[number];
/** Schedules that have one. */
export const WARMED_UP: readonly ScheduleName[] = ['1f1b', 'eager'];

export interface MicroBatch {
  readonly id: number;
  /** Samples of the step, `[from, to)` of B. */
  readonly samples: Range;
}

export interface Member {
  readonly peer: PeerId;
  /** Ids of the micro-batches this peer carries through the stage. */
  readonly microBatches: readonly number[];
  readonly samples: number;
  /** Layers recomputed in the backward. */
  readonly recompute: readonly number[];
}

/**
 * ZeRO's third stage: the members of a stage keep only their shards of its blocks, and gather each block from one another
 * before they compute with it, forward and backward. So many blocks are whole there at a time: with two, the next one
 * comes while one is computed with.
 */
export type Gathered = 1 | 2;

export interface PlanStage {
  readonly layers: Range;
  readonly members: readonly Member[];
  /** Absent: the members keep the stage's blocks whole. */
  readonly gathered?: Gathered;
  /** A block is gathered once for all micro-batches of a pass (layered.ts); absent: once for each. */
  readonly layered?: true;
}

export interface Shard {
  /** The primary: owns the float32 master values and Adam's moments of the range. */
  readonly peer: PeerId;
  /** Elements of the block. */
  readonly range: Range;
  readonly replicas: readonly PeerId[];
  /** The replica that uploads it for checkpoints; absent: the primary does. */
  readonly uploader?: PeerId;
  /** All of its keepers have it in main memory and update it there; absent: on their GPUs. */
  readonly in?: 'host';
}

export interface BlockState {
  readonly block: BlockName;
  readonly shards: readonly Shard[];
}

export interface Plan {
  readonly stages: readonly PlanStage[];
  readonly microBatches: readonly MicroBatch[];
  readonly state: readonly BlockState[];
  readonly schedule: ScheduleName;
  /** Of the schedules that have one; absent: normal. */
  readonly warmup?: WarmUp;
  /** Of varuna: most micro-batches of a stage that a peer has in flight past 1F1B's bound; absent: no limit. */
  readonly maxInFlight?: number;
  /** Of the run's islands those that are done by these peers, one after the other, ascending; absent: all of them. */
  readonly islands?: readonly number[];
  /** What all islands share lies with owners (islands/owners.ts); absent: with every keeper. */
  readonly owned?: true;
  /** Those that are not the default, one connection. */
  readonly links?: readonly PlanLink[];
  /** Those who take turns on a line that they share; absent: nobody does. */
  readonly lines?: readonly PlanLine[];
  /** How gradient sums and values go between holders and keepers, as the run file says (codedState.ts); absent: as floats. */
  readonly stateWire?: CodedState;
  /** T, where gradients of the token table go as rows of a step's tokens (tokenRows.ts); absent: whole. */
  readonly rows?: number;
}

const peer = z.string().min(1).transform(peerId);
export const blockName = z
  .string()
  .regex(/^(embedding|head|layer\.(0|[1-9]\d*))$/, 'expected embedding, head or layer.N')
  .transform((text) => text as BlockName); // the pattern is the type

/** A number in 16 bits, in frames. */
export const islandList = z.array(count.max(0xffff)).min(1).max(MOST_ISLANDS);
const shard: z.ZodType<Shard> = z
  .object({
    ...{ peer, range, replicas: z.array(peer).default([]), uploader: peer.exactOptional() },
    in: z.enum(['gpu', 'host']).default('gpu'),
  })
  // The default is said by no field: then equal plans are equal.
  .transform(({ in: place, ...others }) => (place === 'host' ? { ...others, in: place } : others));
export const blockStates: z.ZodType<readonly BlockState[]> = z.array(
  z.object({ block: blockName, shards: z.array(shard) }),
);

/** A plan from outside: its shape only (`problems` judges the rest). Other fields, such as predictions, are ignored. */
export const planSchema: z.ZodType<Plan> = z.object({
  stages: z.array(
    z.object({
      layers: range,
      members: z.array(
        z.object({ peer, microBatches: z.array(count), samples: count, recompute: z.array(count).default([]) }),
      ),
      gathered: z.literal([1, 2]).exactOptional(),
      layered: z.literal(true).exactOptional(),
    }),
  ),
  microBatches: z.array(z.object({ id: count, samples: range })),
  state: blockStates,
  schedule: z.enum(SCHEDULE_NAMES),
  warmup: z.enum(WARM_UPS).exactOptional(),
  maxInFlight: count.min(1).exactOptional(),
  islands: islandList.exactOptional(),
  owned: z.literal(true).exactOptional(),
  links: planLinksSchema.exactOptional(),
  lines: planLinesSchema.exactOptional(),
  stateWire: z.literal('int8').exactOptional(),
  rows: count.min(1).exactOptional(),
});

/** The routing rule: who carries this micro-batch through this stage. */
export function owner(plan: Plan, stage: number, microBatch: number): PeerId {
  const member = plan.stages[stage]?.members.find(({ microBatches }) => microBatches.includes(microBatch));
  invariant(member, `micro-batch ${microBatch} has no owner in stage ${stage}`);
  return member.peer;
}

/** Everyone the plan names, in the order they first appear: stages first, then state. */
export function peers(plan: Plan): PeerId[] {
  const members = plan.stages.flatMap((stage) => stage.members.map((member) => member.peer));
  const keepers = plan.state.flatMap(({ shards }) => shards.flatMap(keepersOf));
  return [...new Set([...members, ...keepers])];
}

/** Samples of each micro-batch, by its number. */
export const samplesById = ({ microBatches }: Pick<Plan, 'microBatches'>): Map<number, number> =>
  new Map(microBatches.map(({ id, samples: [from, to] }) => [id, to - from]));

/** Who has a shard's values and moments, and gets every slice of its gradient: the primary, then the replicas. */
export const keepersOf = ({ peer, replicas }: Shard): readonly PeerId[] => [peer, ...replicas];

/** The stage that a block's update belongs to. A tied embedding is at home in the first stage. */
/** Of the first or the last stage, whichever layers these have. */
export const isEndBlock = (block: BlockName): boolean => block === 'embedding' || block === 'head';

export function homeStage(plan: Plan, block: BlockName): number {
  const home = stageOf(plan, block);
  invariant(home >= 0, `${block} is in no stage`);
  return home;
}

/** Less than 0: none. */
function stageOf({ stages }: Plan, block: BlockName): number {
  if (block === 'embedding') return 0;
  if (block === 'head') return stages.length - 1;
  const layer = Number(block.slice('layer.'.length));
  return stages.findIndex(({ layers }) => layers[0] <= layer && layer < layers[1]);
}

/** Where a block is gathered, its home stage; null: its holders keep it whole. */
export function gatheringHome(plan: Plan, block: BlockName): PlanStage | null {
  if (!plan.stages.some(({ gathered }) => gathered)) return null;
  const home = plan.stages[stageOf(plan, block)];
  return home?.gathered ? home : null;
}

export const gathersAny = (stages: Plan['stages']): boolean => stages.some(({ gathered }) => gathered !== undefined);

/** What each member of a stage keeps whole: all that it computes with, but for what is gathered. */
export function keptUses(model: Model, plan: Plan, stage: number): BlockUse[] {
  const { layers, gathered } = at(plan.stages, stage);
  const uses = blocksOfStage(model, layers);
  return gathered ? uses.filter(({ block }) => homeStage(plan, block) !== stage) : uses;
}

/** A member of a stage that keeps a block: the ranges it reads, and where its gradient sum comes in the order. */
export interface Holder {
  readonly stage: number;
  readonly peer: PeerId;
  readonly ranges: readonly Range[];
  readonly lowestMicroBatch: number;
}

/** Who keeps each block to compute with it, in the order in which their gradient sums are added: by stage, then lowest micro-batch. */
export function holders(model: Model, plan: Plan): ReadonlyMap<BlockName, readonly Holder[]> {
  const found = new Map<BlockName, Holder[]>(model.blocks.map(({ name }) => [name, []]));
  for (const [stage, { members }] of plan.stages.entries()) {
    const order = members
      .map(({ peer, microBatches }) => ({
        peer,
        lowestMicroBatch: microBatches.reduce((least, id) => Math.min(least, id), Infinity),
      }))
      .sort((a, b) => a.lowestMicroBatch - b.lowestMicroBatch);
    for (const { block, ranges } of keptUses(model, plan, stage)) {
      const own = found.get(block) ?? [];
      for (const holder of order) own.push({ stage, ranges, ...holder });
      found.set(block, own);
    }
  }
  return found;
}

/** Of those who compute with a block, this peer in its first stage where it has all of a range; undefined: in none. */
export const holderOfAll = (order: readonly Holder[], peer: PeerId, range: Range): Holder | undefined =>
  order.find(
    (holder) => holder.peer === peer && holder.ranges.some(([from, to]) => from <= range[0] && range[1] <= to),
  );

/** A broken rule of SPEC.md, and one sentence that names the place. */
export interface Problem {
  readonly rule: `${'LI' | 'PL' | 'SC' | 'WI'}${number}`;
  readonly text: string;
}

/** A plan for some of the run's islands names them, each once and ascending. */
function islandProblem(islands: Islands | undefined, own: readonly number[] | undefined): string | null {
  if (!own) return null;
  const count = islands?.count === 'auto' ? Number.MAX_SAFE_INTEGER : (islands?.count ?? 0);
  const isAscending = own.every((island, place) => place === 0 || island > (own[place - 1] ?? island));
  if (isAscending && own.length > 0 && own.length < count && own.every((island) => island >= 0 && island < count))
    return null;
  return `the plan is of the islands ${own.join(', ')}: some of the ${count} of the run were expected, ascending; of all of them it names none`;
}

const stateWireProblem = (asked: StateWire | undefined, own: StateWire | undefined): string | null =>
  own === asked ? null : `the plan sends its state as ${own ?? 'f32'}, where the run file says ${asked ?? 'f32'}`;

function rowsProblem({ rows, stateWire }: Plan, sequence: number | undefined): string | null {
  if (rows === undefined) return null;
  if (stateWire) return `the plan has rows, which do not go as ${stateWire}`;
  return rows === (sequence ?? rows) ? null : `the plan has rows of ${rows} positions, where a sample has ${sequence}`;
}

/** Everything that is wrong with a plan for this model and a step of this many samples; none: it can be run. */
export function problems(
  model: Pick<Model, 'layers' | 'blocks' | 'standing'>,
  batch: {
    readonly samples: number;
    readonly islands?: Islands | undefined;
    readonly stateWire?: CodedState | undefined;
    readonly sequence?: number | undefined;
  },
  plan: Plan,
): readonly Problem[] {
  const found: Problem[] = [
    ...cover(
      'PL1',
      'layer',
      'the model',
      model.layers,
      plan.stages.map(({ layers }, stage) => ({ place: `stage ${stage}`, range: layers })),
    ),
    ...idProblems(plan.microBatches.map(({ id }) => id)),
    ...cover(
      'PL3',
      'sample',
      'the step',
      batch.samples,
      inOrder(plan.microBatches.map(({ id, samples }) => ({ place: `micro-batch ${id}`, range: samples }))),
    ),
    ...plan.stages.flatMap((stage, index) => stageProblems(plan, stage, index)),
    ...said('PL64', layeredProblem(plan)),
    ...(model.standing ? gatheredStanding(plan) : []),
    ...stateProblems(model, plan),
    ...cutProblems(model, batch.islands, plan),
    ...said('PL24', islandProblem(batch.islands, plan.islands)),
    ...wayProblems(plan, peers(plan)),
    ...said('WI30', stateWireProblem(batch.stateWire, plan.stateWire)),
    ...said('WI38', rowsProblem(plan, batch.sequence)),
  ];
  return [...found, ...scheduleProblems(plan)];
}

const said = (rule: Problem['rule'], text: string | null): Problem[] => (text === null ? [] : [{ rule, text }]);

function scheduleProblems(plan: Plan): Problem[] {
  const { schedule, warmup, maxInFlight } = plan;
  if (!SCHEDULE_NAMES.includes(schedule))
    return [{ rule: 'PL11', text: `schedule ${schedule} is unknown: one of ${SCHEDULE_NAMES.join(', ')}` }];
  if (warmup === 'overlap' && !WARMED_UP.includes(schedule))
    return [
      { rule: 'PL11', text: `warmup overlap goes with schedule ${WARMED_UP.join(' or ')}, not with ${schedule}` },
    ];
  if (maxInFlight !== undefined && schedule !== 'varuna')
    return [{ rule: 'PL11', text: `maxInFlight goes with schedule varuna, not with ${schedule}` }];
  const table = TABLES[schedule];
  const misfit = table ? table.problem(plan) : null;
  return table && misfit !== null ? [{ rule: table.rule, text: misfit }] : [];
}

/** Schedules that have owner tables of their own. */
const TABLES: Readonly<
  Partial<Record<ScheduleName, { readonly rule: Problem['rule']; readonly problem: (plan: Plan) => string | null }>>
> = {
  interleaved: { rule: 'SC13', problem: interleavedProblem },
  chimera: { rule: 'SC14', problem: chimeraProblem },
};

function idProblems(ids: readonly number[]): Problem[] {
  const odd = ids.filter((id) => !(Number.isSafeInteger(id) && id >= 0));
  return [
    ...odd.map((id): Problem => ({ rule: 'PL3', text: `micro-batch ${id} has no whole number as its id` })),
    ...doubles(ids).map((id): Problem => ({ rule: 'PL3', text: `micro-batch ${id} is there more than once` })),
  ];
}

function stageProblems(plan: Plan, { layers, members }: PlanStage, stage: number): Problem[] {
  const size = new Map(plan.microBatches.map(({ id, samples }) => [id, countIn(samples)]));
  const found: Problem[] = [];
  const report = (rule: Problem['rule'], text: string) => found.push({ rule, text });
  for (const peer of doubles(members.map((member) => member.peer)))
    report('PL4', `stage ${stage} has ${peer} as a member more than once`);
  const carried = members.flatMap(({ microBatches }) => microBatches);
  const owned = new Set(carried);
  for (const id of size.keys()) if (!owned.has(id)) report('PL4', `micro-batch ${id} has no owner in stage ${stage}`);
  for (const id of doubles(carried)) report('PL4', `micro-batch ${id} is carried more than once in stage ${stage}`);
  for (const { peer, microBatches, samples, recompute } of members) {
    const place = `member ${peer} of stage ${stage}`;
    if (microBatches.length === 0) report('PL4', `${place} carries no micro-batch`);
    const unknown = microBatches.filter((id) => !size.has(id));
    for (const id of unknown) report('PL4', `${place} carries micro-batch ${id}, which is not in the plan`);
    const sum = totalOf(microBatches, (id) => size.get(id) ?? 0);
    if (unknown.length === 0 && samples !== sum)
      report('PL4', `${place} says ${samples} samples, its micro-batches have ${sum}`);
    for (const layer of recompute)
      if (!(Number.isInteger(layer) && layers[0] <= layer && layer < layers[1]))
        report('PL7', `${place} recomputes layer ${layer}, which is not in [${layers.join(', ')})`);
    for (const layer of doubles(recompute)) report('PL7', `${place} recomputes layer ${layer} more than once`);
  }
  return found;
}

/** An adapter is too small to gather, and what stands lies whole with whoever computes with it. */
const gatheredStanding = ({ stages }: Plan): Problem[] =>
  stages.flatMap(({ gathered }, stage): Problem[] =>
    gathered ? [{ rule: 'PL18', text: `stage ${stage} gathers, which no stage of a run with an adapter does` }] : [],
  );

function stateProblems(model: Pick<Model, 'blocks'>, plan: Plan): Problem[] {
  const found: Problem[] = [];
  const report = (rule: Problem['rule'], text: string) => found.push({ rule, text });
  const named = plan.state.map(({ block }) => block);
  for (const { name } of model.blocks) if (!named.includes(name)) report('PL9', `the state has no block ${name}`);
  for (const name of doubles(named)) report('PL9', `the state has block ${name} more than once`);
  for (const { block, shards } of plan.state) {
    const known = model.blocks.find(({ name }) => name === block);
    if (!known) {
      report('PL9', `the state has block ${block}, which the model has not`);
      continue;
    }
    const parts = inOrder(shards.map(({ peer, range }) => ({ place: `a shard of ${block} at ${peer}`, range })));
    found.push(...cover('PL9', 'element', block, known.elements, parts));
    const home = gatheringHome(plan, block);
    const keepers = home === null ? [] : shards.flatMap(keepersOf);
    for (const peer of new Set(keepers))
      if (!home?.members.some((member) => member.peer === peer))
        report(
          'PL18',
          `${block} is gathered by the members of its stage, but ${peer}, who is none, keeps a part of it`,
        );
    for (const { peer, range, replicas, uploader } of shards) {
      const place = `shard [${range.join(', ')}) of ${block}`;
      if (replicas.includes(peer)) report('PL10', `${place} has its primary ${peer} as a replica too`);
      for (const twice of doubles(replicas)) report('PL10', `${place} has replica ${twice} more than once`);
      if (uploader !== undefined && !replicas.includes(uploader))
        report('PL10', `${place} is uploaded by ${uploader}, who is none of its replicas`);
    }
  }
  return found;
}

/** Shards that begin in a matrix that is updated whole, or where a meeting of islands cannot pack them by themselves. */
function cutProblems(model: Pick<Model, 'blocks'>, islands: Islands | undefined, plan: Plan): Problem[] {
  return plan.state.flatMap(({ block, shards }) => {
    const known = model.blocks.find(({ name }) => name === block);
    return shards.flatMap(({ range }): Problem[] => {
      const allowed = known ? shardCutUpTo(known, islands, range[0]) : range[0];
      if (allowed === range[0]) return [];
      const place = `shard [${range.join(', ')}) of ${block}`;
      const matrix = known?.tensors.find(({ matrices, offset }) => matrices !== undefined && offset === allowed);
      if (matrix) {
        const text = `${place} begins in the middle of ${matrix.name}, which the run's optimizer updates whole: it may begin at ${allowed}`;
        return [{ rule: 'PL65', text }];
      }
      const every = `every ${cutElements(islands)} elements of a tensor`;
      const text = `${place} begins in the middle of what islands pack, ${every}: it may begin at ${allowed}`;
      return [{ rule: 'PL22', text }];
    });
  });
}

interface Part {
  readonly place: string;
  readonly range: Range;
}

const inOrder = (parts: readonly Part[]): Part[] => parts.toSorted((a, b) => a.range[0] - b.range[0]);

/** The first place where parts, one after the other, fail to cover `[0, total)` exactly once. */
function cover(rule: Problem['rule'], thing: string, whole: string, total: number, parts: readonly Part[]): Problem[] {
  let reached = 0;
  for (const { place, range } of parts) {
    const [from, to] = range;
    const text = `${place} has ${thing}s [${from}, ${to})`;
    if (!Number.isInteger(from) || !Number.isInteger(to) || from < 0 || to <= from)
      return [{ rule, text: `${text}, which is no range of at least one` }];
    if (from > reached) return [{ rule, text: `${text}, so that ${thing} ${reached} is in no range` }];
    if (from < reached) return [{ rule, text: `${text}, but ${thing} ${from} comes again` }];
    if (to > total) return [{ rule, text: `${text}, but there are only ${total}` }];
    reached = to;
  }
  return reached === total ? [] : [{ rule, text: `${thing} ${reached} of ${whole} is in no range` }];
}

/** What stands more than once in a list, each named once. */
function doubles<T>(list: readonly T[]): T[] {
  const seen = new Set<T>();
  return [...new Set(list.filter((item) => seen.size === seen.add(item).size))];
}

/** A plan file, or a plan made for others, with the donors at hand in its places: the n-th of `seats` replaces the n-th peer. */
export function seated(plan: Plan, seats: readonly PeerId[]): Plan {
  const named = peers(plan);
  invariant(named.length === seats.length, `a plan of ${named.length} peers has no seats for ${seats.length}`);
  const seat = new Map(named.map((peer, index) => [peer, seats[index] ?? peer]));
  const of = (peer: PeerId): PeerId => seat.get(peer) ?? peer;
  return {
    ...plan,
    stages: plan.stages.map((stage) => ({
      ...stage,
      members: stage.members.map((member) => ({ ...member, peer: of(member.peer) })),
    })),
    state: plan.state.map(({ block, shards }) => ({
      block,
      shards: shards.map(({ uploader, ...shard }) => ({
        ...{ ...shard, peer: of(shard.peer), replicas: shard.replicas.map(of) },
        ...(uploader && { uploader: of(uploader) }),
      })),
    })),
    ...(plan.links && { links: plan.links.map((link) => ({ ...link, from: of(link.from), to: of(link.to) })) }),
    ...(plan.lines && { lines: plan.lines.map((line) => line.map(of)) }),
  };
}

/** What a plan does to save memory that the plan before it did not, or no longer does, in words; null: nothing of that changes. */
export function placesChanged(before: Plan, after: Plan): string | null {
  const texts = [gathering(before, after), mainMemory(before, after)].filter((text) => text !== null);
  return texts.length > 0 ? texts.join(', ') : null;
}

function gathering(before: Plan, after: Plan): string | null {
  const [had, has] = [before, after].map(({ stages }) => gathersAny(stages));
  if (had !== has) return has ? 'layers are gathered from now on' : 'layers are gathered no longer, but kept whole';
  const [wasLayered, isLayered] = [before, after].map(({ stages }) => stages.some(({ layered }) => layered));
  if (wasLayered === isLayered) return null;
  return isLayered
    ? 'layers are gathered once a pass from now on'
    : 'layers are gathered for each micro-batch from now on';
}

function mainMemory(before: Plan, after: Plan): string | null {
  const [had, has] = [before, after].map(inHost);
  if (had === has) return null;
  return has ? 'state lies in main memory from now on' : 'state lies in main memory no longer';
}

const inHost = ({ state }: Plan): boolean => state.some(({ shards }) => shards.some((shard) => shard.in === 'host'));
