/** Drafts one small move away from another, with a guess at each. Where peers or stages move, the layers are cut anew. */
import type { Random } from '../base.ts';
import { SCHEDULE_NAMES } from '../schedule/action.ts';
import type { ClusterCosts } from './clusterCosts.ts';
import type { Draft } from './draft.ts';
import { type Estimated, estimate } from './estimate.ts';
import type { Groups } from './grouping.ts';
import { byUse } from './starts.ts';
import type { Placement } from './statePlacement.ts';

/** Past this many peers in stages only the first ones are moved. */
const MOST_MOVED_PEERS = 64;
/** Idle peers that are tried in a place: the fastest, and those that would hurt least. */
const MOST_IDLE = 8;
const PLACEMENTS: readonly Placement[] = ['room', 'links', 'hub'];
/** Idle peers that are tried as keepers, those with most memory. */
const MOST_KEEPERS = 3;
/** About so many moves are none of peers or layers. */
const OTHER_MOVES = 12;
/** Random moves that are tried for one that fits. */
const MOST_DRAWN = 12;

export function* moves(costs: ClusterCosts, draft: Draft): Generator<Estimated> {
  yield* otherSizes(costs, draft);
  yield* layerMoves(costs, draft);
  for (const groups of groupMoves(costs, draft.groups)) {
    const cut = regrouped(costs, draft, groups);
    if (cut !== null) yield cut;
  }
  yield* placements(costs, draft);
}

/** One of them that fits; null where none of those tried does. Most are moves of peers, so that few are guessed at. */
export function randomMove(costs: ClusterCosts, draft: Draft, random: Random): Estimated | null {
  const groupings = [...groupMoves(costs, draft.groups)];
  const others = OTHER_MOVES + draft.layers.length ** 2;
  for (let tried = 0; tried < MOST_DRAWN; tried++) {
    const groups = groupings[Math.floor(random() * (groupings.length + others))];
    const next = groups ? regrouped(costs, draft, groups) : otherMove(costs, draft, random);
    if (next !== null && next.missingBytes === 0) return next;
  }
  return null;
}

function otherMove(costs: ClusterCosts, draft: Draft, random: Random): Estimated | null {
  const all = [...otherSizes(costs, draft), ...layerMoves(costs, draft), ...placements(costs, draft)];
  return all[Math.floor(random() * all.length)] ?? null;
}

function regrouped(costs: ClusterCosts, draft: Draft, groups: Groups): Estimated | null {
  const { microBatches, schedule } = draft;
  const isSized = microBatches === 'sized' && groups.length === 1;
  const count = microBatches === 'sized' ? Math.min(costs.batch.samples, 4 * groups.length) : microBatches;
  return estimate(costs, groups, isSized ? 'sized' : count, schedule, undefined, keepersOf(draft, groups));
}

/** State spread by room or by links, or on a hub; with peers who keep state alone, where there may be. */
function* placements(costs: ClusterCosts, draft: Draft): Generator<Estimated> {
  const { groups, microBatches, schedule, layers, placement = 'room', keepers = [] } = draft;
  const guess = estimate(costs, groups, microBatches, schedule, layers, keepers);
  if (guess === null) return;
  const capped = costs.peers.some(({ upload }) => upload !== Number.POSITIVE_INFINITY);
  if (capped && groups.some((group) => group.length > 2))
    for (const other of PLACEMENTS) if (other !== placement) yield { ...guess, draft: { ...draft, placement: other } };
  if (!costs.keepers) return;
  for (const place of keepers) yield* guessed(costs, { ...draft, keepers: keepers.filter((other) => other !== place) });
  const used = new Set([...groups.flat(), ...keepers]);
  const unused = costs.peers.map((_, place) => place).filter((place) => !used.has(place));
  const roomiest = unused.toSorted((a, b) => (costs.peers[b]?.memoryBytes ?? 0) - (costs.peers[a]?.memoryBytes ?? 0));
  for (const place of roomiest.slice(0, MOST_KEEPERS))
    yield* guessed(costs, { ...draft, keepers: [...keepers, place] });
  if (microBatches === 'sized') return;
  // Who is slow, and computes only because the others have no room for the state.
  for (const place of groups.flat().slice(0, MOST_MOVED_PEERS)) {
    const left = groups.map((group) => group.filter((other) => other !== place)).filter((group) => group.length > 0);
    if (left.length === 0) continue;
    // In small micro-batches under 1F1B too, which leave most room.
    for (const count of new Set([microBatches, costs.batch.samples])) {
      const cut = estimate(costs, left, count, '1f1b', undefined, [...keepers, place]);
      if (cut !== null) yield cut;
    }
  }
}

