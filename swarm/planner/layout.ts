/**
 * A draft of a plan: who is in which stage, how many layers each, how many micro-batches. And what follows from it: who
 * carries which micro-batch, in which order everyone works, and how many are in flight; all in numbers, for drafts are
 * judged by the thousand.
 * A stage has to fit into the memory of its members, which decides how many layers it computes twice and who keeps its state.
 */

import { addToKey, arrayOf, at, evenRanges, float, int, total, totalOf } from '../base.ts';
import { COUNTERS, muonBytes, PARTIALS, SCALARS } from '../memory/memory.ts';
import { alignmentOf, arena, SLICE_ELEMENTS } from '../model/layout.ts';
import { matrixElements } from '../model/matrices.ts';
import { type Block, type BlockName, parameters } from '../model/model.ts';
import type { Gathered, WarmUp } from '../plan/plan.ts';
import { FLOAT_BYTES, STATE_KINDS } from '../plan/stateKinds.ts';
import { clockPlaces, hopTicks, type Lanes } from '../schedule/oneForwardOneBackward.ts';
import { type ClusterCosts, memo, type PlannedPeer, type StageShape } from './clusterCosts.ts';
import { gatheredStateBytes, sparedBytes } from './gathering.ts';
import { extended, levelShares, type PeerCosts, sizeGroup, unitOf } from './sizing.ts';

/** A stage's members, in the order of their first micro-batches. */
export interface StageLanes extends Lanes {
  readonly places: readonly number[];
  /** Of each lane: samples of its largest micro-batch, how many micro-batches it carries, and samples of all. */
  readonly largest: Int32Array;
  readonly carried: Int32Array;
  readonly samples: Int32Array;
  /** Of each micro-batch: the next one of its lane. */
  readonly next: Int32Array;
  readonly known: KnownOfStage;
}

/** What was worked out of a stage's lanes: many drafts have the same ones. */
interface KnownOfStage {
  fits?: Map<string, OnGpus>;
  rates?: BestRates;
  /** Samples from each of its lanes to each of this next stage's. */
  over?: Map<StageLanes, Int32Array>;
}

/** Bytes a second of each lane's peer to and from the others of its stage, over the best of these links. */
export interface BestRates {
  readonly up: Float64Array;
  readonly down: Float64Array;
  readonly upSum: number;
  readonly downSum: number;
}

export interface Layout {
  /** Samples of each micro-batch. */
  readonly sizes: Int32Array;
  readonly stages: readonly StageLanes[];
}

/** In which order everyone works. */
export interface Order {
  /** Of 1F1B; null: gpipe's. */
  readonly clock: Ticks | null;
  /** Micro-batches in flight at once, of each stage's lanes. */
  readonly slots: readonly Int32Array[];
  /** The work one piece after the other (stepTime.ts), where it is written out already: for many drafts of the same shape. */
  readonly list?: Int32Array;
}

/** The clock of 1F1B (oneForwardOneBackward.ts), and the micro-batches by their places on it. */
export interface Ticks {
  /** Ticks from a stage to the next one. */
  readonly hop: number;
  /** Between neighbouring places. */
  readonly perPlace: number;
  /** Of each micro-batch. */
  readonly places: Int32Array;
}

/** The orders that drafts have: one stage a peer. */
export const DRAFT_SCHEDULES = ['gpipe', '1f1b'] as const;
type DraftSchedule = (typeof DRAFT_SCHEDULES)[number];

/** Where a stage's state lies with its members. */
type Placement = 'room' | 'links' | 'hub';

export interface Draft {
  /** Peers of each stage, as places in the costs' list. */
  readonly groups: readonly (readonly number[])[];
  /** Layers of each stage. */
  readonly layers: readonly number[];
  /** Equal ones; 'sized' (of one stage): each peer's own size. */
  readonly microBatches: number | 'sized';
  readonly schedule: DraftSchedule;
  readonly warmup: WarmUp;
  readonly placement: Placement;
  /** Peers who compute nothing, and keep what members have no room for. */
  readonly keepers: readonly number[];
  /** Main memory takes what has no room before layers are computed twice for it; else only what is left over then. */
  readonly inHost: boolean;
  /** How many blocks of each stage are whole at a time; 0, or past its end: all of them. */
  readonly gathered: readonly (Gathered | 0)[];
  /** Of one stage that gathers, under gpipe: once for all micro-batches of a pass. */
  readonly layered: boolean;
}

