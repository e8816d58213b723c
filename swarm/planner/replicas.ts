/**
 * The copies of the training state: how many there are, where they lie, and who uploads which shards for checkpoints. Copies
 * are added to a plan once it is chosen: on peers with memory to spare, members or not, each where a step's slices and values
 * cost it least beside what it carries already.
 */

import { addToKey, countIn, countInBoth, got, type PeerId, pushToKey, type Range, rounded, totalOf } from '../base.ts';
import { type BufferLimits, largestShardBytes } from '../memory/bufferLimits.ts';
import type { BufferSpec } from '../memory/bufferSpec.ts';
import { shardBuffers, stageBuffers, stagesOfPeer } from '../memory/memory.ts';
import { type BlockName, block, type Model } from '../model/model.ts';
import {
  type BlockState,
  gatheringHome,
  type Holder,
  holders,
  isEndBlock,
  keepersOf,
  type Plan,
  peers as peersOf,
  type Shard,
} from '../plan/plan.ts';
import { shardCutUpTo, sizeOf } from '../plan/shardCuts.ts';
import { FLOAT_BYTES, savedKinds } from '../plan/stateKinds.ts';
import { keptBy, uploaderOf } from '../plan/uploader.ts';
import { COMPUTE_PRECISIONS, type Compute } from '../precision.ts';
import { bytesText, counted, secondsText } from '../quantityText.ts';
import type { Islands } from '../run/runFile.ts';
import { build } from '../schedule/lower.ts';
import { planSlots } from '../schedule/slots.ts';
import type { ClusterCosts, ClusterProblem, PlannedPeer, ReplicaWish } from './clusterCosts.ts';
import { memoryOf, memoryWith } from './draft.ts';
import type { MemoryCaps } from './fit.ts';
import { type Forecast, forecast } from './forecast.ts';
import { type HostMemory, hostRoom } from './mainMemory.ts';
import type { Reason } from './reason.ts';

/** Shards are cut at multiples of this many elements, the alignment of tensors on a GPU. */
const ALIGNMENT = 64;
/** No part of a shard is smaller than this share of it: each is sent, summed and reported by itself. */
const LEAST_PART = 1 / 16;
const ELEMENT_BYTES = 4;
/** About what a keeper has of an element: value, both moments, the sum of its gradients. */
const KEPT_BYTES = 16;
/** In place of a room without bounds: such rooms add up, and are equal. */
const BOUNDLESS = 1e18;

export interface Placing {
  readonly model: Model;
  /** Its replicas are left out: all are placed anew. */
  readonly plan: Plan;
  /** Say where a shard may be cut. */
  readonly islands?: Islands | undefined;
  /** Absent: every GPU takes any buffer. */
  readonly buffers?: BufferLimits | undefined;
  /** Wanted of each shard. */
  readonly count: number;
  /** Members and spares. */
  readonly candidates: readonly PeerId[];
  /** Who alone may keep what belongs to the first and last stage; absent, or null: anyone. */
  readonly own?: ReadonlySet<PeerId> | null | undefined;
  /** Bytes of memory that a peer has left beside its work and these shards; below 0: it lacks so many. */
  readonly roomBytes: (peer: PeerId, kept: readonly BlockState[]) => number;
  /** What a byte from one peer to another costs, in any unit. */
  readonly byteCost: (from: PeerId, to: PeerId) => number;
  /** 0: nothing is known that would end both at once; the more, the nearer they are. */
  readonly nearness: (one: PeerId, other: PeerId) => number;
  /** Whose keepers have the state: of equals those stay. */
  readonly before: Plan | null;
}

/** Whether a shard is within the largest buffer of its primary's GPU. */
type IsWithin = (block: BlockName, shard: Shard) => boolean;

export const withinBuffers =
  (model: Model, buffers: BufferLimits = new Map()): IsWithin =>
  (name, shard) => {
    const limit = buffers.get(shard.peer);
    return limit === undefined || largestShardBytes(model, [{ block: name, shards: [shard] }]) <= limit.bufferBytes;
  };