/** More, fewer, the other schedule; the layers stay, or are cut anew where that differs. */
export function* otherSizes(costs: ClusterCosts, draft: Draft): Generator<Estimated> {
  const { groups, microBatches, schedule, layers } = draft;
  const { samples } = costs.batch;
  for (const other of SCHEDULE_NAMES)
    if (other !== schedule && microBatches !== 'sized') yield* guessed(costs, { ...draft, schedule: other });
  const lanes = Math.max(...groups.map((group) => group.length));
  const now = microBatches === 'sized' ? lanes : microBatches;
  const counts = [now * 2, Math.ceil(now / 2), now + 1, now - 1, now + lanes, now - lanes, Math.ceil(1.5 * now)];
  for (const count of new Set(counts)) {
    if (count < lanes || count > samples || (count === microBatches && count === now)) continue;
    yield* guessed(costs, { ...draft, microBatches: count });
    const cut = estimate(costs, groups, count, schedule, undefined, draft.keepers);
    if (cut !== null && cut.draft.layers.join() !== layers.join()) yield cut;
  }
  if (groups.length === 1 && microBatches !== 'sized' && lanes > 1)
    yield* guessed(costs, { ...draft, microBatches: 'sized', schedule: '1f1b' });
}

/** Those who have not come to compute. */
export const keepersOf = ({ keepers = [] }: Draft, groups: Groups): readonly number[] =>
  keepers.filter((place) => !groups.some((group) => group.includes(place)));

function* guessed(costs: ClusterCosts, draft: Draft): Generator<Estimated> {
  const { groups, microBatches, schedule, layers, keepers } = draft;
  const found = estimate(costs, groups, microBatches, schedule, layers, keepers);
  if (found !== null) yield found;
}

/** One layer from a stage to another. */
function* layerMoves(costs: ClusterCosts, draft: Draft): Generator<Estimated> {
  const { layers } = draft;
  for (const [from, count] of layers.entries()) {
    if (count < 2) continue;
    for (const to of layers.keys()) {
      if (to === from) continue;
      const moved = layers.map((own, stage) => own - (stage === from ? 1 : 0) + (stage === to ? 1 : 0));
      yield* guessed(costs, { ...draft, layers: moved });
    }
  }
}

export function* groupMoves(costs: ClusterCosts, groups: Groups): Generator<Groups> {
  const used = new Set(groups.flat());
  const unused = costs.peers.map((_, place) => place).filter((place) => !used.has(place));
  const placed = groups.flatMap((group, stage) => group.map((place) => ({ place, stage }))).slice(0, MOST_MOVED_PEERS);
  // Groups that nobody enters or leaves stay the same lists: what was worked out for them is found again.
  const moved = (place: number, from: number, to: number): Groups =>
    groups
      .map((group, at) =>
        at === to ? [...group, place] : at === from ? group.filter((other) => other !== place) : group,
      )
      .filter((group) => group.length > 0);
  const swapped = (group: readonly number[], one: number, other: number): readonly number[] =>
    group.map((place) => (place === one ? other : place));
  const near = placed.map(({ place }) => place);
  const fastest = byUse(costs, unused, 1).slice(0, MOST_IDLE);
  const idle = [...new Set([...fastest, ...byUse(costs, unused, groups.length + 1, near).slice(0, MOST_IDLE)])];
  for (const { place, stage } of placed) if (used.size > 1) yield moved(place, stage, -1);
  for (const place of idle) {
    for (const to of groups.keys()) yield groups.map((group, stage) => (stage === to ? [...group, place] : group));
    for (const { place: other, stage } of placed)
      yield groups.map((group, at) => (at === stage ? swapped(group, other, place) : group));
  }
  yield* stageMoves(costs, groups, idle);
  for (const { place, stage } of placed)
    for (const to of groups.keys()) if (to !== stage) yield moved(place, stage, to);
  for (const [index, one] of placed.entries())
    for (const other of placed.slice(index + 1))
      if (one.stage !== other.stage)
        yield groups.map((group, at) =>
          at === one.stage
            ? swapped(group, one.place, other.place)
            : at === other.stage
              ? swapped(group, other.place, one.place)
              : group,
        );
}

/** Stages change places, neighbours are joined, a stage of several peers split, an idle peer is a stage of its own. */
function* stageMoves(costs: ClusterCosts, groups: Groups, idle: readonly number[]): Generator<Groups> {
  for (const stage of groups.keys())
    if (stage > 0)
      yield groups.flatMap((group, at) =>
        at === stage ? [] : at === stage - 1 ? [[...group, ...(groups[stage] ?? [])]] : [group],
      );
  for (const a of groups.keys())
    for (let b = a + 1; b < groups.length; b++)
      yield groups.map((group, stage) => groups[stage === a ? b : stage === b ? a : stage] ?? group);
  if (groups.length > 2) yield groups.toReversed();
  if (groups.length >= costs.model.layers) return;
  for (const [stage, group] of groups.entries()) {
    if (group.length < 2) continue;
    const parts = [group.filter((_, index) => index % 2 === 0), group.filter((_, index) => index % 2 === 1)];
    yield groups.flatMap((own, at) => (at === stage ? parts : [own]));
  }
  for (const place of idle)
    for (let at = 0; at <= groups.length; at++) yield [...groups.slice(0, at), [place], ...groups.slice(at)];
}