/** A draft with what is not PLAIN of it, and whose layers may still have to be cut: null, or absent. */
export type Sketch = Pick<Draft, 'groups' | 'microBatches' | 'schedule'> &
  Partial<Omit<Draft, 'layers'>> & { readonly layers?: readonly number[] | null };

/** One with all its layers cut. */
export type CutSketch = Sketch & Pick<Draft, 'layers'>;

/** Of most drafts. */
export const PLAIN: Omit<Draft, 'groups' | 'layers' | 'microBatches' | 'schedule'> = {
  warmup: 'normal',
  placement: 'room',
  keepers: [],
  inHost: false,
  gathered: [],
  layered: false,
};

export const shapesOf = ({ groups, layers }: Draft): StageShape[] =>
  groups.map((_, stage) => ({ first: stage === 0, last: stage === groups.length - 1, layers: at(layers, stage) }));

/** Null where the draft is none: too few layers or samples. */
export function layoutOf(costs: ClusterCosts, draft: Draft, count = draft.microBatches): Layout | null {
  const { groups, microBatches } = draft;
  const { samples } = costs.batch;
  if (groups.length > costs.model.layers) return null;
  if (microBatches === 'sized' || count === 'sized') {
    const places = at(groups, 0);
    const sized =
      groups.length === 1 ? sizedMicroBatches(costs, places, at(shapesOf(draft), 0), draft.gathered[0] ?? 0) : null;
    if (sized === null) return null;
    const { sizes, laneOf } = sized;
    return { sizes, stages: [withSums({ places, laneOf, lanes: places.length }, sizes)] };
  }
  if (microBatches > samples) return null;
  const even = evenSizes(costs, microBatches, count);
  return { sizes: even.sizes, stages: groups.map((group) => lanesOf(costs, group, even)) };
}

/** Stages of a long search that are remembered: some 20 MB of them. */
const MOST_KNOWN = 10_000;

/** Sizes of micro-batches, with what was dealt out of them, and to a single lane. */
interface Sizes {
  readonly sizes: Int32Array;
  readonly lanes: Map<string, StageLanes>;
  readonly alone: StageLanes;
}

function lanesOf(costs: ClusterCosts, group: readonly number[], { sizes, lanes: known, alone }: Sizes): StageLanes {
  const key = group.join();
  const found = known.get(key);
  if (found) return found;
  const lanes = group.length === 1 ? { ...alone, places: group, known: {} } : dealt(costs, group, sizes);
  if (known.size >= MOST_KNOWN) known.clear();
  known.set(key, lanes);
  return lanes;
}

const knownSizes = memo<Sizes>();

/** As equal as can be; of a part of the step's micro-batches each the largest. */
const evenSizes = (costs: ClusterCosts, microBatches: number, count: number): Sizes => {
  const { samples } = costs.batch;
  return knownSizes(costs, microBatches * (samples + 1) + count, () => {
    const sizes =
      count === microBatches
        ? Int32Array.from(evenRanges(samples, count), ([from, to]) => to - from)
        : new Int32Array(count).fill(Math.ceil(samples / microBatches));
    return { sizes, lanes: new Map(), alone: withSums({ places: [], laneOf: new Int32Array(count), lanes: 1 }, sizes) };
  });
};

/** Each micro-batch to the member that would end it first. Who gets none is left out. */
function dealt(costs: ClusterCosts, group: readonly number[], sizes: Int32Array): StageLanes {
  const seconds = new Float64Array(group.length);
  const own = new Float64Array(group.length);
  const laneOfMember = new Int32Array(group.length).fill(-1);
  const places: number[] = [];
  const laneOf = new Int32Array(sizes.length);
  let size = -1;
  for (let id = 0; id < sizes.length; id++) {
    if (int(sizes, id) !== size) {
      size = int(sizes, id);
      for (const [member, place] of group.entries()) own[member] = costs.passSeconds(at(costs.peers, place), size);
    }
    let best = 0;
    let end = Infinity;
    for (let member = 0; member < group.length; member++) {
      const after = float(seconds, member) + float(own, member);
      if (after < end) [best, end] = [member, after];
    }
    seconds[best] = end;
    if (int(laneOfMember, best) < 0) {
      laneOfMember[best] = places.length;
      places.push(at(group, best));
    }
    laneOf[id] = int(laneOfMember, best);
  }
  return withSums({ places, laneOf, lanes: places.length }, sizes);
}

