/**
 * A draft (layout.ts) judged: whether its peers' memory holds it, and what its step takes, in numbers alone. And the plan that
 * it stands for, of which is known to the byte what its peers allocate.
 */
import { addToKey, arrayOf, at, got, type PeerId, type Range, total, totalOf } from '../base.ts';
import { hostBytes, shardBuffers, stagesOfPeer, wiresOf } from '../memory/memory.ts';
import { hasMatrices } from '../model/matrices.ts';
import {
  type BlockState,
  holders,
  homeStage,
  keepersOf,
  type Member,
  type MicroBatch,
  owner,
  type Plan,
  type PlanStage,
  peers as peersOf,
} from '../plan/plan.ts';
import { sizeOf } from '../plan/shardCuts.ts';
import { FLOAT_BYTES } from '../plan/stateKinds.ts';
import { withStateSent } from '../plan/tokenRows.ts';
import type { Schedule } from '../schedule/action.ts';
import { build } from '../schedule/lower.ts';
import { firstLayers } from '../schedule/recompute.ts';
import { planSlots } from '../schedule/slots.ts';
import { WIRE_ENCODINGS, type WireEncoding } from '../wire.ts';
import { type ClusterCosts, sharedAmong } from './clusterCosts.ts';
import { withAllowedCuts } from './equalSplit.ts';
import { forecast, linksCountedOn, shapeOf } from './forecast.ts';
import { isFast, sparedBytes } from './gathering.ts';
import {
  type CutSketch,
  type Draft,
  fitStage,
  hostedByKeepers,
  keeperRooms,
  type Layout,
  layoutOf,
  type Order,
  PLAIN,
  type Shares,
  type Sketch,
  shapesOf,
  workOrder,
} from './layout.ts';
import { inMainMemory } from './mainMemory.ts';
import { type Fit, leastSeconds, partOf, secondsOf, wholeOf } from './stepTime.ts';
import { withChosenWires, withTightestWires } from './streamWires.ts';

export interface Judged {
  readonly draft: Draft;
  /** Infinity where the peers' memory does not hold it. */
  readonly seconds: number;
  readonly missingBytes: number;
  /** Some of its state lies in main memory. */
  readonly isHosted: boolean;
}

type Laid = readonly [Layout, Order];

function fitDraft(costs: ClusterCosts, draft: Draft, [layout, order]: Laid): Fit {
  const keepers = keeperRooms(costs, draft.keepers);
  const fitted = shapesOf(draft).map((shape, stage) => {
    const own = at(layout.stages, stage);
    const gathered = draft.gathered[stage] ?? 0;
    const load = { shape, slots: at(order.slots, stage), gathered, inHost: draft.inHost };
    return fitStage(costs, own, load, draft.placement, keepers);
  });
  return {
    missingBytes: totalOf(fitted, ({ missingBytes }) => missingBytes),
    missing: fitted.map(({ missingBytes }) => missingBytes),
    lacking: fitted.map(({ lacking }) => lacking),
    hasExcess: fitted.some(({ excess }) => excess > 0),
    recomputed: fitted.map(({ recomputed }) => recomputed),
    shares: fitted.map(({ shares }) => shares),
    hosted: new Map([...fitted.flatMap(({ hosted }) => [...hosted]), ...hostedByKeepers(costs, keepers)]),
  };
}

/** Under gpipe all micro-batches are in flight at once: more of them take memory and save next to nothing. */
const MOST_IN_FLIGHT = 1_024;

/**
 * Null where the sketch makes no draft: too few layers or samples, or too many micro-batches at once. What certainly takes
 * longer than `limit` is not looked at closer; null too.
 */