/** With neighbouring shards of one primary as one, where they were cut for their replicas: no larger than its GPU takes. */
export function withoutReplicas(plan: Plan, isWithin: IsWithin = () => true): Plan {
  const state = plan.state.map(({ block, shards }) => {
    const merged: Shard[] = [];
    for (const shard of shards.toSorted((a, b) => a.range[0] - b.range[0])) {
      const { peer, range } = shard;
      const last = merged.at(-1);
      const isNext = last?.peer === peer && last.in === shard.in && last.range[1] === range[0];
      const whole: Shard | null = isNext ? { ...last, range: [last.range[0], range[1]] } : null;
      if (whole && isWithin(block, whole)) merged[merged.length - 1] = whole;
      else merged.push(keptBy(shard, peer, []));
    }
    return { block, shards: merged };
  });
  return { ...plan, state };
}

/** As many copies of each shard as wanted, or as there is room for; a shard is cut where nobody has room for all of it. */
export function withReplicas(placing: Placing): Plan {
  const bare = withoutReplicas(placing.plan, withinBuffers(placing.model, placing.buffers));
  if (placing.count === 0) return bare;
  const desk = begin({ ...placing, plan: bare });
  for (let copy = 0; copy < placing.count; copy++) {
    const open = new Set([...desk.pieces.values()].flat());
    for (;;) {
      const slack = slackOf(desk, open);
      const piece = tightest(open, slack);
      if (piece === null) break;
      open.delete(piece);
      const rest = place(desk, piece, slack);
      if (rest !== null) open.add(rest);
    }
  }
  const state = [...desk.pieces].map(([block, pieces]) => ({
    block,
    shards: pieces.map(shardOf),
  }));
  return { ...bare, state };
}

/** A shard on its way to its replicas. */
interface Piece extends Omit<Shard, 'range' | 'replicas' | 'uploader'> {
  readonly block: BlockName;
  range: Range;
  readonly replicas: PeerId[];
}

const shardOf = ({ block: _, replicas, ...shard }: Piece): Shard => ({ ...shard, replicas: [...replicas] });

/** The state as far as it is placed, and what that costs whom. */
interface Desk {
  readonly placing: Placing;
  readonly pieces: ReadonlyMap<BlockName, Piece[]>;
  readonly holders: ReadonlyMap<BlockName, readonly Holder[]>;
  readonly kept: Map<PeerId, Piece[]>;
  readonly room: Map<PeerId, number>;
  readonly load: Map<PeerId, number>;
}

function begin(placing: Placing): Desk {
  const { model, plan, candidates, byteCost } = placing;
  const pieces = new Map(
    plan.state.map(({ block, shards }) => [block, shards.map((shard): Piece => ({ ...shard, block, replicas: [] }))]),
  );
  const desk: Desk = {
    ...{ placing, pieces, holders: holders(model, plan) },
    ...{ kept: new Map(), room: new Map(), load: new Map() },
  };
  for (const piece of [...pieces.values()].flat()) {
    keep(desk, piece.peer, piece);
    carry(desk, piece.peer, costAt(desk, piece, piece.peer));
    for (const { peer, ranges } of got(desk.holders, piece.block))
      if (peer !== piece.peer) carry(desk, peer, bytesIn(ranges, piece.range) * byteCost(piece.peer, peer));
  }
  for (const peer of new Set([...candidates, ...desk.kept.keys()])) desk.room.set(peer, roomOf(desk, peer));
  return desk;
}

/**
 * Bytes of room beyond what its open pieces need, of each primary that has some: everywhere but with itself. Whoever has
 * least is served first, and takes others' copies, since it cannot take its own.
 */
function slackOf({ room }: Desk, open: ReadonlySet<Piece>): Map<PeerId, number> {
  let all = 0;
  for (const bytes of room.values()) all += Math.max(0, bytes);
  const slack = new Map<PeerId, number>();
  for (const piece of open) {
    const left = slack.get(piece.peer) ?? all - Math.max(0, got(room, piece.peer));
    slack.set(piece.peer, left - KEPT_BYTES * sizeOf(piece));
  }
  return slack;
}

