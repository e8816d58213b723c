/**
 * Where a stage's training state lies (Cephalo: apart from the work). With its members, the largest share as small as
 * their memory allows; or by what their links carry; or on one of them, the hub, so that nobody else sends values out;
 * and what its members have no room for with peers who keep state and compute nothing.
 */
import type { Range } from '../base.ts';
import { alignmentOf, arena, SLICE_ELEMENTS } from '../model/layout.ts';
import type { Block, BlockName, Model } from '../model/model.ts';
import { STATE_KINDS } from '../plan/handover.ts';
import { COUNTERS, PARTIALS, SCALARS } from '../plan/memory.ts';
import { homeStage, type Plan } from '../plan/plan.ts';
import type { Compute } from '../precision.ts';
import type { ClusterCosts } from './clusterCosts.ts';
import { levelShares } from './stateShares.ts';

/** Shards begin at multiples of this many elements, the alignment of tensors on a GPU. */
const SHARD_ALIGNMENT = 64;
/** Of an element on a peer that does not compute with it: value, moments, sum, and what comes in. */
const KEPT_BYTES = 20;
/** Of an element on its way out: value and moments, as float32. */
const OUT_BYTES = 4 * STATE_KINDS.length;
/** Arrays of a shard's elements: moments, sum, what comes in, values. */
const MOST_ARRAYS = 5;

export type Placement = 'room' | 'links' | 'hub';

interface OwnBlocks {
  readonly elements: number;
  readonly count: number;
  /** Several peers compute with them. */
  readonly shared: boolean;
}

/**
 * What all shards of a stage's blocks take: moments, where there are several holders the sums, and the masters of those
 * who compute with halves. The way out is beside it.
 */
export function stateBytes(blocks: readonly OwnBlocks[], hasMasters: boolean): number {
  let bytes = 0;
  for (const { elements, count, shared } of blocks) {
    if (count === 0) continue;
    bytes += elements * count * ((shared ? 16 : 8) + (hasMasters ? 4 : 0));
  }
  return bytes;
}

/** State is read back a slice at a time: what the way out of the largest of these blocks takes. */
export const wayOutBytes = (elements: readonly number[]): number =>
  OUT_BYTES * Math.min(Math.max(0, ...elements), SLICE_ELEMENTS);

/** A part of a block that is a slice or less goes out through that much; any part of a larger one may need a whole slice. */
export function wayOut(elements: readonly number[]): { readonly shared: number; readonly each: number } {
  const bytes = wayOutBytes(elements);
  return Math.max(0, ...elements) > SLICE_ELEMENTS ? { shared: 0, each: bytes } : { shared: bytes, each: 0 };
}

/** What a member's shards of these blocks take beside their elements: partial sums, scalars, gaps between tensors. */
export function besideBytes(
  { model, batch }: ClusterCosts,
  blocks: readonly { readonly name: BlockName }[],
  isCut: boolean,
): number {
  const gaps = gapsOf(model, batch.compute);
  const atCuts = isCut ? 2 * alignmentOf(batch.compute) : 0;
  const floats = blocks.reduce(
    (sum, { name }) => sum + 2 * PARTIALS + MOST_ARRAYS * ((gaps.get(name) ?? 0) + atCuts),
    SCALARS + COUNTERS,
  );
  return 4 * floats;
}

const knownGaps = new WeakMap<Model, Map<Compute, ReadonlyMap<BlockName, number>>>();

/** Floats between the tensors of whole blocks. */
function gapsOf(model: Model, compute: Compute = 'f32'): ReadonlyMap<BlockName, number> {
  const known = knownGaps.get(model) ?? new Map<Compute, ReadonlyMap<BlockName, number>>();
  knownGaps.set(model, known);
  const gap = (own: Block): number => arena(own, [[0, own.elements]], compute).floats - own.elements;
  const found = known.get(compute) ?? new Map(model.blocks.map((own) => [own.name, gap(own)] as const));
  known.set(compute, found);
  return found;
}

