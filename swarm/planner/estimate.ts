/**
 * A guess at a draft's step without simulating it, and with it the layers of each stage: for thousands of drafts in the
 * time in which one is simulated. Its one idea: a layer takes a peer the same time in whichever stage, so a stage is a
 * line in its layers, and a step is
 *   one micro-batch through all stages and links + the rest of them at whatever is slowest + the exchange of state,
 * the slowest being a stage, a link, or under 1F1B the round trip that a full pipeline waits for. What does not fit the
 * peers' memory, with every layer recomputed, takes forever.
 */
import { evenRanges } from '../base.ts';
import type { Gathered } from '../plan/plan.ts';
import type { ScheduleName } from '../schedule/action.ts';
import type { ClusterCosts, StageShape } from './clusterCosts.ts';
import type { Draft } from './draft.ts';
import { gatheredStateBytes, sparedBytes, timesAsLong } from './gathering.ts';
import type { Groups } from './grouping.ts';
import { emptyTimes, type LayerCut, layerCut, type StageTimes } from './layerCut.ts';
import { exchangeSeconds, hopBetween, tiedExchangeSeconds } from './linkGuess.ts';
import { remembered } from './remembered.ts';
import { inFlightAt, type Lanes, lanesOf, shortage } from './stageGuess.ts';
import { stateBytes, wayOut } from './statePlacement.ts';

/** A keeper holds about so many bytes of a stage's state for each of its own: values and sums take the rest. */
const KEPT_STATE = 0.4;

/** Of a layer there and back. */
const FORWARD_PART = 1 / 3;

export interface Estimated {
  readonly draft: Draft;
  readonly seconds: number;
  /** What the peers lack for it; 0: it fits, as far as can be seen here. */
  readonly missingBytes: number;
}

/**
 * `layers` of each stage where they are settled; else they are cut here. Keepers have room for state. `gathered`: blocks
 * that each stage has whole at a time, 0 for all of them.
 */
export function estimate(
  costs: ClusterCosts,
  groups: Groups,
  microBatches: number | 'sized',
  schedule: ScheduleName,
  layers?: readonly number[],
  keepers: readonly number[] = [],
  gathered: Draft['gathered'] = [],
): Estimated | null {
  const count = microBatches === 'sized' ? costs.batch.samples : microBatches;
  const most = costs.model.layers - groups.length + 1;
  if (most < 1 || groups.some((group) => group.length > count || group.length === 0)) return null;
  const samples = Math.ceil(costs.batch.samples / count);
  const kept = { ...(keepers.length > 0 && { keepers }), ...(gathered.length > 0 && { gathered }) };
  const keptBytes = keepers.reduce((sum, place) => sum + (costs.peers[place]?.memoryBytes ?? 0) * KEPT_STATE, 0);
  const lanes = groups.map((group, stage) =>
    knownLanes(costs, group, count * (costs.model.layers + 1) + stage, () => lanesOf(costs, group, count, samples)),
  );
  const width = lanes.reduce((most, { even }) => Math.max(most, even), 1);
  const hops = hopsOf(costs, groups, lanes, count, schedule);
  const stages = groups.map((group, stage) => {
    const inFlight = inFlightAt(schedule, groups.length, stage, count, width);
    const whole = gathered[stage] ?? 0;
    const place: Place = { stages: groups.length, stage, count, samples, inFlight, keptBytes, gathered: whole };
    const make = () => stageOf(costs, group, lanes[stage], place);
    return keptBytes > 0 || whole > 0 ? make() : knownStages(costs, group, keyOf(costs, place), make);
  });
  const cut = layers
    ? settled(layers, stages, hops.rest)
    : layerCut(stages.length, costs.model.layers, timesOf(stages, most), hops.rest);
  if (cut === null) {
    const nearest = layers ?? evenRanges(costs.model.layers, stages.length).map(([from, to]) => to - from);
    const missingBytes = nearest.reduce((sum, own, stage) => sum + (stages[stage]?.missing(own) ?? 0), 0);
    const draft: Draft = { groups, layers: nearest, microBatches, schedule, ...kept };
    return { draft, seconds: Number.POSITIVE_INFINITY, missingBytes: Math.max(1, missingBytes) };
  }
  const wait = schedule === '1f1b' ? roundTripRest(stages, cut.layers, width, hops.each, count) : 0;
  const slowest = wait === 0 ? 0 : restOf(stages, cut.layers, hops.rest);
  const tied =
    stages.length > 1 && costs.model.tied ? tiedExchangeSeconds(costs, groups[0] ?? [], groups.at(-1) ?? []) : 0;
  const draft: Draft = { groups, layers: cut.layers, microBatches, schedule, ...kept };
  const recompute = recomputeSeconds(stages, cut.layers, hops.rest, count);
  const after = cut.layers.reduce((most, own, index) => {
    const stage = stages[index];
    return stage ? Math.max(most, stage.after + (own - 1) * stage.afterLayer) : most;
  }, 0);
  return {
    draft,
    seconds: cut.seconds + recompute + after + hops.through + tied + Math.max(0, wait - slowest),
    missingBytes: 0,
  };
}