/** The largest piece of the primary with least slack. */
function tightest(open: ReadonlySet<Piece>, slack: ReadonlyMap<PeerId, number>): Piece | null {
  let found: Piece | null = null;
  for (const piece of open) {
    const less = found === null ? -1 : got(slack, piece.peer) - got(slack, found.peer);
    if (found === null || less < 0 || (less === 0 && sizeOf(piece) > sizeOf(found))) found = piece;
  }
  return found;
}

/** One more copy of a piece. Where only a part of it has room, the rest of it comes back; null where nobody has room for more. */
function place(desk: Desk, piece: Piece, slack: ReadonlyMap<PeerId, number>): Piece | null {
  const groups = byNearness(desk, piece).map((peers) => inOrder(desk, piece, peers));
  const urgent = groups.flat().filter((peer) => (slack.get(peer) ?? BOUNDLESS) < KEPT_BYTES * sizeOf(piece));
  const least = Math.min(...urgent.map((peer) => got(slack, peer)));
  for (const order of [urgent.filter((peer) => slack.get(peer) === least), ...groups]) {
    for (const peer of order)
      if (fits(desk, piece, peer, sizeOf(piece))) {
        give(desk, piece, peer);
        return null;
      }
    for (const peer of order) {
      const elements = mostOf(desk, piece, peer);
      if (elements === 0) continue;
      const rest = cut(desk, piece, elements);
      give(desk, piece, peer);
      return rest;
    }
  }
  return null;
}

/** Those who may keep a copy, the farthest from its keepers first. */
function byNearness({ placing, room }: Desk, piece: Piece): PeerId[][] {
  const { plan, candidates, nearness, own = null } = placing;
  const keepers = keepersOf(piece);
  const home = gatheringHome(plan, piece.block);
  const groups = new Map<number, PeerId[]>();
  for (const peer of candidates) {
    if (own !== null && isEndBlock(piece.block) && !own.has(peer)) continue;
    if (keepers.includes(peer) || (home && !home.members.some((member) => member.peer === peer))) continue;
    // Who has hardly any room is not looked at closer.
    if (got(room, peer) < ALIGNMENT * ELEMENT_BYTES) continue;
    const near = Math.max(...keepers.map((keeper) => nearness(peer, keeper)));
    pushToKey(groups, near, peer);
  }
  return [...groups].sort(([a], [b]) => a - b).map(([, peers]) => peers);
}

/** Who has most of it already, then whom it costs least beside what it carries. */
function inOrder(desk: Desk, piece: Piece, peers: readonly PeerId[]): PeerId[] {
  const known = peers.map((peer) => {
    const cost = (desk.load.get(peer) ?? 0) + costAt(desk, piece, peer);
    return { peer, had: hadBefore(desk.placing, piece, peer), cost };
  });
  return known.sort((a, b) => b.had - a.had || a.cost - b.cost).map(({ peer }) => peer);
}

function hadBefore({ before }: Placing, { block, range }: Piece, peer: PeerId): number {
  const shards = before?.state.find((state) => state.block === block)?.shards ?? [];
  return totalOf(shards, (shard) => (keepersOf(shard).includes(peer) ? countInBoth(shard.range, range) : 0));
}

/** A keeper gets slices from every other holder, and new values where it is not the primary and does not compute with all of it. */
function costAt({ placing: { byteCost }, holders: all }: Desk, piece: Piece, peer: PeerId): number {
  let [cost, hasValues] = [0, peer === piece.peer];
  for (const holder of got(all, piece.block)) {
    const bytes = bytesIn(holder.ranges, piece.range);
    if (holder.peer !== peer) cost += bytes * byteCost(holder.peer, peer);
    else if (bytes === ELEMENT_BYTES * sizeOf(piece)) hasValues = true;
  }
  return cost + (hasValues ? 0 : ELEMENT_BYTES * sizeOf(piece) * byteCost(piece.peer, peer));
}