export function judgeDraft(
  all: ClusterCosts,
  sketch: Sketch,
  { mayGather = all.gathers, limit = Infinity }: { readonly mayGather?: boolean; readonly limit?: number } = {},
): Judged | null {
  const {
    groups,
    microBatches,
    schedule,
    warmup = 'normal',
    placement = 'room',
    keepers = [],
    inHost = false,
  } = sketch;
  const costs = all.hasLines ? sharedAmong(all, [...groups.flat(), ...keepers]) : all;
  if (schedule === 'gpipe' && microBatches !== 'sized' && microBatches > MOST_IN_FLIGHT) return null;
  const most = sketch.layers ?? groups.map(() => costs.model.layers);
  const layers = sketch.layers ?? evenLayers(costs, sketch, most);
  const { gathered, layered } = PLAIN;
  let draft: Draft = { groups, layers, microBatches, schedule, warmup, placement, keepers, inHost, gathered, layered };
  if (limit < Infinity && busySeconds(costs, draft) > limit) return null;
  const layout = partOf(costs, draft);
  const whole = layout && wholeOf(costs, draft, layout);
  if (layout === null || whole === null) return null;
  const withState = !mayGather && keepers.length === 0;
  if (limit < Infinity && leastSeconds(costs, draft, whole, { withState, limit }) > limit) return null;
  const laid = [layout, workOrder(layout, draft)] as const;
  let fit = fitDraft(costs, draft, laid);
  if (!sketch.layers && !fit.hasExcess)
    [draft, fit] = withinMemory(costs, draft, laid, fit, mayGather ? Infinity : limit);
  let best = timed(costs, draft, laid, fit, limit);
  if (!mayGather || !fit.lacking.some((bytes) => bytes > 1)) return best;
  for (const [tried, its] of [[draft, laid] as const, ...together(costs, draft)]) {
    const [gathered, sparing] = gathering(costs, tried, its, fit);
    if (gathered === tried) continue;
    const other = timed(costs, gathered, its, sparing, limit);
    if (other && (best === null || isBetter(other, best))) best = other;
  }
  return best;
}

const isBetter = (one: Judged, other: Judged): boolean =>
  one.missingBytes < other.missingBytes || (one.missingBytes === 0 && one.seconds < other.seconds);

/** The same with all micro-batches of a pass through each layer at once, where it is one stage and somebody has several. */
function together(costs: ClusterCosts, draft: Draft): (readonly [Draft, Laid])[] {
  const { groups, microBatches } = draft;
  if (groups.length > 1 || microBatches === 'sized' || microBatches > MOST_IN_FLIGHT) return [];
  const layered: Draft = { ...draft, schedule: 'gpipe', warmup: 'normal', layered: true };
  const layout = layoutOf(costs, layered);
  const isAny = layout?.stages.some(({ carried }) => carried.some((count) => count > 1));
  return layout && isAny ? [[layered, [layout, workOrder(layout, layered)]]] : [];
}

/** Null: it takes longer than `limit`. */
function timed(costs: ClusterCosts, draft: Draft, laid: Laid, fit: Fit, limit: number): Judged | null {
  const { missingBytes, hosted } = fit;
  const isHosted = hosted.size > 0;
  if (missingBytes > 0) return { draft, seconds: Infinity, missingBytes, isHosted };
  const seconds = secondsOf(costs, draft, laid, fit, limit);
  return seconds > limit ? null : { draft, seconds, missingBytes, isHosted };
}

/** Work alone, were a stage's shared out among its peers to the second. */
function busySeconds(costs: ClusterCosts, { groups, layers, microBatches }: Draft): number {
  if (microBatches === 'sized') return 0;
  const size = Math.max(1, Math.floor(costs.batch.samples / microBatches));
  let most = 0;
  for (let stage = 0; stage < groups.length; stage++) {
    let speed = 0;
    for (const place of at(groups, stage)) {
      const peer = at(costs.peers, place);
      speed += 1 / (costs.passSeconds(peer, size) * (1 - peer.rest));
    }
    const shape = { first: stage === 0, last: stage === groups.length - 1, layers: at(layers, stage) };
    most = Math.max(most, (microBatches * costs.stageLayers(shape)) / speed);
  }
  return most;
}

