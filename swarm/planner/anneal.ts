/**
 * A draft improved by guessing alone, as metal is by cooling (simulated annealing, Kirkpatrick et al. 1983): a random small
 * move that makes the guess worse by a part d is taken with probability exp(−d / temperature), which falls to 0. Its one
 * idea: what separates a good pipeline from the next is a way through worse ones (a wide stage of one layer lets all
 * others have more in flight, and pays only when they are there), and a guess is a hundred times cheaper than a simulation.
 */
import { below, type Random } from '../base.ts';
import type { ClusterCosts } from './clusterCosts.ts';
import type { Draft } from './draft.ts';
import { type Estimated, estimate } from './estimate.ts';
import type { Groups } from './grouping.ts';
import { unevenStateSeconds } from './stateGuess.ts';

/** A move that makes it so much worse is taken one time in e at the start. */
const FIRST_TEMPERATURE = 0.06;
/** A stage of more peers gets no further ones. */
const MOST_LANES = 12;
const RESTS_EVERY = 50;
/** Times that an idle peer is looked for. */
const MOST_DRAWN = 8;

/**
 * `order`: peers, the most useful first, which are drawn more often. It rests after every so many guesses: whoever asks
 * has other things to do.
 */
export function* annealed(
  costs: ClusterCosts,
  start: Estimated,
  order: readonly number[],
  tries: number,
  random: Random,
): Generator<number, Estimated[]> {
  const guess = (groups: Groups): Estimated | null => guessed(costs, start.draft, groups);
  let here = guess(start.draft.groups) ?? start;
  const best = new Map<number, Estimated>();
  for (let tried = 0; tried < tries; tried++) {
    if (tried % RESTS_EVERY === 0) yield RESTS_EVERY;
    const temperature = FIRST_TEMPERATURE * (1 - tried / tries) ** 2;
    const groups = randomNeighbour(costs, here.draft.groups, order, random);
    const next = groups && guess(groups);
    if (next === null) continue;
    const worse = Math.log(next.seconds / here.seconds);
    if (worse > 0 && random() >= Math.exp(-worse / temperature)) continue;
    here = next;
    const stages = here.draft.groups.length;
    if (here.seconds < (best.get(stages)?.seconds ?? Number.POSITIVE_INFINITY)) best.set(stages, here);
  }
  return [...best.values()].sort((a, b) => a.seconds - b.seconds);
}

/** Null where it does not fit. */
function guessed(costs: ClusterCosts, { microBatches, schedule }: Draft, groups: Groups): Estimated | null {
  const found = estimate(costs, groups, microBatches, schedule);
  if (found === null || found.missingBytes > 0) return null;
  const seconds = found.seconds + unevenStateSeconds(costs, found.draft);
  return seconds === Number.POSITIVE_INFINITY ? null : { ...found, seconds };
}

type Change = (costs: ClusterCosts, groups: Groups, order: readonly number[], random: Random) => Groups | null;

/** Null where the move that was drawn cannot be made. */
function randomNeighbour(costs: ClusterCosts, groups: Groups, order: readonly number[], random: Random): Groups | null {
  let drawn = random() * WEIGHTS;
  for (const [weight, change] of CHANGES) {
    drawn -= weight;
    if (drawn >= 0) continue;
    const changed = change(costs, groups, order, random);
    return changed === null || changed.length > costs.model.layers || changed.length === 0 ? null : changed;
  }
  return null;
}

/** Some peer of some stage: its place and stage. */
function seated(groups: Groups, random: Random): [number, number] {
  let at = below(
    random,
    groups.reduce((sum, group) => sum + group.length, 0),
  );
  for (const [stage, group] of groups.entries()) {
    const place = group[at];
    if (place !== undefined) return [place, stage];
    at -= group.length;
  }
  return [0, 0];
}