const bytesIn = (ranges: readonly Range[], whole: Range): number =>
  ELEMENT_BYTES * totalOf(ranges, (range) => countInBoth(range, whole));

function give(desk: Desk, piece: Piece, peer: PeerId): void {
  carry(desk, peer, costAt(desk, piece, peer));
  piece.replicas.push(peer);
  keep(desk, peer, piece);
  for (const keeper of keepersOf(piece)) desk.room.set(keeper, roomOf(desk, keeper));
}

/** Its beginning stays the piece; the rest is a shard of its own, of the same keepers. */
function cut(desk: Desk, piece: Piece, elements: number): Piece {
  const [from, to] = piece.range;
  const rest: Piece = { ...piece, range: [from + elements, to], replicas: [...piece.replicas] };
  piece.range = [from, from + elements];
  const list = got(desk.pieces, piece.block);
  list.splice(list.indexOf(piece) + 1, 0, rest);
  for (const keeper of keepersOf(rest)) keep(desk, keeper, rest);
  return rest;
}

/** The most elements of a piece that fit, were it cut; 0: too few. */
function mostOf(desk: Desk, piece: Piece, peer: PeerId): number {
  let [low, high] = [0, Math.ceil(sizeOf(piece) / ALIGNMENT) - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (fits(desk, piece, peer, middle * ALIGNMENT)) low = middle;
    else high = middle - 1;
  }
  const { model, islands } = desk.placing;
  const [from] = piece.range;
  const elements = shardCutUpTo(block(model, piece.block), islands, from + low * ALIGNMENT) - from;
  return elements < Math.max(1, LEAST_PART * sizeOf(piece)) ? 0 : elements;
}

/** Whether all keepers of its first `elements` have room for what they would keep then: a cut costs them all. */
function fits(desk: Desk, piece: Piece, peer: PeerId, elements: number): boolean {
  const [from, to] = piece.range;
  const first = { ...piece, range: [from, from + elements] as const, replicas: [...piece.replicas, peer] };
  const parts = elements === sizeOf(piece) ? [first] : [first, { ...piece, range: [from + elements, to] as const }];
  return keepersOf(first).every((keeper) => {
    const kept = (desk.kept.get(keeper) ?? []).flatMap((other) => (other === piece ? parts : [other]));
    const now = keeper === peer ? [...kept, first] : kept;
    return desk.placing.roomBytes(keeper, stateOf(now)) >= 0;
  });
}

const roomOf = ({ placing, kept }: Desk, peer: PeerId): number =>
  Math.min(BOUNDLESS, placing.roomBytes(peer, stateOf(kept.get(peer) ?? [])));

function stateOf(pieces: readonly Piece[]): BlockState[] {
  const found = new Map<BlockName, Shard[]>();
  for (const piece of pieces) {
    const shards = found.get(piece.block) ?? [];
    found.set(piece.block, shards);
    shards.push(shardOf(piece));
  }
  return [...found].map(([block, shards]) => ({ block, shards }));
}

function keep({ kept }: Desk, peer: PeerId, piece: Piece): void {
  pushToKey(kept, peer, piece);
}

function carry({ load }: Desk, peer: PeerId, cost: number): void {
  addToKey(load, peer, cost);
}

/** Copies of each shard beside its primary, where nobody says how many. */
const DEFAULT_REPLICAS = 1;
/** A step may take so much longer for copies that nobody asked for. */
const MOST_GROWTH = 0.1;
/** Less than one network. */
const BOTH_NEW = 0.5;
/** Bytes a second over a link without bounds: a copy costs something there too. */
const MOST_RATE = 1e10;
/** Spares that are looked at: those who are here longest. */
const MOST_SPARES = 32;

/**
 * How many replicas a plan gets: as many as a run wishes for, as far as its donors' memory allows; and unless a person said
 * how many, only while a step is predicted to take at most a tenth longer. Where there are fewer, a sentence says what a
 * loss costs then.
 *
 * `asked`: by a person; undefined: nobody did.
 */
