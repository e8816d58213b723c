/**
 * A stage within the memory of its members: as few layers computed twice as leave room, and the stage's state where there
 * is room for it (Cephalo: batch follows speed, state follows the memory that the batch leaves). With its members, the
 * largest share as small as can be; or by what their links carry; or on one of them, the hub, so that nobody else sends
 * values out; what its members' GPUs have no room for in their main memory, before layers are computed twice for it or
 * after; and what they have no room for with peers who keep state and compute nothing.
 */
import { at, int } from '../base.ts';
import { COUNTERS } from '../memory/memory.ts';
import { PARTIALS, SCALARS } from '../memory/shardMemory.ts';
import { alignmentOf, arena, SLICE_ELEMENTS } from '../model/layout.ts';
import type { Block, BlockName } from '../model/model.ts';
import type { Gathered } from '../plan/plan.ts';
import { STATE_KINDS } from '../plan/stateKinds.ts';
import { type ClusterCosts, type PlannedPeer, remembered, type StageShape } from './clusterCosts.ts';
import { gatheredStateBytes, sparedBytes } from './gathering.ts';
import type { Placement, StageLanes } from './layout.ts';

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

interface Fitted {
  /** Layers that each member computes twice. */
  readonly recomputed: readonly number[];
  readonly shares: Shares;
  /** Elements whose state lies in a member's main memory. */
  readonly hosted: ReadonlyMap<number, number>;
  /** Bytes that its GPUs have no room for. */
  readonly lacking: number;
  /** Bytes of its largest buffers past what its members' GPUs take in one. */
  readonly excess: number;
  readonly missingBytes: number;
}

/** Its members; of each, samples of its largest micro-batch. */
type Members = Pick<StageLanes, 'places' | 'largest'>;

const knownFits = new WeakMap<Members, Map<string, Fitted>>();

export function fitStage(
  costs: ClusterCosts,
  members: Members,
  load: StageLoad,
  placement: Placement,
  keepers: Keepers,
): Fitted {
  // What is gathered lies with those who gather it. What keepers have room for depends on the stages before.
  if (keepers.size > 0 && load.gathered === 0) return fitAnew(costs, members, load, placement, keepers);
  const known = knownFits.get(members) ?? new Map<string, Fitted>();
  knownFits.set(members, known);
  const { first, last, layers } = load.shape;
  const key = `${layers} ${first} ${last} ${load.gathered} ${load.inHost} ${placement} ${load.slots.join()}`;
  const found = known.get(key) ?? fitAnew(costs, members, load, placement, new Map());
  known.set(key, found);
  return found;
}

const knownCapacities = new WeakMap<Members, Int32Array>();

/** No more layers fit these members, whatever they compute twice and however few micro-batches are in flight. */
export function mostLayers(costs: ClusterCosts, members: Members, first: boolean, last: boolean): number {
  const known = knownCapacities.get(members) ?? new Int32Array(4).fill(-1);
  knownCapacities.set(members, known);
  const index = (first ? 1 : 0) + (last ? 2 : 0);
  if (int(known, index) >= 0) return int(known, index);
  let [low, high] = [0, costs.model.layers];
  while (low < high) {
    const layers = (low + high + 1) >> 1;
    if (mayHold(costs, members, { first, last, layers })) low = layers;
    else high = layers - 1;
  }
  known[index] = low;
  return low;
}

function mayHold(costs: ClusterCosts, { places, largest }: Members, shape: StageShape): boolean {
  const needs = stateNeeds(costs, shape, places, 0, false);
  let free = 0;
  for (const [member, place] of places.entries()) {
    const peer = at(costs.peers, place);
    if (costs.excessBytes(peer, shape, int(largest, member)) > 0) return false;
    const bytes = (recomputed: number): number =>
      costs.memory.stageBytes(shape, { samples: int(largest, member), slots: 1, recomputed }, peer.compute);
    const room = roomOf(costs, peer, needs) - Math.min(bytes(0), bytes(shape.layers)) - needs.beside;
    if (room < 0) return false;
    free += room + hostRoom(costs, peer, needs);
  }
  return free >= needs.state - 1;
}