function withSums(stage: Lanes & Pick<StageLanes, 'places'>, sizes: Int32Array): StageLanes {
  const { laneOf, lanes } = stage;
  const [largest, carried, samples] = [new Int32Array(lanes), new Int32Array(lanes), new Int32Array(lanes)];
  const latest = new Int32Array(lanes).fill(-1);
  const next = new Int32Array(sizes.length).fill(-1);
  for (let id = 0; id < sizes.length; id++) {
    const [lane, size] = [int(laneOf, id), int(sizes, id)];
    largest[lane] = Math.max(int(largest, lane), size);
    carried[lane] = int(carried, lane) + 1;
    samples[lane] = int(samples, lane) + size;
    if (int(latest, lane) >= 0) next[int(latest, lane)] = id;
    latest[lane] = id;
  }
  return { ...stage, largest, carried, samples, next, known: {} };
}

export function workOrder({ sizes, stages }: Layout, { schedule, warmup }: Pick<Draft, 'schedule' | 'warmup'>): Order {
  if (schedule === 'gpipe') return { clock: null, slots: stages.map(({ carried }) => carried) };
  const { places, perPlace } = clockPlaces(sizes.length, stages);
  const hop = hopTicks(warmup) * perPlace;
  const slots = stages.map((stage, index) =>
    inFlight(stage, places, backwardAfter(index, stages.length, hop, perPlace) - index * hop),
  );
  return { clock: { hop, perPlace, places }, slots };
}

/** Ticks from a micro-batch's place to its backward. */
export const backwardAfter = (stage: number, stages: number, hop: number, perPlace: number): number =>
  stage === stages - 1 ? stage * hop + 1 : (2 * (stages - 1 - stage) + stage) * hop + perPlace;

const columns: Int32Array[] = [];

/** Room for so many numbers, of any value, until the next one asks for this column: nothing is allocated for a draft. */
export function column(which: number, length: number): Int32Array {
  const known = columns[which];
  if (known && known.length >= length) return known;
  const made = new Int32Array(2 * length);
  columns[which] = made;
  return made;
}

/** Of each lane: of the micro-batches so far those whose backwards come so many ticks after their forwards, or later. */
function inFlight({ laneOf, lanes, next }: StageLanes, places: Int32Array, ticks: number): Int32Array {
  const most = new Int32Array(lanes);
  const [flying, oldest] = [column(0, lanes), column(1, lanes)];
  for (let lane = 0; lane < lanes; lane++) {
    flying[lane] = 0;
    oldest[lane] = -1;
  }
  for (let id = 0; id < places.length; id++) {
    const lane = int(laneOf, id);
    if (int(oldest, lane) < 0) oldest[lane] = id;
    let now = int(flying, lane) + 1;
    for (; 2 * (int(places, id) - int(places, int(oldest, lane))) >= ticks; now--)
      oldest[lane] = int(next, int(oldest, lane));
    flying[lane] = now;
    if (now > int(most, lane)) most[lane] = now;
  }
  return most;
}

const GIB = 2 ** 30;
/** Sizes whose memory is worked out; past them it grows by a line. */
const MEMORY_ENTRIES = 3;

/**
 * Peers that each hold the whole model: Cephalo's sizing with their measured curves, each its own micro-batch. Under 1F1B
 * such a peer has one micro-batch in flight, so its memory is a function of that one's size, as the sizing takes it.
 *
 * Their micro-batches one peer after the other.
 */
