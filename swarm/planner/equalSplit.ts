/**
 * The plan that needs no measurement: donors are taken for equals. A pure function of the model, the step's samples and
 * the order of the peers, so that a run done twice gives the same bits. Whole layers, stages as equal as can be; a stage
 * with several donors has lanes, each with micro-batches of its own.
 *
 * How many stages? With donors up to the layers, as many as donors: each holds and exchanges the least it can. With more
 * donors, at least two, and fewer than layers only where that makes the step shorter by a tenth: by GPipe's closed form
 * it takes what the busiest donor computes plus one micro-batch's way through the other stages. Six donors and four
 * equal layers are better as two stages of three lanes (all six busy) than as four stages (two of them with two lanes,
 * which then wait for the other two).
 */
import { arrayOf, at, evenRanges, invariant, type PeerId, peerId, type Range, total, totalOf } from '../base.ts';
import { predictedBytes } from '../memory/memory.ts';
import { hasMatrices } from '../model/matrices.ts';
import { layerBlock, type Model } from '../model/model.ts';
import { chimeraMisfit, DEFAULT_PAIRS, interleavedMisfit, ownedCrews } from '../plan/ownerTable.ts';
import { homeStage, type MicroBatch, type Plan, type PlanStage, type ScheduleName, type WarmUp } from '../plan/plan.ts';
import { cutElements, type Packing, shardCutUpTo } from '../plan/shardCuts.ts';
import { counted } from '../quantityText.ts';
import { firstLayers } from '../schedule/recompute.ts';
import { withMatrixOwners } from './matrixOwners.ts';

/** Enough micro-batches for a pipeline of this many stages to idle little, without making them tiny. */
const MICRO_BATCHES_PER_STAGE = 4;
/** More donors a layer than this are not planned for. */
const LANES_PER_LAYER = 4;
/** Fewer stages cost every donor memory and traffic: they have to be worth it. */
const WORTHWHILE = 0.9;
/** Shards begin at multiples of this many elements, the alignment of tensors on a GPU. */
const SHARD_ALIGNMENT = 64;

type SplitModel = Pick<Model, 'layers' | 'blocks' | 'standing'>;

export interface SplitOptions extends OwnedOptions {
  /** Where absent, min(B, 4·stages), but a micro-batch for each lane, and as many as the schedule allows. */
  readonly microBatches?: number;
  /** The most stages; fewer donors have fewer. Of a schedule with an owner table of its own: exactly those. */
  readonly stages?: number;
  /** Of the schedules that have one. */
  readonly warmup?: WarmUp;
}

/** The most donors that an equal split uses. */
export const donorCapacity = ({ layers }: Pick<Model, 'layers'>): number => layers * LANES_PER_LAYER;

export const defaultMicroBatches = (samples: number, stages: number): number =>
  Math.min(samples, MICRO_BATCHES_PER_STAGE * stages);

interface Shape {
  readonly layers: readonly Range[];
  /** Donors of each stage. */
  readonly lanes: readonly number[];
  readonly microBatches: readonly MicroBatch[];
}

/** Why these donors cannot all compute, or null. */
export function splitProblem(
  model: SplitModel,
  samples: number,
  donors: number,
  options: SplitOptions = {},
): string | null {
  const { microBatches, stages } = options;
  if (stages !== undefined && stages > model.layers) return `${stages} stages do not fit ${model.layers} layers`;
  if (microBatches !== undefined && microBatches > samples)
    return `${samples} samples do not make ${microBatches} micro-batches`;
  if (ownedStages(donors, options) !== null) return ownedProblem(model, samples, donors, options);
  const most = stages === undefined ? model.layers : Math.min(stages, donors);
  const lanes = Math.ceil(donors / most);
  const parts = microBatches ?? samples;
  if (lanes <= parts) return null;
  const given = microBatches === undefined ? `${samples} samples a step` : `${microBatches} micro-batches`;
  return `not every one of ${donors} donors can compute: a stage would have ${lanes} lanes for ${given}`;
}

export function equalSplit(
  model: SplitModel,
  samples: number,
  peers: readonly PeerId[],
  options: SplitOptions = {},
): Plan {
  return withEvenState(model, equalWork(model, samples, peers, options));
}