export const replicaWish = (
  asked: number | undefined,
  known: Partial<Pick<ReplicaWish, 'sites' | 'before'>> = {},
): ReplicaWish => ({
  count: asked ?? DEFAULT_REPLICAS,
  isAsked: asked !== undefined,
  ...{ sites: {}, before: null, ...known },
});

export interface Replicated {
  readonly plan: Plan;
  /** What its replicas cost, and where there are fewer than wished for, what a loss costs then. */
  readonly reasons: readonly Reason[];
}

/** Two tabs of one browser end together; two donors of one network may. */
function nearness(sites: ReplicaWish['sites']): Placing['nearness'] {
  return (one, other) => {
    const [a, b] = [sites[one], sites[other]];
    if (a === undefined || b === undefined) return 0;
    if (a.browser !== null && a.browser === b.browser) return 2;
    return a.network !== null && a.network === b.network ? 1 : 0;
  };
}

/** Of those who are equally near a newcomer goes as soon as another one may: together. */
function nearnessOfCopies(sites: ReplicaWish['sites']): Placing['nearness'] {
  const near = nearness(sites);
  return (one, other) => near(one, other) + (sites[one]?.isNew && sites[other]?.isNew ? BOTH_NEW : 0);
}

function candidatesOf(plan: Plan, offer: readonly PeerId[]): PeerId[] {
  const members = new Set(peersOf(plan));
  const spares = offer.filter((peer) => !members.has(peer)).slice(0, MOST_SPARES);
  return [...offer.filter((peer) => members.has(peer)), ...spares];
}

interface CappedRun {
  readonly model: Model;
  readonly batch: ClusterProblem['batch'];
  readonly caps: MemoryCaps;
  readonly hosts?: HostMemory;
  /** Absent: every GPU takes any buffer. */
  readonly buffers?: BufferLimits;
  /** Everyone who may keep something, in the order they joined. */
  readonly offer: readonly PeerId[];
  readonly own?: ReadonlySet<PeerId> | null | undefined;
}

/** By the memory that donors give alone. */
export function replicatedWithin(run: CappedRun, chosen: Plan, wish: ReplicaWish): Replicated {
  const { model, buffers } = run;
  const bare = withoutReplicas(chosen, withinBuffers(model, buffers));
  const candidates = candidatesOf(bare, run.offer);
  const plan = withReplicas({
    ...{ model, islands: run.batch.islands, buffers, plan: bare, count: wish.count, candidates, before: wish.before },
    own: run.own,
    roomBytes: roomWithin(run, bare),
    byteCost: () => 1,
    nearness: nearnessOfCopies(wish.sites),
  });
  return { plan, reasons: shortfall(plan, wish.count, candidates.length, null) };
}

function roomWithin(
  { model, batch, caps, hosts = new Map(), buffers = new Map() }: CappedRun,
  plan: Plan,
): Placing['roomBytes'] {
  const known = holders(model, plan);
  const either = batch.compute === 'f16' ? COMPUTE_PRECISIONS : (['f32'] as const);
  const inFlight = planSlots(plan, build(plan));
  const bytesOf = (specs: readonly BufferSpec[]): number => totalOf(specs, ({ bytes }) => bytes);
  const workBytes = (peer: PeerId, compute: Compute): number => {
    const stages = stagesOfPeer(plan, peer, batch.sequence, batch.wire, compute, inFlight);
    return totalOf(stages.values(), (size) => bytesOf(stageBuffers(model, size)));
  };
  const beside = new Map<string, number>();
  return (peer, state) => {
    const inHost = Math.min(
      hostRoom({ ...plan, state }, peer, hosts.get(peer)),
      bufferRoom(model, state, buffers.get(peer)?.bufferBytes),
    );
    const cap = caps.get(peer);
    if (cap === undefined) return inHost;
    const bytes = either.map((compute) => {
      const key = `${peer} ${compute}`;
      const work = beside.get(key) ?? workBytes(peer, compute);
      beside.set(key, work);
      return work + bytesOf(shardBuffers(model, { ...plan, state }, peer, known, compute));
    });
    return Math.min(inHost, cap - Math.max(...bytes));
  };
}