function idle(groups: Groups, order: readonly number[], random: Random): number | null {
  for (let drawn = 0; drawn < MOST_DRAWN; drawn++) {
    const place = order[Math.floor(random() ** 2 * order.length)];
    if (place !== undefined && !groups.some((group) => group.includes(place))) return place;
  }
  return null;
}

// Stages that are not touched stay the same lists: what was worked out for them is found again.
const replaced = (groups: Groups, changes: ReadonlyMap<number, readonly number[]>): Groups =>
  groups.map((group, stage) => changes.get(stage) ?? group).filter((group) => group.length > 0);
const without = (group: readonly number[] = [], place: number): number[] => group.filter((other) => other !== place);
const instead = (group: readonly number[] = [], one: number, other: number): number[] =>
  group.map((place) => (place === one ? other : place));

const enters: Change = (_, groups, order, random) => {
  const place = idle(groups, order, random);
  const stage = below(random, groups.length);
  const group = groups[stage] ?? [];
  return place === null || group.length >= MOST_LANES ? null : replaced(groups, new Map([[stage, [...group, place]]]));
};

const leaves: Change = (_costs, groups, _order, random) => {
  const [place, stage] = seated(groups, random);
  return replaced(groups, new Map([[stage, without(groups[stage], place)]]));
};

const relieves: Change = (_, groups, order, random) => {
  const place = idle(groups, order, random);
  const [other, stage] = seated(groups, random);
  return place === null ? null : replaced(groups, new Map([[stage, instead(groups[stage], other, place)]]));
};

const moves: Change = (_costs, groups, _order, random) => {
  const [place, from] = seated(groups, random);
  const to = below(random, groups.length);
  if (from === to) return null;
  const [left, joined] = [without(groups[from], place), [...(groups[to] ?? []), place]];
  return joined.length > MOST_LANES
    ? null
    : replaced(
        groups,
        new Map([
          [from, left],
          [to, joined],
        ]),
      );
};

const changePlaces: Change = (_costs, groups, _order, random) => {
  const [one, from] = seated(groups, random);
  const [other, to] = seated(groups, random);
  if (from === to) return null;
  return replaced(
    groups,
    new Map([
      [from, instead(groups[from], one, other)],
      [to, instead(groups[to], other, one)],
    ]),
  );
};

const opensStage: Change = (_, groups, order, random) => {
  const place = idle(groups, order, random);
  const at = below(random, groups.length + 1);
  return place === null ? null : [...groups.slice(0, at), [place], ...groups.slice(at)];
};

const stageMoves: Change = (_costs, groups, _order, random) => {
  const [from, to] = [below(random, groups.length), below(random, groups.length)];
  if (from === to) return null;
  const others = groups.filter((_, stage) => stage !== from);
  return [...others.slice(0, to), groups[from] ?? [], ...others.slice(to)];
};

const joins: Change = (_costs, groups, _order, random) => {
  const stage = 1 + below(random, groups.length - 1);
  const joined = [...(groups[stage - 1] ?? []), ...(groups[stage] ?? [])];
  if (groups.length < 2 || joined.length > MOST_LANES) return null;
  return [...groups.slice(0, stage - 1), joined, ...groups.slice(stage + 1)];
};

const splits: Change = (_costs, groups, _order, random) => {
  const stage = below(random, groups.length);
  const group = groups[stage] ?? [];
  const isFirst = group.map(() => random() < 0.5);
  const parts = [group.filter((_, at) => isFirst[at]), group.filter((_, at) => !isFirst[at])];
  if (parts.some((part) => part.length === 0)) return null;
  return [...groups.slice(0, stage), ...parts, ...groups.slice(stage + 1)];
};

/** How often each is drawn. */
const CHANGES: readonly (readonly [number, Change])[] = [
  [5, enters],
  [3, leaves],
  [5, relieves],
  [2, moves],
  [2, changePlaces],
  [1, opensStage],
  [1, stageMoves],
  [0.5, joins],
  [0.5, splits],
];
const WEIGHTS = CHANGES.reduce((sum, [weight]) => sum + weight, 0);