function sizedMicroBatches(costs: ClusterCosts, places: readonly number[], shape: StageShape, gathered: Gathered | 0) {
  const peers = places.map((place) => at(costs.peers, place));
  const unit = unitOf(costs.batch.samples);
  if (unit === null || peers.length === 0) return null;
  const globalBatch = costs.batch.samples / unit;
  if (globalBatch < peers.length) return null;
  const stateGiB = (parameters(costs.model) * (peers.length > 1 ? 16 : 8)) / GIB;
  // With its layers gathered a peer has less of them whole; its share of the state takes as much an element as it does else.
  const spared = (peer: PlannedPeer): number => (gathered ? sparedBytes(costs, shape, gathered, peer.compute) : 0);
  const group = {
    globalBatch,
    stateGiB,
    ...{ extraMicroBatchMs: 0, allGatherMs: 0, reduceScatterMs: 0, unevenFactor: 1, recompute: false },
  };
  const sized = sizeGroup(
    group,
    peers.map((peer) => laneCosts(costs, { peer, shape, unit }, stateGiB / peers.length, spared(peer))),
  );
  if (!sized.ok) return null;
  const { cuts } = sized.value.sizing;
  const largest = Int32Array.from(cuts, ({ size }) => size * unit);
  const laneOf = Int32Array.from(cuts.flatMap(({ count }, lane) => arrayOf(count, () => lane)));
  const sizes = laneOf.map((lane) => at(largest, lane));
  return { sizes, laneOf, largest };
}

interface Lane {
  readonly peer: PlannedPeer;
  readonly shape: StageShape;
  readonly unit: number;
}

/** By units of samples. */
function laneCosts(costs: ClusterCosts, { peer, shape, unit }: Lane, evenGiB: number, sparedBytes: number): PeerCosts {
  const { samples } = costs.batch;
  const entries = Math.max(peer.forward.table.length, peer.backward.table.length) + 1;
  const table = (count: number, of: (size: number) => number) =>
    extended(
      arrayOf(count, (index) => of((index + 1) * unit)),
      2,
    );
  const activationGiB = table(MEMORY_ENTRIES, (samples) => {
    const bytes = costs.memory.stageBytes(shape, { samples, slots: 1, recomputed: 0 }, peer.compute);
    return (bytes - sparedBytes + costs.extraBytes(peer, shape.layers, { samples, slots: 1, recomputed: 0 })) / GIB;
  });
  const spaceGiB = peer.memoryBytes / GIB;
  const largest = (room: number): number =>
    activationGiB.slope > 0
      ? Math.max(0, Math.min(samples / unit, Math.floor((room - activationGiB.intercept) / activationGiB.slope)))
      : Infinity;
  return {
    id: peer.id,
    spaceGiB,
    forwardMs: table(entries, (size) => 1000 * costs.forwardSeconds(peer, shape, size)),
    backwardMs: table(entries, (size) => 1000 * costs.backwardSeconds(peer, shape, size)),
    activationGiB,
    maxMicroBatch: largest(spaceGiB),
    maxMicroBatchEvenState: largest(spaceGiB - evenGiB),
  };
}

/** Of an element on a peer that does not compute with it: value, moments, sum, and what comes in. */
const KEPT_BYTES = 20;
/** Where values go as codes, also what their holders have of it. */
const HELD_BYTES = 4;
/** What a keeper has beside its elements. */
const KEEPER_BYTES = 65_536;
/** Of an element on its way out: value and moments, as float32. */
const OUT_BYTES = 4 * STATE_KINDS.length;
/** Arrays of a shard's elements: moments, sum, what comes in, values. */
const MOST_ARRAYS = 5;

/** Peers who keep what others have no room for, and how many bytes each has left. */
type Keepers = Map<number, number>;

/** Who has how much of a stage's state, on its GPU and in main memory, members first; the parts in any unit. */
export type Shares = ReadonlyMap<number, number>;

interface StageLoad {
  readonly shape: StageShape;
  /** How many micro-batches each member has in flight. */
  readonly slots: Int32Array;
  readonly gathered: Gathered | 0;
  /** Main memory comes before layers that are computed twice. */
  readonly inHost: boolean;
}

/** Its members; of each, samples of its largest micro-batch. */
type Members = Pick<StageLanes, 'places' | 'largest'>;
type KnownMembers = Members & { readonly known: Pick<KnownOfStage, 'fits'> };

/** A stage before its keepers and its members' main memory take what their GPUs have no room for. */
type OnGpus = ReturnType<typeof fitOnGpus>;