/** Past a GPU's largest buffer there is no room, whatever else is free. */
const bufferRoom = (model: Model, kept: readonly BlockState[], limit: number | undefined): number =>
  limit === undefined ? Infinity : limit - largestShardBytes(model, kept) < 0 ? -1 : Infinity;

interface Costed extends Replicated {
  readonly forecast: Forecast;
  readonly memory: ReadonlyMap<PeerId, number>;
}

/** By what peers of a cluster are predicted to need and to take. */
export function replicated(costs: ClusterCosts, chosen: Plan, wish: ReplicaWish): Costed {
  const buffers = costs.bufferLimits;
  const plan = withoutReplicas(chosen, withinBuffers(costs.model, buffers));
  const candidates = candidatesOf(
    plan,
    costs.peers.map(({ id }) => id),
  );
  const bytesWith = memoryWith(costs, plan);
  const placing = {
    ...{ model: costs.model, islands: costs.batch.islands, buffers, plan, candidates, before: wish.before },
    own: costs.own,
    roomBytes: (peer: PeerId, kept: readonly BlockState[]) => {
      const known = costs.peers[costs.placeOf(peer)];
      const inHost = Math.min(
        hostRoom({ ...plan, state: kept }, peer, known?.hostBytes),
        bufferRoom(costs.model, kept, buffers.get(peer)?.bufferBytes),
      );
      return Math.min(inHost, (known?.memoryBytes ?? 0) - bytesWith(peer, kept));
    },
    byteCost: (from: PeerId, to: PeerId) => {
      const [upload, download] = [costs.peers[costs.placeOf(from)]?.upload, costs.peers[costs.placeOf(to)]?.download];
      const link = costs.link(from, to).bytesPerSecond;
      return 1 / Math.min(upload ?? MOST_RATE, download ?? MOST_RATE, link ?? MOST_RATE, MOST_RATE);
    },
    nearness: nearnessOfCopies(wish.sites),
  };
  const bare = forecast(costs, plan);
  let growth: number | null = null;
  for (let count = wish.count; ; count--) {
    const placed = withReplicas({ ...placing, count });
    const built = build(placed);
    const predicted = count === 0 ? bare : forecast(costs, placed, built);
    const longer = predicted.stepSeconds / bare.stepSeconds - 1;
    if (count > 0 && !wish.isAsked && longer > MOST_GROWTH) {
      growth = longer;
      continue;
    }
    const memory = memoryOf(costs, placed, built);
    const uploaded = withUploaders(costs, placed);
    const lack = shortfall(placed, wish.count, candidates.length, growth);
    const reasons = [...costReasons(placed, predicted, bare), ...uploadReasons(costs, uploaded), ...lack];
    return { plan: uploaded, forecast: predicted, memory, reasons };
  }
}

function costReasons({ state }: Plan, predicted: Forecast, bare: Forecast): Reason[] {
  const counts = state.flatMap(({ shards }) => shards.map(({ replicas }) => replicas.length));
  const [fewest, most] = [Math.min(...counts), Math.max(...counts)];
  if (most === 0) return [];
  const sent = ({ peers }: Forecast): number => totalOf(peers.values(), ({ sentBytes }) => sentBytes);
  const longer = predicted.stepSeconds - bare.stepSeconds;
  const percent = rounded((100 * longer) / (bare.stepSeconds || 1), 2);
  const copies = fewest === most ? copiesWords(most) : `${fewest} to ${copiesWords(most)}`;
  return [
    {
      peer: null,
      text: `Each part of the state has ${copies} with other donors: a step takes ${longer < 1e-3 ? 'less than 1 ms' : secondsText(longer)} longer for it (${percent} %), and sends ${bytesText(sent(predicted) - sent(bare))} more.`,
    },
  ];
}