/** Where the GPUs of a stage lack memory and its links are fast it gathers its layers, two at a time or one. */
function gathering(costs: ClusterCosts, draft: Draft, laid: Laid, fit: Fit): [Draft, Fit] {
  const [layout] = laid;
  const lacks = layout.stages.map((own, stage) => at(fit.lacking, stage) > 1 && hasFast(costs, draft, layout, own));
  if (!lacks.includes(true)) return [draft, fit];
  let [best, least] = [draft, fit];
  for (const whole of [2, 1] as const) {
    const tried = { ...draft, gathered: lacks.map((own) => (own ? whole : 0)) };
    const now = fitDraft(costs, tried, laid);
    const isFirst = best === draft && now.missingBytes <= least.missingBytes;
    if (isFirst || now.missingBytes < least.missingBytes) [best, least] = [tried, now];
    if (least.missingBytes === 0 && best !== draft) break;
  }
  return [best, least];
}

/** As many layers to each stage, and no more than these, as make the slowest one as fast as can be. */
function evenLayers(costs: ClusterCosts, { groups, microBatches }: Sketch, most: readonly number[]): number[] {
  const { samples } = costs.batch;
  const size = microBatches === 'sized' ? 1 : Math.ceil(samples / microBatches);
  const seconds = groups.map((group, stage) => {
    const speed = totalOf(group, (place) => 1 / costs.passSeconds(at(costs.peers, place), size));
    const [first, last] = [stage === 0, stage === groups.length - 1];
    return (layers: number): number => costs.stageLayers({ first, last, layers }) / speed;
  });
  const layers = groups.map(() => 1);
  for (let left = costs.model.layers - groups.length; left > 0; left--) {
    let [best, least] = [-1, Infinity];
    for (const [stage, own] of layers.entries()) {
      const after = at(seconds, stage)(own + 1);
      if (own < at(most, stage) && after < least) [best, least] = [stage, after];
    }
    if (best < 0) break;
    layers[best] = at(layers, best) + 1;
  }
  return layers;
}

/** Layers taken from stages that lack memory, one at a time, as long as the others can have them within the limit. */
function withinMemory(costs: ClusterCosts, draft: Draft, laid: Laid, fit: Fit, limit: number): [Draft, Fit] {
  const most = draft.layers.map(() => costs.model.layers);
  let [tried, now]: [Draft, Fit] = [draft, fit];
  let [best, least]: [Draft, Fit] = [draft, fit];
  while (now.missingBytes > 0) {
    for (const [stage, bytes] of now.missing.entries())
      if (bytes > 0) most[stage] = Math.min(at(most, stage), at(tried.layers, stage) - 1);
    const room = total(most);
    if (room < costs.model.layers || most.includes(0)) break;
    tried = { ...draft, layers: evenLayers(costs, draft, most) };
    if (limit < Infinity && busySeconds(costs, tried) > limit) break;
    now = fitDraft(costs, tried, laid);
    if (now.missingBytes < least.missingBytes) [best, least] = [tried, now];
  }
  return [best, least];
}

/** Layers are never gathered over slow links. */
const hasFastLinks = (costs: ClusterCosts, draft: Draft, layout: Layout): boolean =>
  layout.stages.every((own, stage) => !draft.gathered[stage] || hasFast(costs, draft, layout, own));

const hasFast = (
  costs: ClusterCosts,
  { layered }: Draft,
  { sizes }: Layout,
  { places, carried }: Layout['stages'][number],
): boolean => isFast(costs, places, Math.max(...sizes), layered ? Math.min(...carried) : 1);

/** Shards begin at multiples of this many elements, the alignment of tensors on a GPU. */
const SHARD_ALIGNMENT = 64;
/** Units that a shard's array may have between its tensors: each begins at one. */
const GAP_UNITS = 32;
/** Of a block's shards: more cost more than they help. */
const MOST_PIECES = 64;
/** Bytes a second of a link without bounds, beside others. */
const MOST_RATE = 1e12;

/** The plan, and how many bytes its peers lack for it; null where the draft is none. */
interface Drafted {
  readonly plan: Plan;
  readonly missingBytes: number;
}