// Most drafts differ from the one before in a group or two.
const knownLanes = remembered<Lanes>();
const knownStages = remembered<Stage>();

/** One number for all that a guess at a stage depends on beside its peers, where there is no keeper. */
const keyOf = ({ model: { layers }, batch }: ClusterCosts, { stages, stage, count, inFlight }: Place): number =>
  ((count * (batch.samples + 1) + inFlight) * (layers + 1) + stages) * (layers + 1) + stage;

/** Lines in the layers: seconds of the first one and of each more. */
interface Stage {
  readonly lanes: number;
  readonly through: number;
  readonly throughLayer: number;
  readonly rest: number;
  readonly restLayer: number;
  /** Its new values. */
  readonly after: number;
  readonly afterLayer: number;
  /** Layers that its peers hold at most. */
  readonly most: number;
  readonly missing: (layers: number) => number;
  /** The part of so many layers that is recomputed for want of memory. */
  readonly again: (layers: number) => number;
}

interface Place {
  /** Of the pipeline. */
  readonly stages: number;
  readonly stage: number;
  readonly count: number;
  readonly samples: number;
  /** Micro-batches of all its lanes that are in flight at once, at most. */
  readonly inFlight: number;
  /** Of the stage's state, with keepers. */
  readonly keptBytes: number;
  readonly gathered: Gathered | 0;
}

function stageOf(
  costs: ClusterCosts,
  group: readonly number[],
  lanes: Lanes = NO_LANES,
  { stages, stage, samples, inFlight, keptBytes, gathered }: Place,
): Stage {
  const [first, last] = [stage === 0, stage === stages - 1];
  const blocks = blockElements(costs);
  const isAlone = group.length === 1 && keptBytes === 0;
  const hasMasters = costs.hasMasters(group);
  const short = shortage(costs, group, {
    ...{ samples, inFlight },
    ...(gathered && { spared: (shape, compute) => sparedBytes(costs, shape, gathered, compute) }),
  });
  const lacking = (layers: number, isRecomputed: boolean): number => {
    const shape: StageShape = { first, last, layers };
    const out = outBytes(blocks, shape, group.length);
    if (gathered) return short(shape, out + gatheredState(blocks, shape, gathered), isRecomputed);
    const state = stateOf(blocks, shape, isAlone, hasMasters);
    return short(shape, out + Math.max(0, state - keptBytes), isRecomputed);
  };
  const missing = (layers: number): number => Math.max(0, lacking(layers, true));
  const recomputedPart = (layers: number): number => {
    const most = lacking(layers, false);
    return most <= 0 ? 0 : most / (most + Math.max(0, -lacking(layers, true)));
  };
  const again: number[] = [];
  const one: StageShape = { first, last, layers: 1 };
  // Slices go before the commit, beside what others still do; values after it. What is gathered does neither.
  const exchange = gathered ? 0 : exchangeSeconds(costs, group) / 2;
  const slower = gathered ? timesAsLong(costs, group, samples, gathered) : 1;
  const [throughLayer, wholeLayer] = [slower * lanes.through, slower * lanes.whole];
  const through = costs.stageLayers(one) * throughLayer;
  return {
    lanes: lanes.even,
    through,
    throughLayer,
    rest: costs.stageLayers(one) * wholeLayer - through + elementsOf(blocks, one) * exchange,
    restLayer: wholeLayer - throughLayer + blocks.layer * exchange,
    after: elementsOf(blocks, one) * exchange,
    afterLayer: blocks.layer * exchange,
    most: mostHeld(costs.model.layers - stages + 1, missing),
    missing,
    again(layers) {
      const found = again[layers] ?? recomputedPart(layers);
      again[layers] = found;
      return found;
    },
  };
}

const NO_LANES: Lanes = { count: 1, even: 1, through: 0, whole: 0, shares: [1] };

function mostHeld(most: number, missing: (layers: number) => number): number {
  let [low, high] = [0, most];
  if (missing(most) === 0) return most;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (missing(middle) === 0) low = middle;
    else high = middle - 1;
  }
  return low;
}

function timesOf(stages: readonly Stage[], most: number): StageTimes {
  const times = emptyTimes(stages.length, stages.length + most - 1);
  for (const [index, { through, throughLayer, rest, restLayer, most: held }] of stages.entries()) {
    const row = index * (most + 1);
    for (let count = 1; count <= held; count++) {
      times.through[row + count] = through + (count - 1) * throughLayer;
      times.rest[row + count] = rest + (count - 1) * restLayer;
    }
  }
  return times;
}

