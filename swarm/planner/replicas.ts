/**
 * Where the copies of the training state lie. They are added to a plan once it is chosen: on peers with memory to spare,
 * members or not, each where a step's slices and values cost it least beside what it carries already. Rules RE in SPEC.md.
 */
import { got, overlap, type PeerId, type Range } from '../base.ts';
import { type BufferLimits, largestShardBytes } from '../memory/bufferLimits.ts';
import { type BlockName, block, type Model } from '../model/model.ts';
import {
  type BlockState,
  gatheringHome,
  type Holder,
  holders,
  keepersOf,
  type Plan,
  type Shard,
} from '../plan/plan.ts';
import { cutUpTo, sizeOf } from '../plan/shardCuts.ts';
import { keptBy } from '../plan/uploader.ts';
import type { Islands } from '../run/runFile.ts';

/** Shards are cut at multiples of this many elements, the alignment of tensors on a GPU. */
const ALIGNMENT = 64;
/** No part of a shard is smaller than this share of it: each is sent, summed and reported by itself. */
const LEAST_PART = 1 / 16;
const ELEMENT_BYTES = 4;
/** About what a keeper has of an element: value, both moments, the sum of its gradients. */
const KEPT_BYTES = 16;
/** In place of a room without bounds: such rooms add up, and are equal. */
const BOUNDLESS = 1e18;

/** Where a donor is, as far as that is known. */
interface Site {
  /** A name of its network; null: not known. */
  readonly network: string | null;
  /** A name of its browser. */
  readonly browser: string | null;
  /** It came a moment ago, and may go as soon; absent: it did not. */
  readonly isNew?: boolean;
}

export interface ReplicaWish {
  readonly count: number;
  /** A person said so: the step may take as long as it takes. */
  readonly isAsked: boolean;
  /** By peer; whoever is not in it is taken to be far from all others. */
  readonly sites: Readonly<Record<string, Site>>;
  /** Whose keepers have the state. */
  readonly before: Plan | null;
}

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
  const { plan, candidates, nearness } = placing;
  const keepers = keepersOf(piece);
  const home = gatheringHome(plan, piece.block);
  const groups = new Map<number, PeerId[]>();
  for (const peer of candidates) {
    if (keepers.includes(peer) || (home && !home.members.some((member) => member.peer === peer))) continue;
    // Who has hardly any room is not looked at closer.
    if (got(room, peer) < ALIGNMENT * ELEMENT_BYTES) continue;
    const near = Math.max(...keepers.map((keeper) => nearness(peer, keeper)));
    groups.set(near, [...(groups.get(near) ?? []), peer]);
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
  return shards.reduce((sum, shard) => {
    const [from, to] = overlap(shard.range, range) ?? [0, 0];
    return sum + (keepersOf(shard).includes(peer) ? to - from : 0);
  }, 0);
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

function bytesIn(ranges: readonly Range[], whole: Range): number {
  return ranges.reduce((sum, range) => {
    const [from, to] = overlap(range, whole) ?? [0, 0];
    return sum + (to - from) * ELEMENT_BYTES;
  }, 0);
}

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
  const elements = cutUpTo(block(model, piece.block), islands, from + low * ALIGNMENT) - from;
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
  kept.set(peer, [...(kept.get(peer) ?? []), piece]);
}

function carry({ load }: Desk, peer: PeerId, cost: number): void {
  load.set(peer, (load.get(peer) ?? 0) + cost);
}