export function planOf(all: ClusterCosts, sketch: CutSketch): Drafted | null {
  const draft = { ...PLAIN, ...sketch };
  const costs = sharedAmong(all, [...draft.groups.flat(), ...draft.keepers]);
  const layout = layoutOf(costs, draft);
  if (layout === null || !hasFastLinks(costs, draft, layout)) return null;
  const { missingBytes, recomputed, shares } = fitDraft(costs, draft, [layout, workOrder(layout, draft)]);
  const batches = batchesOf(layout.sizes);
  let from = 0;
  const stages = layout.stages.map(({ places, laneOf }, stage): PlanStage => {
    const layers: Range = [from, from + at(draft.layers, stage)];
    from = layers[1];
    const carried = places.map((): number[] => []);
    for (const [id, lane] of laneOf.entries()) at(carried, lane).push(id);
    const members = places.map((place, lane): Member => {
      const microBatches = at(carried, lane);
      return {
        peer: at(costs.peers, place).id,
        microBatches,
        samples: totalOf(microBatches, (id) => at(layout.sizes, id)),
        recompute: firstLayers(layers, at(at(recomputed, stage), lane)),
      };
    });
    const gathered = draft.gathered[stage];
    return { layers, members, ...(gathered && { gathered }), ...(gathered && draft.layered && { layered: true }) };
  });
  const { schedule, warmup } = draft;
  const isOverlapping = warmup === 'overlap' && stages.length > 1;
  const drawn: Plan = { stages, microBatches: batches, state: [], schedule, ...(isOverlapping && { warmup }) };
  const bare = withStateSent(costs.model, drawn, costs.batch);
  const plan = costs.batch.wire === 'auto' ? withTightestWires(bare) : bare;
  const state = stateOf(costs, plan, shares);
  const whole = withAllowedCuts(costs.model, costs.batch.islands, { ...plan, state });
  return { plan: relieved(costs, whole), missingBytes };
}

/** With as few shards in main memory as its peers' GPUs have no room for. */
function relieved(costs: ClusterCosts, plan: Plan): Plan {
  const giving = costs.peers.filter((peer) => costs.hostElements(peer) > 0);
  if (giving.length === 0) return plan;
  const room = new Map(costs.peers.map(({ id, memoryBytes }) => [id, memoryBytes]));
  const bytes = memoryWith(costs, plan);
  return inMainMemory(
    plan,
    peersOf(plan).filter((peer) => giving.some(({ id }) => id === peer)),
    {
      lacks: (moved, peer) => bytes(peer, stateByPeer(moved).get(peer) ?? []) - got(room, peer),
      hosts: new Map(giving.map((peer) => [peer.id, peer.hostBytes])),
      mayCut: !hasMatrices(costs.model),
    },
  );
}

function batchesOf(sizes: Int32Array): MicroBatch[] {
  let end = 0;
  return Array.from(sizes, (size, id) => {
    end += size;
    return { id, samples: [end - size, end] };
  });
}

/** Each block of a stage cut in the proportion of its shares. */
export function stateOf({ model, peers }: ClusterCosts, plan: Plan, shares: readonly Shares[]): Plan['state'] {
  return model.blocks.map(({ name, elements }) => {
    const parts = [...at(shares, homeStage(plan, name))];
    const units = Math.ceil(elements / SHARD_ALIGNMENT);
    const whole = totalOf(parts, ([, share]) => share);
    let reached = 0;
    let before = 0;
    const shards = parts.flatMap(([place, share], index) => {
      before += whole > 0 ? share / whole : 1 / parts.length;
      const end = index === parts.length - 1 ? units : Math.min(units, Math.round(before * units));
      const from = reached;
      reached = Math.max(reached, end);
      if (reached === from) return [];
      // Who computes with a block takes all of it in one buffer; who only keeps its state may not.
      const {
        id,
        buffers: { bufferBytes },
      } = at(peers, place);
      const most = Math.max(bufferBytes / (FLOAT_BYTES * SHARD_ALIGNMENT) - GAP_UNITS, units / MOST_PIECES);
      return pieces([from, reached], most).map((piece) => {
        const range: Range = [piece[0] * SHARD_ALIGNMENT, Math.min(piece[1] * SHARD_ALIGNMENT, elements)];
        return { peer: id, range, replicas: [] };
      });
    });
    return { block: name, shards };
  });
}

/** Equal pieces of at most so much each. */
function pieces([from, to]: Range, most: number): Range[] {
  const count = Math.max(1, Math.ceil((to - from) / most));
  const end = (index: number): number => from + Math.round(((to - from) * index) / count);
  return arrayOf(count, (index): Range => [end(index), end(index + 1)]);
}