function settled(layers: readonly number[], stages: readonly Stage[], leastRest: number): LayerCut | null {
  let seconds = restOf(stages, layers, leastRest);
  for (const [index, own] of layers.entries()) {
    const stage = stages[index];
    if (!stage || own > stage.most) return null;
    seconds += stage.through + (own - 1) * stage.throughLayer;
  }
  return { layers, seconds };
}

/** How much longer it takes as memory asks for recompute: a forward is about a third of a layer's time. */
function recomputeSeconds(
  stages: readonly Stage[],
  layers: readonly number[],
  leastRest: number,
  count: number,
): number {
  let through = 0;
  let rest = leastRest;
  for (const [index, own] of layers.entries()) {
    const stage = stages[index];
    if (!stage) continue;
    const more = FORWARD_PART * stage.again(own) * (stage.through + (own - 1) * stage.throughLayer);
    through += more;
    rest = Math.max(rest, stage.rest + (own - 1) * stage.restLayer + (more * (count - 1)) / stage.lanes);
  }
  return through + rest - restOf(stages, layers, leastRest);
}

const restOf = (stages: readonly Stage[], layers: readonly number[], leastRest: number): number =>
  stages.reduce(
    (most, { rest, restLayer }, index) => Math.max(most, rest + ((layers[index] ?? 1) - 1) * restLayer),
    leastRest,
  );

/** One micro-batch over all hops there and back, and how much longer the slowest hop takes for all of them. */
function hopsOf(costs: ClusterCosts, groups: Groups, lanes: readonly Lanes[], count: number, schedule: ScheduleName) {
  const each: number[] = [];
  let rest = 0;
  for (let stage = 1; stage < groups.length; stage++) {
    const hop = hopBetween(costs, groups, lanes, stage, count);
    each.push(hop.through);
    // Under gpipe activations and gradients take turns; under 1F1B they travel side by side.
    const whole = schedule === '1f1b' ? Math.max(hop.forward, hop.backward) : hop.forward + hop.backward;
    rest = Math.max(rest, whole - hop.through);
  }
  return { each, rest, through: each.reduce((sum, hop) => sum + hop, 0) };
}

/**
 * A stage of 1F1B starts a micro-batch for each that comes back: it cannot be faster than the way there and back lets it.
 * The busiest lane of the widest stage has as many in flight as stages are left, all others as many as keep it fed.
 */
function roundTripRest(
  stages: readonly Stage[],
  layers: readonly number[],
  width: number,
  hops: readonly number[],
  count: number,
): number {
  let most = 0;
  let roundTrip = 0;
  for (let stage = stages.length - 1; stage >= 0; stage--) {
    const own = stages[stage];
    roundTrip += (own?.through ?? 0) + ((layers[stage] ?? 1) - 1) * (own?.throughLayer ?? 0) + (hops[stage] ?? 0);
    const inFlight = width * (stages.length - stage);
    most = Math.max(most, (count / inFlight - 1) * roundTrip);
  }
  return most;
}

interface BlockElements {
  readonly layer: number;
  readonly embedding: number;
  readonly head: number;
  readonly tied: boolean;
}

const known = new WeakMap<ClusterCosts, BlockElements>();

function blockElements(costs: ClusterCosts): BlockElements {
  const of = (name: string): number => costs.model.blocks.find((block) => block.name === name)?.elements ?? 0;
  const found = known.get(costs) ?? {
    layer: of('layer.0'),
    embedding: of('embedding'),
    head: of('head'),
    tied: costs.model.tied,
  };
  known.set(costs, found);
  return found;
}

const stateOf = (
  { layer, embedding, head, tied }: BlockElements,
  { first, last, layers }: StageShape,
  alone: boolean,
  hasMasters: boolean,
): number =>
  stateBytes(
    [
      { elements: layer, count: layers, shared: !alone },
      { elements: embedding, count: first ? 1 : 0, shared: !alone || (tied && !last) },
      { elements: head, count: last ? 1 : 0, shared: !alone },
    ],
    hasMasters,
  );

const gatheredState = (
  { layer, embedding, head }: BlockElements,
  { first, last, layers }: StageShape,
  gathered: Gathered,
): number =>
  gatheredStateBytes(
    [...Array.from({ length: layers }, () => layer), ...(first ? [embedding] : []), ...(last ? [head] : [])],
    gathered,
  );

function outBytes({ layer, embedding, head }: BlockElements, { first, last }: StageShape, members: number): number {
  const { shared, each } = wayOut([layer, first ? embedding : 0, last ? head : 0]);
  return shared + each * members;
}

const elementsOf = ({ layer, embedding, head }: BlockElements, { first, last, layers }: StageShape): number =>
  layers * layer + (first ? embedding : 0) + (last ? head : 0);