/** A part of a block is added up apart, as a shared one is. */
export function blocksAtHome(
  { model }: ClusterCosts,
  index: number,
  plan: Plan,
  keepers: Keepers,
): (OwnBlocks & { readonly name: BlockName })[] {
  const alone = plan.stages[index]?.members.length === 1 && keepers.size === 0;
  return model.blocks
    .filter(({ name }) => homeStage(plan, name) === index)
    .map(({ name, elements }) => ({
      name,
      elements,
      count: 1,
      shared: !alone || (name === 'embedding' && model.tied && plan.stages.length > 1),
    }));
}

/** Of a stage's state, to each member so much, by its room. What no room is left for stays over. */
export function memberShares(
  costs: ClusterCosts,
  places: readonly number[],
  rooms: readonly number[],
  state: number,
  placement: Placement,
): number[] {
  if (placement === 'room' || places.length === 1) return levelShares(rooms, state);
  const rates = places.map((place) => Math.min(costs.peers[place]?.upload ?? 0, costs.peers[place]?.download ?? 0));
  if (rates.includes(Number.POSITIVE_INFINITY)) return levelShares(rooms, state);
  // The hub has all that it has room for, then the next best.
  const weights = placement === 'links' ? rates : rates.map((rate) => (rate === Math.max(...rates) ? 1 : 0));
  const shares = rooms.map(() => 0);
  let left = state;
  for (let round = 0; round <= rooms.length && left > 0; round++) {
    const open = shares.map((share, at) => (share < (rooms[at] ?? 0) ? (weights[at] ?? 0) : 0));
    const whole = open.reduce((sum, weight) => sum + weight, 0);
    if (whole === 0) break;
    const more = left;
    for (const at of shares.keys()) {
      const added = Math.min((rooms[at] ?? 0) - (shares[at] ?? 0), (more * (open[at] ?? 0)) / whole);
      shares[at] = (shares[at] ?? 0) + added;
      left -= added;
    }
  }
  const rest = levelShares(
    rooms.map((room, at) => room - (shares[at] ?? 0)),
    Math.max(0, left),
  );
  return shares.map((share, at) => share + (rest[at] ?? 0));
}

/** Peers who keep what others have no room for, and how many bytes each has left. */
export type Keepers = Map<number, number>;

/** Takes `lack`, of a state of so many bytes and elements, to keepers with room; what each takes, in the state's bytes. */
export function takenByKeepers(keepers: Keepers, lack: number, state: number, elements: number): Map<number, number> {
  const perByte = (KEPT_BYTES * elements) / state;
  const places = [...keepers.keys()];
  const shares = levelShares(
    places.map((place) => (keepers.get(place) ?? 0) / perByte),
    lack,
  );
  const taken = new Map<number, number>();
  for (const [at, place] of places.entries()) {
    const share = shares[at] ?? 0;
    if (share <= 0) continue;
    taken.set(place, share);
    keepers.set(place, (keepers.get(place) ?? 0) - share * perByte);
  }
  return taken;
}

/** Who has how much of a stage's state, members first; the parts in any unit. */
export type Shares = ReadonlyMap<number, number>;

/** Each block of a stage cut in the proportion of its shares. */
export function stateOf({ model, peers }: ClusterCosts, plan: Plan, shares: readonly Shares[]): Plan['state'] {
  return model.blocks.map(({ name, elements }) => {
    const parts = [...(shares[homeStage(plan, name)] ?? [])];
    const units = Math.ceil(elements / SHARD_ALIGNMENT);
    const whole = parts.reduce((sum, [, share]) => sum + share, 0);
    let reached = 0;
    let before = 0;
    const shards = parts.flatMap(([place, share], at) => {
      before += whole > 0 ? share / whole : 1 / parts.length;
      const end = at === parts.length - 1 ? units : Math.min(units, Math.round(before * units));
      const from = reached;
      reached = Math.max(reached, end);
      const peer = peers[place]?.id;
      if (reached === from || peer === undefined) return [];
      const range: Range = [from * SHARD_ALIGNMENT, Math.min(reached * SHARD_ALIGNMENT, elements)];
      return [{ peer, range, replicas: [] }];
    });
    return { block: name, shards };
  });
}