/**
 * A stage within the memory of its members: as few layers computed twice as leave room, and the stage's state where there
 * is room for it (Cephalo: batch follows speed, state follows the memory that the batch leaves). With its members, the
 * largest share as small as can be; or by what their links carry; or on one of them, the hub, so that nobody else sends
 * values out; what its members' GPUs have no room for in their main memory, before layers are computed twice for it or
 * after; and what they have no room for with peers who keep state and compute nothing.
 */
export function fitStage(
  costs: ClusterCosts,
  members: KnownMembers,
  load: StageLoad,
  placement: Placement,
  keepers: Keepers,
) {
  const { shape, slots, gathered, inHost } = load;
  // What is gathered lies with those who gather it.
  const hasKeepers = gathered === 0 && keepers.size > 0;
  members.known.fits ??= new Map();
  const { fits } = members.known;
  const key = `${shape.layers} ${shape.first} ${shape.last} ${gathered} ${inHost} ${placement} ${hasKeepers} ${slots.join()}`;
  const found = fits.get(key) ?? fitOnGpus(costs, members, load, placement, hasKeepers);
  fits.set(key, found);
  return fitted(members, found, inHost, hasKeepers ? keepers : new Map());
}

function fitOnGpus(
  costs: ClusterCosts,
  { places, largest }: Members,
  load: StageLoad,
  placement: Placement,
  hasKeepers: boolean,
) {
  const { shape, gathered, inHost } = load;
  const needs = stateNeeds(costs, shape, places, gathered, hasKeepers);
  const peers = places.map((place) => at(costs.peers, place));
  const hosts = peers.map((peer) => hostRoom(costs, peer, needs));
  const before = inHost ? total(hosts) : 0;
  // Members with keepers need not compute layers twice to keep state.
  const lacks = (rooms: readonly number[]) => !hasKeepers && freeOf(rooms) + before < needs.state;
  const { rooms, recomputed } = roomsBeside(costs, peers, largest, load, needs, lacks);
  const own = memberShares(
    peers,
    rooms.map((bytes) => Math.max(0, bytes)),
    needs.state,
    placement,
  );
  return {
    ...{ needs, recomputed },
    /** What each member's GPU takes of the state, and what its main memory has room for. */
    ...{ own, hosts },
    /** Bytes that members lack for their work alone. */
    under: totalOf(rooms, (room) => Math.max(0, -room)),
    /** Bytes of its largest buffers past what its members' GPUs take in one. */
    excess: totalOf(peers.keys(), (member) => costs.excessBytes(at(peers, member), shape, int(largest, member))),
    /** Of the state, what no GPU of theirs has room for. */
    left: Math.max(0, needs.state - freeOf(rooms)),
  };
}

/** With what keepers and main memory take, one after the other. */
function fitted({ places }: Members, onGpus: OnGpus, inHost: boolean, keepers: Keepers) {
  const { needs, recomputed, own, hosts, under, excess } = onGpus;
  const shares = new Map<number, number>();
  for (let member = 0; member < places.length; member++) shares.set(at(places, member), at(own, member));
  const hosted = new Map<number, number>();
  let { left } = onGpus;
  const lacking = under + left;
  const toKeepers = (): void => {
    if (left <= 0 || keepers.size === 0) return;
    for (const [place, share] of takenByKeepers(keepers, left, needs)) {
      shares.set(place, share);
      left -= share;
    }
  };
  const toHosts = (): void => {
    if (left <= 0) return;
    for (const [member, share] of levelShares(hosts, left).entries()) {
      if (share <= 0) continue;
      const place = at(places, member);
      addToKey(shares, place, share);
      hosted.set(place, share / bytesAnElement(needs));
      left -= share;
    }
  };
  for (const takes of inHost ? [toHosts, toKeepers] : [toKeepers, toHosts]) takes();
  const missingBytes = Math.ceil(under + excess + (left > 1 ? left : 0));
  return {
    /** Layers that each member computes twice. */
    recomputed,
    shares,
    /** Elements whose state lies in a member's main memory. */
    hosted,
    /** Bytes that its GPUs have no room for. */
    lacking,
    excess,
    missingBytes,
  };
}

