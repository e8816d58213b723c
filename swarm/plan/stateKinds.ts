/**
 * What is kept of each parameter: its value and Adam's two moments, each a float. In a run with islands that of the island
 * whose turn it is; and for each island whose turn comes later (`@1` the next one's, `@2` the one after) its own value and
 * moments, for every island what its packets left over, and once what the islands share. Rules IS in SPEC.md.
 */
import type { Islands } from '../run/runFile.ts';

/** What the update reads and writes, and all there is in a run without islands. */
export const STATE_KINDS = ['value', 'm', 'v'] as const;
/** Each island's own. */
export const ISLAND_KINDS = [...STATE_KINDS, 'leftOver'] as const;
type IslandKind = (typeof ISLAND_KINDS)[number];
/** `@0` is not written. */
export type StateKind = IslandKind | `${IslandKind}@${number}` | 'shared' | 'velocity' | 'published';

/** What decides which kinds a run has. */
type Kept = Pick<Islands, 'count' | 'exchange' | 'publish'> | undefined;

export const FLOAT_BYTES = 4;
/** Of a run with as many islands as there may be. */
export const MOST_STATE_KINDS = 255;

const turns = (islands: Kept): number[] => Array.from({ length: islands?.count ?? 1 }, (_, turn) => turn);
export const kindAt = (kind: IslandKind, turn: number): StateKind => (turn === 0 ? kind : `${kind}@${turn}`);

/** Everything that a keeper has at any step; what the GPU has comes first. */
export function stateKinds(islands: Kept): readonly StateKind[] {
  if (!islands) return STATE_KINDS;
  return [
    ...turns(islands).flatMap((turn) => STATE_KINDS.map((kind) => kindAt(kind, turn))),
    ...(islands.exchange === 'f32' ? [] : turns(islands).map((turn) => kindAt('leftOver', turn))),
    'shared',
    'velocity',
    ...(islands.publish === 'f32' ? [] : ['published' as const]),
  ];
}

/** Those that equal `value` whenever a meeting has been held: every island begins at what was published. */
function kindsLikeValue(islands: Kept): readonly StateKind[] {
  if (!islands) return [];
  const others = turns(islands).slice(1);
  return [...others.map((turn) => kindAt('value', turn)), islands.publish === 'f32' ? 'shared' : 'published'];
}

/** What a checkpoint has of each shard, one after the other, the run's weights first. It is of a meeting. */
export function savedKinds(islands: Kept): readonly StateKind[] {
  const left = new Set<StateKind>(['shared', ...kindsLikeValue(islands)]);
  const saved = stateKinds(islands).filter((kind) => !left.has(kind));
  return islands?.publish === 'int8' ? ['shared', ...saved] : saved;
}

/** Whether a kind is this one of some island's. */
export const isOf = (kind: StateKind, of: StateKind): boolean => kind === of || kind.startsWith(`${of}@`);