/** Its stages alone, without state. */
function equalWork(model: SplitModel, samples: number, peers: readonly PeerId[], options: SplitOptions): Plan {
  const problem = splitProblem(model, samples, peers.length, options);
  invariant(problem === null && peers.length > 0, problem ?? 'a plan needs a peer');
  return seat(peers, shapeOf(model, samples, peers.length, options), options);
}

/** The same with the stages' layers given: lanes, micro-batches and state as equal as can be. */
export function splitAlong(
  model: SplitModel,
  samples: number,
  peers: readonly PeerId[],
  layers: readonly Range[],
  options: SplitOptions = {},
): Plan {
  return withEvenState(model, seat(peers, shape(model, samples, peers.length, layers, options), options));
}

function seat(peers: readonly PeerId[], shape: Shape, options: SplitOptions): Plan {
  const { layers, microBatches } = shape;
  const crews =
    ownedStages(peers.length, options) === null
      ? lanesWith(peers, shape)
      : ownedCrews(peers, layers.length, microBatches, options);
  const { schedule = 'gpipe', warmup } = options;
  const stages = layers.map((range, stage): PlanStage => {
    // Varuna's stages compute again, all but the last (SC16).
    const isAgain = schedule === 'varuna' && stage < layers.length - 1;
    const members = at(crews, stage).map(({ peer, carried }) => ({
      ...{ peer, microBatches: carried.map(({ id }) => id), recompute: isAgain ? firstLayers(range) : [] },
      samples: totalOf(carried, (one) => sizeOf(one)),
    }));
    return { layers: range, members };
  });
  return { stages, microBatches, state: [], schedule, ...(warmup === 'overlap' && { warmup }) };
}

function lanesWith(
  peers: readonly PeerId[],
  { lanes, microBatches }: Shape,
): ReturnType<typeof ownedCrews<MicroBatch>> {
  const firstLane = lanes.map((_, stage) => total(lanes.slice(0, stage)));
  return lanes.map((count, stage) => {
    const from = firstLane[stage] ?? 0;
    const hands = deal(microBatches, count);
    return peers.slice(from, from + count).map((peer, lane) => ({ peer, carried: at(hands, lane).microBatches }));
  });
}

function withEvenState(model: SplitModel, work: Plan): Plan {
  const state = model.blocks.map(({ name, elements }) => {
    const holders = at(work.stages, homeStage(work, name)).members.map(({ peer }) => peer);
    return { block: name, shards: spread(elements, holders) };
  });
  return { ...work, state };
}

function shapeOf(model: SplitModel, samples: number, donors: number, options: SplitOptions): Shape {
  const owned = ownedStages(donors, options);
  if (owned !== null) return evenShape(model, samples, donors, owned, options);
  if (options.stages !== undefined) return evenShape(model, samples, donors, Math.min(options.stages, donors), options);
  if (donors <= model.layers) return evenShape(model, samples, donors, donors, options);
  const mostLanes = options.microBatches ?? samples;
  const counts = arrayOf(model.layers, (index) => model.layers - index)
    .filter((stages) => (stages > 1 || model.layers === 1) && Math.ceil(donors / stages) <= mostLanes)
    .map((stages) => evenShape(model, samples, donors, stages, options));
  return counts.reduce((best, next) => (stepCost(model, next) < WORTHWHILE * stepCost(model, best) ? next : best));
}

const evenShape = (model: SplitModel, samples: number, donors: number, stages: number, options: SplitOptions): Shape =>
  shape(model, samples, donors, evenRanges(model.layers, stages), options);

function shape(
  model: SplitModel,
  samples: number,
  donors: number,
  layers: readonly Range[],
  options: SplitOptions,
): Shape {
  const lanes = lanesOf(model, layers, donors);
  const parts = options.microBatches ?? mostMicroBatches(samples, donors, layers.length, Math.max(...lanes), options);
  return { layers, lanes, microBatches: evenRanges(samples, parts).map((range, id) => ({ id, samples: range })) };
}

