/**
 * What is kept of each parameter: its value and Adam's two moments, each a float. In a run with islands that of the island
 * whose turn it is; and for each island whose turn comes later (`@1` the next one's, `@2` the one after) its own value and
 * moments, for every island what its packets left over, and once what the islands share. A checkpoint has them by the
 * numbers of islands, so that whoever has which islands then can load it. Rules IS in SPEC.md.
 */
import { arrayOf, at } from '../base.ts';
import type { Islands } from '../run/runFile.ts';

/** What the update reads and writes, and all there is in a run without islands. */
export const STATE_KINDS = ['value', 'm', 'v'] as const;
/** Each island's own. */
export const ISLAND_KINDS = [...STATE_KINDS, 'leftOver'] as const;
type IslandKind = (typeof ISLAND_KINDS)[number];
/** What all islands share. */
export const SHARED_KINDS = ['shared', 'velocity', 'published'] as const;
export type SharedKind = (typeof SHARED_KINDS)[number];
/** `@0` is not written. */
export type StateKind = IslandKind | `${IslandKind}@${number}` | SharedKind;

/** What decides which kinds a run has. */
type Kept = Pick<Islands, 'count' | 'exchange' | 'publish'> | undefined;
/** Numbers of a group's islands, ascending; absent: all. */
type Own = readonly number[] | undefined;

export const FLOAT_BYTES = 4;
/** Of a run with as many islands as there may be. */
export const MOST_STATE_KINDS = 255;

/** The islands that are done by turns, those of a group or all. */
export const ownIslands = (islands: Pick<Islands, 'count'> | undefined, own: Own): readonly number[] =>
  own ?? arrayOf(islands === undefined || islands.count === 'auto' ? 1 : islands.count, (island) => island);

export const kindAt = (kind: IslandKind, turn: number): StateKind => (turn === 0 ? kind : `${kind}@${turn}`);

/** The initial state, checkpoint 0, has weights alone: what else there is is zero there, neither stored nor sent. */
export const isFirstZero = (kind: StateKind): boolean => kind !== 'value' && kind !== 'shared';

/** Everything that a keeper has at any step; what the GPU has comes first. `owned`: what islands share lies with owners. */
export function stateKinds(islands: Kept, own?: Own, owned = false): readonly StateKind[] {
  if (!islands) return STATE_KINDS;
  const turns = [...ownIslands(islands, own).keys()];
  return [
    ...turns.flatMap((turn) => STATE_KINDS.map((kind) => kindAt(kind, turn))),
    ...(islands.exchange === 'f32' ? [] : turns.map((turn) => kindAt('leftOver', turn))),
    ...(owned ? [] : (['shared', 'velocity'] as const)),
    ...(islands.publish === 'f32' ? [] : ['published' as const]),
  ];
}

/**
 * As what a checkpoint has a kind of a keeper's. It is of a meeting: every island begins at what was published, which is
 * saved as the value. Null: not at all. Islands that are as many as there are groups are all new after going back.
 */
export function savedAs(kind: StateKind, islands: Kept, own?: Own): StateKind | null {
  if (!islands || kind === 'velocity') return kind;
  if (kind === 'shared') return islands.publish === 'f32' ? 'value' : 'shared';
  if (kind === 'published' || isOf(kind, 'value')) return 'value';
  if (islands.count === 'auto') return null;
  const [name, turn = '0'] = kind.split('@');
  return kindAt(name as IslandKind, at(ownIslands(islands, own), Number(turn))); // what else there is is an island's
}

/** What a keeper reads of a checkpoint. */
export const loadedKinds = (islands: Kept, own?: Own, owned = false): readonly StateKind[] => [
  ...new Set(stateKinds(islands, own, owned).flatMap((kind) => savedAs(kind, islands, own) ?? [])),
];

/**
 * What a keeper saves of each shard, one after the other, the run's weights first; of all islands it is what a checkpoint
 * has. What they share is saved by the group that has the first one.
 */
export function savedKinds(islands: Kept, own?: Own): readonly StateKind[] {
  const loaded = loadedKinds(islands, own);
  if (own && islands?.count !== 'auto' && !own.includes(0)) return loaded.filter((kind) => !isOneForAll(kind));
  return islands?.publish === 'int8' ? ['shared', ...loaded.filter((kind) => kind !== 'shared')] : loaded;
}

const isOneForAll = (kind: StateKind): boolean => kind === 'value' || kind === 'shared' || kind === 'velocity';

/** Whether a kind is this one of some island's. */
export const isOf = (kind: StateKind, of: StateKind): boolean => kind === of || kind.startsWith(`${of}@`);