/** `growth`: by how much a step would take longer with one copy more than there are; null: that is not why. */
function shortfall({ state }: Plan, wanted: number, peers: number, growth: number | null): Reason[] {
  const copies = state.flatMap(({ shards }) => shards.map(({ replicas }) => replicas.length));
  const short = copies.filter((count) => count < wanted).length;
  if (short === 0) return [];
  const warning = (text: string): Reason[] => [{ peer: null, text, isWarning: true }];
  const back = 'is gone, the run goes back to its newest checkpoint';
  if (peers === 1) return warning(`One donor keeps the only copy of the state. When it ${back}.`);
  const place =
    short === copies.length
      ? 'Nothing of the training state (weights and optimizer) has'
      : `${short} of the ${copies.length} parts of the training state (weights and optimizer) lack`;
  const why =
    growth !== null
      ? growth < 1
        ? `a step would take ${rounded(100 * growth, 2)} % longer`
        : `a step would take ${rounded(1 + growth, 2)} times as long`
      : wanted >= peers
        ? `there are ${counted(peers, 'donor')}`
        : 'the memory that donors give has no room for more';
  return warning(
    `${place} ${copiesWords(wanted)} with ${wanted === 1 ? 'another donor' : 'other donors'}, because ${why}. When every donor that keeps a part ${back}.`,
  );
}

const copiesWords = (count: number): string => (count === 1 ? 'a copy' : `${count} copies`);

/** How much of the state lacks copies, in shares of the whole; a copy near its primary is half of one, or less. */
export function lackOf(plan: Plan, { count, sites }: ReplicaWish): number {
  const near = nearness(sites);
  let [lack, whole] = [0, 0];
  for (const { shards } of plan.state)
    for (const { peer, range, replicas } of shards) {
      const elements = countIn(range);
      whole += elements;
      const copies = totalOf(replicas.slice(0, count), (replica) => 1 / (1 + near(peer, replica)));
      lack += elements * (count - copies);
    }
  return whole === 0 ? 0 : lack / whole;
}

/** So many times the primary's rate, where rates are known to about a fifth. */
const CLEARLY_BETTER = 2;
/** What a primary uploads in less stays with it. */
const LEAST_SECONDS = 1;

type Lines = Pick<ClusterCosts, 'peers' | 'batch'>;

/** No bytes take no time, whatever carries them. */
export const secondsFor = (bytes: number, bytesPerSecond: number): number => (bytes === 0 ? 0 : bytes / bytesPerSecond);

const elementBytes = ({ batch }: Pick<Lines, 'batch'>): number => savedKinds(batch.islands).length * FLOAT_BYTES;

/** Until everyone has uploaded its part of a checkpoint. */
export function savingSeconds(lines: Lines, { state }: Plan): number {
  const elements = new Map<PeerId, number>();
  for (const { shards } of state)
    for (const shard of shards) {
      const uploader = uploaderOf(shard);
      addToKey(elements, uploader, sizeOf(shard));
    }
  const bytes = elementBytes(lines);
  return Math.max(0, ...lines.peers.map(({ id, upload }) => secondsFor((elements.get(id) ?? 0) * bytes, upload)));
}

/**
 * Who uploads which shards for checkpoints, and how long that takes. A primary's part goes up over the line of a replica
 * whose line is clearly better, shard by shard, as long as that one is done with it sooner than the primary would be with
 * all of its own. A function of the plan and of what is known of lines alone, so that whoever predicts, plans anew or plays
 * a recording comes to the same.
 *
 * The plan with an uploader for each shard that goes up sooner from a replica.
 */
export function withUploaders(lines: Lines, plan: Plan): Plan {
  const bare = { ...plan, state: plan.state.map(({ block, shards }) => ({ block, shards: shards.map(byPrimary) })) };
  const uploaders = chosenUploaders(lines, bare);
  if (uploaders.size === 0) return bare;
  const state = bare.state.map(({ block, shards }) => ({
    block,
    shards: shards.map((shard) => {
      const uploader = uploaders.get(shard);
      return uploader === undefined ? shard : { ...shard, uploader };
    }),
  }));
  return { ...bare, state };
}