function fitAnew(
  costs: ClusterCosts,
  { places, largest }: Members,
  { shape, slots, gathered, inHost }: StageLoad,
  placement: Placement,
  keepers: Keepers,
): Fitted {
  const needs = stateNeeds(costs, shape, places, gathered, keepers.size > 0);
  const recomputed = places.map(() => 0);
  const room = (member: number): number => {
    const peer = at(costs.peers, at(places, member));
    const inFlight = { samples: int(largest, member), slots: int(slots, member), recomputed: at(recomputed, member) };
    const work = { ...inFlight, keepsMade: gathered !== 0 };
    const bytes = costs.memory.stageBytes(shape, work, peer.compute) + costs.extraBytes(peer, shape.layers, work);
    const spared = gathered ? sparedBytes(costs, shape, gathered, peer.compute) : 0;
    return roomOf(costs, peer, needs) - bytes + spared - needs.beside;
  };
  const rooms = places.map((_, member) => room(member));
  const free = () => rooms.reduce((sum, own) => sum + Math.max(0, own), 0);
  const hosts = places.map((place) => hostRoom(costs, at(costs.peers, place), needs));
  const before = inHost ? hosts.reduce((sum, own) => sum + own, 0) : 0;
  // Who has keepers need not compute layers twice to keep state.
  const lacks = () => keepers.size === 0 && free() + before < needs.state;
  for (let more = 1; more <= shape.layers; more++) {
    const short = lacks();
    if (!short && rooms.every((own) => own >= 0)) break;
    for (const member of places.keys()) {
      if (at(rooms, member) >= 0 && !(short && lacks())) continue;
      recomputed[member] = more;
      rooms[member] = room(member);
    }
  }
  const under = rooms.reduce((sum, own) => sum + Math.max(0, -own), 0);
  const excess = places.reduce(
    (sum, place, member) => sum + costs.excessBytes(at(costs.peers, place), shape, int(largest, member)),
    0,
  );
  const own = memberShares(
    costs,
    places,
    rooms.map((bytes) => Math.max(0, bytes)),
    needs.state,
    placement,
  );
  const shares = new Map(places.map((place, member) => [place, at(own, member)]));
  const hosted = new Map<number, number>();
  let left = Math.max(0, needs.state - free());
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
      shares.set(place, (shares.get(place) ?? 0) + share);
      hosted.set(place, share / bytesAnElement(needs));
      left -= share;
    }
  };
  for (const takes of inHost ? [toHosts, toKeepers] : [toKeepers, toHosts]) takes();
  const missingBytes = Math.ceil(under + excess + (left > 1 ? left : 0));
  return { recomputed, shares, hosted, lacking, excess, missingBytes };
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

const knownNeeds = remembered<StateNeeds>();

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
    const names: BlockName[] = Array.from({ length: layers }, (_, layer) => `layer.${layer}` as const);
    if (first) names.unshift('embedding');
    if (last) names.push('head');
    const blocks = names.map((name) => blockNamed(costs, name));
    const elements = blocks.map((block) => block.elements);
    // State is read back a slice at a time. A part of a block that is a slice or less goes out through that much; any
    // part of a larger one may need a whole slice.
    const out = wayOutBytes(elements) + codecBytes(costs, elements);
    const isSliced = Math.max(0, ...elements) > SLICE_ELEMENTS;
    const state = blocks.reduce((sum, block) => {
      // A tied table is another stage's too.
      const isAdded = isShared || (block.name === 'embedding' && model.tied && !last);
      return sum + block.elements * ((isAdded ? 16 : 8) + (masters ? 4 : 0) + costs.planeBytes);
    }, 0);
    return {
      elements: elements.reduce((sum, one) => sum + one, 0),
      state: (gathered ? gatheredStateBytes(elements) : state) + (isSliced ? 0 : out),
      beside: (isSliced ? out : 0) + besideBytes(costs, blocks, isShared),
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

function blockNamed({ model }: ClusterCosts, name: BlockName): Block {
  const found = model.blocks.find((block) => block.name === name);
  if (!found) throw new RangeError(`the model has no block ${name}`);
  return found;
}

/** Of a stage's state, to each member so much, by its room. What no room is left for stays over. */
function memberShares(
  costs: ClusterCosts,
  places: readonly number[],
  rooms: readonly number[],
  state: number,
  placement: Placement,
): readonly number[] {
  if (placement === 'room' || places.length === 1) return levelShares(rooms, state);
  const rates = places.map((place) => Math.min(at(costs.peers, place).upload, at(costs.peers, place).download));
  const fastest = Math.max(...rates);
  if (fastest === Number.POSITIVE_INFINITY) return levelShares(rooms, state);
  // The hub has all that it has room for, then the next best.
  const weights = placement === 'links' ? rates : rates.map((rate) => (rate === fastest ? 1 : 0));
  const shares = rooms.map(() => 0);
  let left = state;
  for (let round = 0; round <= rooms.length && left > 0; round++) {
    const open = shares.map((share, member) => (share < at(rooms, member) ? at(weights, member) : 0));
    const whole = open.reduce((sum, weight) => sum + weight, 0);
    if (whole === 0) break;
    const more = left;
    for (const [member, share] of shares.entries()) {
      const added = Math.min(at(rooms, member) - share, (more * at(open, member)) / whole);
      shares[member] = share + added;
      left -= added;
    }
  }
  const rest = levelShares(
    rooms.map((room, member) => room - at(shares, member)),
    Math.max(0, left),
  );
  return shares.map((share, member) => share + at(rest, member));
}

/**
 * A state over peers with unequal room so that the largest share is least, by a common water level: every peer takes the
 * level, or its whole room where that is less. All their rooms where these do not hold the state.
 */
export function levelShares(rooms: readonly number[], state: number): number[] {
  let left = state;
  let peers = rooms.length;
  for (const room of rooms.toSorted((a, b) => a - b)) {
    const level = left / peers;
    if (room >= level) return rooms.map((own) => Math.min(own, level));
    left -= room;
    peers--;
  }
  return [...rooms];
}

/** With its main memory, in bytes of the GPU's. */
export function keepersOf(costs: ClusterCosts, places: readonly number[]): Keepers {
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