/** What each peer of a plan allocates, buffer by buffer, and what it says it needs beyond that. `wires`: of every link, in place of the plan's. */
export function memoryOf(
  costs: ClusterCosts,
  plan: Plan,
  schedule: Schedule = build(plan),
  wires?: readonly WireEncoding[],
): Map<PeerId, number> {
  const bytes = memoryWith(costs, plan, schedule, wires);
  const kept = stateByPeer(plan);
  return new Map(peersOf(plan).map((id) => [id, bytes(id, kept.get(id) ?? [])]));
}

/** The same; null where some peer has less, on its GPU or in main memory. */
export function memoryWithin(costs: ClusterCosts, plan: Plan): Map<PeerId, number> | null {
  const memory = memoryOf(costs, plan);
  const fits = costs.peers.every(
    ({ id, memoryBytes, hostBytes: given }) =>
      (memory.get(id) ?? 0) <= memoryBytes && !(costs.givesMainMemory && hostBytes(plan, id, undefined) > given),
  );
  return fits ? memory : null;
}

/** What a peer that keeps these shards allocates. */
export function memoryWith(
  costs: ClusterCosts,
  plan: Plan,
  schedule: Schedule = build(plan),
  ofAll?: readonly WireEncoding[],
): (id: PeerId, kept: readonly BlockState[]) => number {
  const inFlight = planSlots(plan, schedule);
  const whole = holders(costs.model, plan);
  const known = new Map<PeerId, number>();
  const peerOf = (id: PeerId) => costs.peers[costs.placeOf(id)];
  const keptElements = (state: readonly BlockState[]): number =>
    totalOf(state, ({ shards }) => totalOf(shards, sizeOf));
  const beside = (id: PeerId): number => {
    const peer = peerOf(id);
    const compute = peer?.compute ?? null;
    let bytes = 0;
    const { sequence, wire = 'f32' } = costs.batch;
    const wires = ofAll ?? wiresOf(plan, id, wire);
    for (const [stage, { samples, slots, recompute = [], recomputesAhead, keepsMade }] of stagesOfPeer(
      plan,
      id,
      sequence,
      'f32',
      'f32',
      inFlight,
    )) {
      const shape = shapeOf(plan, stage);
      const load = { samples, slots, recomputed: recompute.length, ...(keepsMade && { keepsMade }) };
      bytes += costs.memory.stageBytes(shape, load, compute, wires);
      if (recomputesAhead) bytes += costs.memory.aheadBytes(samples, compute);
      const { gathered } = plan.stages[stage] ?? {};
      if (gathered) bytes -= sparedBytes(costs, shape, gathered, compute);
      if (peer) bytes += costs.extraBytes(peer, shape.layers, load);
    }
    return bytes;
  };
  return (id, state) => {
    const own = { ...plan, state };
    const compute = costs.peers[costs.placeOf(id)]?.compute ?? costs.batch.compute;
    const work = known.get(id) ?? beside(id);
    known.set(id, work);
    const planes = costs.planeBytes * keptElements(state);
    return shardBuffers(costs.model, own, id, whole, compute).reduce(
      (sum, buffer) => sum + buffer.bytes,
      work + Math.max(0, planes - (peerOf(id)?.hostBytes ?? 0)),
    );
  };
}

/** The plan with the connections that it counts on; where the run leaves the encodings to it, with the tightest ones. */
export function withConnections(costs: ClusterCosts, plan: Plan): Plan {
  const counted = linksCountedOn(costs, plan);
  const whole = counted.length === 0 ? plan : { ...plan, links: counted };
  return costs.batch.wire === 'auto' ? withTightestWires(whole) : whole;
}