const byPrimary = ({ uploader: _, ...shard }: Shard): Shard => keptBy(shard, shard.peer, shard.replicas);

function chosenUploaders(lines: Lines, { state }: Plan): ReadonlyMap<Shard, PeerId> {
  const known = new Map(lines.peers.map((peer) => [peer.id, peer]));
  const bytes = elementBytes(lines);
  const chosen = new Map<Shard, PeerId>();
  const loads = new Map<PeerId, number>();
  /** Of each primary what it may give away, the largest first. */
  const own = new Map<PeerId, Shard[]>();
  for (const shard of state.flatMap(({ shards }) => shards)) {
    addToKey(loads, shard.peer, sizeOf(shard));
    pushToKey(own, shard.peer, shard);
  }
  for (const [peer, shards] of own)
    own.set(
      peer,
      shards.toSorted((a, b) => sizeOf(b) - sizeOf(a)),
    );
  const secondsOf = (peer: PeerId, more = 0): number =>
    secondsFor(((loads.get(peer) ?? 0) + more) * bytes, known.get(peer)?.upload ?? Infinity);
  const open = new Set(own.keys());
  while (open.size > 0) {
    const [primary, seconds] = longest([...open].map((peer) => [peer, secondsOf(peer)]));
    const shards = got(own, primary);
    const found = seconds < LEAST_SECONDS ? null : sooner(shards, known, secondsOf);
    if (found === null) {
      open.delete(primary);
      continue;
    }
    const [shard, replica] = found;
    chosen.set(shard, replica);
    own.set(
      primary,
      shards.filter((other) => other !== shard),
    );
    loads.set(primary, got(loads, primary) - sizeOf(shard));
    addToKey(loads, replica, sizeOf(shard));
  }
  return chosen;
}

const longest = (times: readonly (readonly [PeerId, number])[]): readonly [PeerId, number] =>
  times.reduce((most, one) => (one[1] > most[1] ? one : most));

/** The first shard that a replica is done with before its primary is with all of its own, and the one that is done first. */
function sooner(
  shards: readonly Shard[],
  known: ReadonlyMap<PeerId, PlannedPeer>,
  secondsOf: (peer: PeerId, more?: number) => number,
): readonly [Shard, PeerId] | null {
  for (const shard of shards) {
    const primary = known.get(shard.peer);
    let best: readonly [PeerId, number] | null = null;
    for (const replica of shard.replicas) {
      const other = known.get(replica);
      if (!primary || !other || !isClearlyBetter(other, primary)) continue;
      const seconds = secondsOf(replica, sizeOf(shard));
      if (seconds < (best?.[1] ?? secondsOf(shard.peer))) best = [replica, seconds];
    }
    if (best !== null) return [shard, best[0]];
  }
  return null;
}

/** Who shares a line has the same part of it. */
const isClearlyBetter = (other: PlannedPeer, primary: PlannedPeer): boolean =>
  other.upload >= CLEARLY_BETTER * primary.upload;

/** What other uploaders are for; none where there are none. */
export function uploadReasons(lines: Lines, plan: Plan): Reason[] {
  const count = plan.state.flatMap(({ shards }) => shards.filter(({ uploader }) => uploader !== undefined)).length;
  if (count === 0) return [];
  const alone = { ...plan, state: plan.state.map(({ block, shards }) => ({ block, shards: shards.map(byPrimary) })) };
  const [seconds, before] = [savingSeconds(lines, plan), savingSeconds(lines, alone)];
  const parts = `${counted(count, 'part')} of the state ${count === 1 ? 'is' : 'are'}`;
  const text = `For checkpoints ${parts} uploaded by donors that keep copies and have better lines: a checkpoint takes ${secondsText(seconds)} instead of ${secondsText(before)}.`;
  return [{ peer: null, text }];
}