const freeOf = (rooms: readonly number[]): number => totalOf(rooms, (own) => Math.max(0, own));

/** What each member has left beside its work, and how many layers it computes twice: as few as leave nobody short. */
function roomsBeside(
  costs: ClusterCosts,
  peers: readonly PlannedPeer[],
  largest: Int32Array,
  { shape, slots, gathered }: StageLoad,
  needs: StateNeeds,
  lacks: (rooms: readonly number[]) => boolean,
) {
  const room = (peer: PlannedPeer, member: number, recomputed: number): number => {
    const work = {
      ...{ samples: int(largest, member), slots: int(slots, member), recomputed },
      keepsMade: gathered !== 0,
    };
    const bytes = costs.memory.stageBytes(shape, work, peer.compute) + costs.extraBytes(peer, shape.layers, work);
    const spared = gathered ? sparedBytes(costs, shape, gathered, peer.compute) : 0;
    return roomOf(costs, peer, needs) - bytes + spared - needs.beside;
  };
  const recomputed = peers.map(() => 0);
  const rooms = peers.map((peer, member) => room(peer, member, 0));
  for (let more = 1; more <= shape.layers; more++) {
    const short = lacks(rooms);
    if (!short && rooms.every((own) => own >= 0)) break;
    for (const [member, peer] of peers.entries()) {
      if (at(rooms, member) >= 0 && !(short && lacks(rooms))) continue;
      recomputed[member] = more;
      rooms[member] = room(peer, member, more);
    }
  }
  return { rooms, recomputed };
}

const bytesAnElement = ({ state, elements }: StateNeeds): number => state / (elements || 1);

/** In bytes of the state as it is on the GPU. */
const hostRoom = (costs: ClusterCosts, peer: PlannedPeer, needs: StateNeeds): number =>
  costs.hostElements(peer) * bytesAnElement(needs);

/** Its main memory holds planes, so it counts for no more than all of them take. What is in it is settled with the plan (memoryOf). */
const roomOf = (costs: ClusterCosts, peer: PlannedPeer, { elements }: StateNeeds): number =>
  peer.memoryBytes + Math.min(peer.hostBytes, costs.planeBytes * elements);

interface StateNeeds {
  readonly elements: number;
  /** All shards: moments, where there are several holders sums, and the masters of those who compute with halves. */
  readonly state: number;
  /** What every member has beside its part of that. */
  readonly beside: number;
}

const knownNeeds = memo<StateNeeds>();

function stateNeeds(
  costs: ClusterCosts,
  { first, last, layers }: StageShape,
  places: readonly number[],
  gathered: Gathered | 0,
  hasKeepers: boolean,
): StateNeeds {
  const { model } = costs;
  const isShared = places.length > 1 || hasKeepers;
  const masters = costs.hasMasters(places);
  const flags = (first ? 1 : 0) + (last ? 2 : 0) + (isShared ? 4 : 0) + (masters ? 8 : 0) + 16 * gathered;
  return knownNeeds(costs, 64 * layers + flags, () => {
    const names: BlockName[] = arrayOf(layers, (layer) => `layer.${layer}` as const);
    if (first) names.unshift('embedding');
    if (last) names.push('head');
    const blocks = model.blocks.filter(({ name }) => names.includes(name));
    const elements = blocks.map((block) => block.elements);
    // State is read back a slice at a time. A part of a block that is a slice or less goes out through that much; any
    // part of a larger one may need a whole slice.
    const out = wayOutBytes(elements) + codecBytes(costs, elements);
    const isSliced = Math.max(0, ...elements) > SLICE_ELEMENTS;
    const state = blocks.reduce((sum, block) => {
      // A tied table is another stage's too.
      const isAdded = isShared || (block.name === 'embedding' && model.tied && !last);
      const each = (isAdded ? 16 : 8) + (masters ? 4 : 0) + costs.planeBytes;
      return sum + block.elements * each - FLOAT_BYTES * matrixElements(block);
    }, 0);
    return {
      elements: total(elements),
      state: (gathered ? gatheredStateBytes(elements) : state) + (isSliced ? 0 : out),
      beside: (isSliced ? out : 0) + besideBytes(costs, blocks, isShared) + muonBytes(blocks),
    };
  });
}