/** As many as there are unless told: the most that the schedule allows. */
function mostMicroBatches(
  samples: number,
  donors: number,
  stages: number,
  lanes: number,
  options: SplitOptions,
): number {
  const unit = microBatchUnit(donors, options);
  if (unit === 1) return Math.max(defaultMicroBatches(samples, stages), lanes);
  const most = defaultMicroBatches(samples, stages);
  return most - (most % unit);
}

/** Donors shared out as equal as can be; the most expensive stages, of equals the first ones, get those left over. */
function lanesOf(model: SplitModel, layers: readonly Range[], donors: number): number[] {
  const even = Math.floor(donors / layers.length);
  const byCost = layers.map((_, stage) => stage).toSorted((a, b) => cost(model, layers[b]) - cost(model, layers[a]));
  const favoured = new Set(byCost.slice(0, donors % layers.length));
  return layers.map((_, stage) => even + (favoured.has(stage) ? 1 : 0));
}

/** What a sample costs in a stage, in elements multiplied: the layers, and in the last stage the head's product with the token table. */
function cost({ layers: all, blocks: trained, standing: blocks = trained }: SplitModel, [from, to]: Range = [0, 0]) {
  const elements = new Map(blocks.map((block) => [block.name, block.elements]));
  let sum = 0;
  for (let layer = from; layer < to; layer++) sum += elements.get(layerBlock(layer)) ?? 0;
  const table = blocks.find(({ name }) => name === 'embedding')?.tensors[0]?.elements ?? 0;
  return to === all ? sum + table : sum;
}

/** GPipe's closed form: what the busiest member computes, and one micro-batch's way through the other stages. */
function stepCost(model: SplitModel, { layers, lanes, microBatches }: Shape): number {
  const largest = Math.max(...microBatches.map(sizeOf));
  const costs = layers.map((range) => cost(model, range));
  const through = totalOf(costs, (one) => one * largest);
  const times = costs.map((one, stage) => {
    const busiest = Math.max(...deal(microBatches, lanes[stage] ?? 1).map(({ samples }) => samples));
    return one * busiest + through - one * largest;
  });
  return Math.max(...times);
}

/**
 * Micro-batches in order, each to the lane with the fewest samples so far, of equals the first: with equal ones in turn.
 * It depends on the number of lanes alone, so stages with as many lanes hand each micro-batch on along one lane.
 */
function deal(microBatches: readonly MicroBatch[], lanes: number): { microBatches: MicroBatch[]; samples: number }[] {
  const hands = arrayOf(lanes, () => ({ microBatches: [] as MicroBatch[], samples: 0 }));
  for (const microBatch of microBatches) {
    const least = hands.reduce((best, hand) => (hand.samples < best.samples ? hand : best));
    least.microBatches.push(microBatch);
    least.samples += sizeOf(microBatch);
  }
  return hands;
}

const sizeOf = ({ samples: [from, to] }: MicroBatch): number => to - from;

/** A block's state over its holders, as equal as the alignment allows; a block too small for all of them goes to the first ones. */
function spread(elements: number, holders: readonly PeerId[]) {
  const units = Math.ceil(elements / SHARD_ALIGNMENT);
  return evenRanges(units, Math.min(holders.length, units)).flatMap(([from, to], index) => {
    const peer = holders[index];
    if (peer === undefined) return [];
    const range: Range = [from * SHARD_ALIGNMENT, Math.min(to * SHARD_ALIGNMENT, elements)];
    return [{ peer, range, replicas: [] }];
  });
}

export const DEFAULT_CHUNKS = 2;

/** What a command line says of them. */
interface OwnedOptions {
  readonly schedule?: ScheduleName;
  readonly stages?: number;
  readonly microBatches?: number;
  /** Stages of each donor, of interleaved and breadth-first; 2 where absent. */
  readonly chunks?: number;
  /** Of chimera; 1 where absent. */
  readonly pairs?: number;
}

const isLooped = ({ schedule }: OwnedOptions): boolean => schedule === 'interleaved' || schedule === 'breadth-first';

/**
 * The stages of schedules with owner tables of their own, donors being equals as in the equal split: interleaved and
 * breadth-first loop over the donors, each having `chunks` stages; chimera has as many stages as donors, each held twice
 * for each of `pairs` (plan/ownerTable.ts). How many micro-batches they make unless told, and why a run cannot have them.
 *
 * How many stages such a schedule has; null: it has none of its own.
 */