/** The same, and each link's stream as exact as is about as fast; no step takes longer than `longestSeconds` for it. */
export function withLinks(costs: ClusterCosts, plan: Plan, longestSeconds?: number): Plan {
  const tight = withConnections(costs, plan);
  if (costs.batch.wire !== 'auto') return tight;
  const bytes = roomyBytes(costs, tight);
  const peerOf = (id: PeerId) => at(costs.peers, costs.placeOf(id));
  return withChosenWires(tight, {
    ...(longestSeconds === undefined ? {} : { longestSeconds }),
    rate: (from, to) =>
      Math.min(costs.link(from, to).bytesPerSecond ?? MOST_RATE, peerOf(from).upload, peerOf(to).download),
    stepSeconds: (tried) => forecast(costs, tried).stepSeconds,
    isRoomy: (peer) => got(bytes, peer) <= peerOf(peer).memoryBytes,
  });
}

/** What each peer allocates where its links have every encoding that the run may choose. */
export const roomyBytes = (costs: ClusterCosts, plan: Plan): Map<PeerId, number> =>
  memoryOf(costs, plan, undefined, costs.batch.wire === 'auto' ? WIRE_ENCODINGS : undefined);

/** The state as each keeper sees it: the shards that it has alone. */
function stateByPeer(plan: Plan): Map<PeerId, BlockState[]> {
  const found = new Map<PeerId, BlockState[]>();
  for (const { block, shards } of plan.state) {
    for (const shard of shards) {
      for (const keeper of keepersOf(shard)) {
        const own = found.get(keeper) ?? [];
        const latest = own.at(-1);
        if (latest?.block === block) own[own.length - 1] = { block, shards: [...latest.shards, shard] };
        else own.push({ block, shards: [shard] });
        found.set(keeper, own);
      }
    }
  }
  return found;
}

/**
 * The draft that a plan is of, or the nearest one, which has one stage a peer and an order of drafts; null: somebody is not
 * here, or has links too slow for it.
 */
export function planSketch(costs: ClusterCosts, plan: Plan): Sketch | null {
  if (peersOf(plan).some((peer) => costs.placeOf(peer) < 0)) return null;
  const { layers, groups } = isOwned(plan) ? seatedOnce(costs, plan) : asPlanned(costs, plan);
  const sizes = plan.microBatches.map(({ samples: [from, to] }) => to - from);
  const largest = Math.max(...sizes);
  const slow = plan.stages.some((stage, index) => {
    const most = Math.min(...stage.members.map(({ microBatches }) => microBatches.length));
    return stage.gathered && !isFast(costs, at(groups, index), largest, stage.layered ? most : 1);
  });
  if (slow) return null;
  const isEven = largest - Math.min(...sizes) <= 1;
  const primaries = plan.state.flatMap(({ shards }) => shards.map(({ peer }) => costs.placeOf(peer)));
  const keepers = [...new Set(primaries)].filter((place) => !groups.some((group) => group.includes(place)));
  return {
    ...{ groups, layers, keepers },
    inHost: plan.state.some(({ shards }) => shards.some((shard) => shard.in === 'host')),
    microBatches: isEven ? sizes.length : 'sized',
    schedule: plan.schedule === 'gpipe' || plan.schedule === 'breadth-first' ? 'gpipe' : '1f1b',
    warmup: plan.warmup ?? 'normal',
  };
}

/** Somebody is in several stages. */
const isOwned = ({ stages }: Plan): boolean => {
  const members = stages.flatMap((stage) => stage.members.map(({ peer }) => peer));
  return new Set(members).size < members.length;
};

const layersIn = ({ layers: [from, to] }: PlanStage): number => to - from;

const asPlanned = (costs: ClusterCosts, { stages }: Plan): Pick<Draft, 'groups' | 'layers'> => ({
  groups: stages.map(({ members }) => members.map(({ peer }) => costs.placeOf(peer))),
  layers: stages.map(layersIn),
});

/** Each peer in the first stage where the way of the first micro-batch meets it, with the layers of all stages on that way. */
function seatedOnce(costs: ClusterCosts, plan: Plan): Pick<Draft, 'groups' | 'layers'> {
  const [first] = plan.microBatches;
  const layers = new Map<number, number>();
  for (const [stage, own] of plan.stages.entries()) {
    const place = costs.placeOf(owner(plan, stage, first?.id ?? 0));
    addToKey(layers, place, layersIn(own));
  }
  return { groups: [...layers.keys()].map((place) => [place]), layers: [...layers.values()] };
}