/** Where a primary's values become codes: two slices of floats, and the codes. */
const codecBytes = ({ batch, stateElementBytes }: ClusterCosts, elements: readonly number[]): number =>
  batch.stateWire ? (8 + stateElementBytes) * Math.min(Math.max(0, ...elements), SLICE_ELEMENTS) : 0;

const wayOutBytes = (elements: readonly number[]): number =>
  OUT_BYTES * Math.min(Math.max(0, ...elements), SLICE_ELEMENTS);

/** What a member's shards of these blocks take beside their elements: partial sums, scalars, gaps between tensors. */
function besideBytes({ batch: { compute = 'f32' } }: ClusterCosts, blocks: readonly Block[], isCut: boolean): number {
  const atCuts = isCut ? 2 * alignmentOf(compute) : 0;
  const gap = (own: Block): number => arena(own, [[0, own.elements]], compute).floats - own.elements;
  return 4 * blocks.reduce((sum, own) => sum + 2 * PARTIALS + MOST_ARRAYS * (gap(own) + atCuts), SCALARS + COUNTERS);
}

/** Of a stage's state, to each member so much, by its room. What no room is left for stays over. */
function memberShares(
  peers: readonly PlannedPeer[],
  rooms: readonly number[],
  state: number,
  placement: Placement,
): readonly number[] {
  if (placement === 'room' || peers.length === 1) return levelShares(rooms, state);
  const rates = peers.map(({ upload, download }) => Math.min(upload, download));
  const fastest = Math.max(...rates);
  if (fastest === Infinity) return levelShares(rooms, state);
  // The hub has all that it has room for, then the next best.
  const members = rates.map((rate, member) => ({
    room: at(rooms, member),
    weight: placement === 'links' ? rate : rate === fastest ? 1 : 0,
    share: 0,
  }));
  const openWeight = ({ room, weight, share }: (typeof members)[number]): number => (share < room ? weight : 0);
  let left = state;
  for (let round = 0; round <= members.length && left > 0; round++) {
    const whole = totalOf(members, (member) => openWeight(member));
    if (whole === 0) break;
    const more = left;
    for (const member of members) {
      const added = Math.min(member.room - member.share, (more * openWeight(member)) / whole);
      member.share += added;
      left -= added;
    }
  }
  const rest = levelShares(
    members.map(({ room, share }) => room - share),
    Math.max(0, left),
  );
  return members.map(({ share }, member) => share + at(rest, member));
}

/** With its main memory, in bytes of the GPU's. */
export function keeperRooms(costs: ClusterCosts, places: readonly number[]): Keepers {
  const { peers, model, batch } = costs;
  const sizes = model.blocks.map(({ elements }) => elements);
  const beside = KEEPER_BYTES + wayOutBytes(sizes) + codecBytes(costs, sizes);
  const share = batch.stateWire ? KEPT_BYTES / (KEPT_BYTES + HELD_BYTES) : 1;
  return new Map(
    places.map((place) => {
      const peer = at(peers, place);
      return [place, share * Math.max(0, peer.memoryBytes - beside) + KEPT_BYTES * costs.hostElements(peer)];
    }),
  );
}

/** Elements that lie in keepers' main memory, once all stages have taken what they need. */
export function hostedByKeepers(costs: ClusterCosts, keepers: Keepers): Map<number, number> {
  const found = new Map<number, number>();
  for (const [place, left] of keepers) {
    const elements = costs.hostElements(at(costs.peers, place)) - left / KEPT_BYTES;
    if (elements > 0) found.set(place, elements);
  }
  return found;
}

/** Takes `lack` of a state to keepers with room; what each takes, in the state's bytes. */
function takenByKeepers(keepers: Keepers, lack: number, { state, elements }: StateNeeds): Map<number, number> {
  const perByte = (KEPT_BYTES * elements) / state;
  const places = [...keepers];
  const shares = levelShares(
    places.map(([, room]) => Math.max(0, room) / perByte),
    lack,
  );
  const taken = new Map<number, number>();
  for (const [index, [place, room]] of places.entries()) {
    const share = at(shares, index);
    if (share <= 0) continue;
    taken.set(place, share);
    keepers.set(place, room - share * perByte);
  }
  return taken;
}