export function ownedStages(donors: number, options: OwnedOptions): number | null {
  if (isLooped(options)) return donors * (options.chunks ?? DEFAULT_CHUNKS);
  return options.schedule === 'chimera' ? donors : null;
}

/** Micro-batches come in multiples of so many. */
export const microBatchUnit = (donors: number, { schedule }: OwnedOptions): number =>
  schedule === 'interleaved' || schedule === 'chimera' ? donors : 1;

/** Why these donors cannot have such a schedule, with what would do; null: they can, or it is another schedule. */
function ownedProblem(
  { layers }: Pick<Model, 'layers'>,
  samples: number,
  donors: number,
  options: OwnedOptions,
): string | null {
  const { schedule, chunks = DEFAULT_CHUNKS, pairs = DEFAULT_PAIRS, microBatches } = options;
  const stages = ownedStages(donors, options);
  if (stages === null) return null;
  if (options.stages !== undefined && options.stages !== stages)
    return `${schedule} of ${counted(donors, 'donor')} has ${stages} stages, not ${options.stages}: leave out --stages`;
  const unit = microBatchUnit(donors, options);
  if (schedule === 'chimera') {
    const misfit = chimeraMisfit(donors, unit, pairs);
    if (misfit !== null) return `${misfit.replace('peers', 'donors')}: ${chimeraAdvice(donors)}`;
  }
  if (stages > layers)
    return `${schedule} of ${counted(donors, 'donor')} has ${stages} stages, more than the ${layers} layers: ${fewerStages(layers, donors, schedule, chunks)}`;
  if (microBatches === undefined)
    return samples < unit
      ? `${schedule} needs as many micro-batches as donors, and ${samples} samples do not make ${unit}: at most ${samples} donors would do`
      : null;
  const misfit = schedule === 'breadth-first' ? null : interleavedMisfit(donors, microBatches);
  if (misfit === null) return null;
  const below = microBatches - (microBatches % unit);
  return `${misfit.replace('interleaved', schedule ?? '').replace('peers', 'donors')}: ${below > 0 ? below : unit} would do`;
}

const chimeraAdvice = (donors: number): string =>
  donors % 2 === 0
    ? `--pairs ${arrayOf(donors / 2, (index) => index + 1)
        .filter((pairs) => (donors / 2) % pairs === 0)
        .join(' or ')} would do`
    : `${donors - 1 > 0 ? `${donors - 1} or ` : ''}${donors + 1} would do`;

function fewerStages(layers: number, donors: number, schedule: OwnedOptions['schedule'], chunks: number): string {
  if (schedule === 'chimera') return `${layers - (layers % 2)} donors would do`;
  const fewer = Math.min(chunks, Math.floor(layers / donors));
  return fewer >= 1 ? `--chunks ${fewer} would do` : `at most ${layers} donors would do, with --chunks 1`;
}

/**
 * What a run would need of one donor that computes all of it: more of its memory no plan of that run asks for.
 */
export function aloneBytes(model: Model, samples: number, sequence: number): number {
  const alone = peerId('alone');
  return predictedBytes(model, equalSplit(model, samples, [alone]), alone, sequence);
}

/**
 * The plan with matrices that are updated whole at their owners, and each other shard beginning at the last place up to its own
 * where it may; what has nothing then is left out.
 */
export function withAllowedCuts(model: Pick<Model, 'blocks'>, islands: Packing, plan: Plan): Plan {
  const isOwned = hasMatrices(model);
  if (cutElements(islands) === 1 && !isOwned) return plan;
  const blocks = new Map(model.blocks.map((block) => [block.name, block]));
  const state = (isOwned ? withMatrixOwners(model, plan) : plan.state).map(({ block, shards }) => {
    const cutTo = (place: number): number => shardCutUpTo(blocks.get(block) ?? { tensors: [] }, islands, place);
    const moved = shards.map((shard) => ({ ...shard, range: [cutTo(shard.range[0]), cutTo(shard.range[1])] as const }));
    return { block, shards: moved.filter(({ range: [from, to] }) => from < to) };
  });
  return { ...plan, state };
}
