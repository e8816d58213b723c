/**
 * Which donors make an island together: those alone who have room for the model and a line that carries their part of a
 * meeting, the others in pipelines of a donor a stage. What is sought is tokens a second times the chance that an island
 * lives to its meeting, or tokens alone. Groups begin with the donor of the best line and whoever has the best link to it (FlashFlex's
 * grouping: fast links inside, slow ones between), and are bettered by exchanges, as long as the work lasts.
 */
import { at, type Random, seededRandom } from '../base.ts';
import { type ClusterCosts, type PlannedPeer, remembered } from './clusterCosts.ts';
import { elementsOf, type GroupsAsked, MEETING_PART, MOST_STAGES, weightOf } from './groupsAsked.ts';
import { type Chain, chainsOf } from './islandChains.ts';
import { type Judged, judge, type Sketch } from './judge.ts';
import { judgedChains } from './judgedChains.ts';
import { DRAFT_SCHEDULES } from './layout.ts';
import { mostLayers } from './stageFit.ts';

/** Exchanges that are tried for each donor, and at least. */
const [TRIES_EACH, FEWEST_TRIES] = [30, 400];
/** At first an exchange that is worth so much less for its two groups is made one time in e. */
const FIRST_TEMPERATURE = 0.03;
/** How many of the nearest are looked at first. */
const FIRST_NEAR = 8;
/** Donors of one island by their places, and the best draft found of them. */
export interface Group {
  readonly places: readonly number[];
  readonly judged: Judged;
  /** Seconds until all of them have received their parts of what a meeting publishes. */
  readonly receiving: number;
  /** Tokens a second, times the chance that it lives to its meeting where that is asked for. */
  readonly worth: number;
}

interface Grouping {
  readonly groups: readonly Group[];
  readonly idle: readonly number[];
}

export function groupsOf(asked: GroupsAsked): Grouping {
  const { costs } = asked;
  const known = new Map<string, Group | null>();
  const group = (members: readonly number[]): Group | null => {
    const key = members.toSorted((a, b) => a - b).join();
    const found = known.get(key);
    if (found !== undefined) return found;
    const layers = members.reduce((sum, place) => sum + layersOf(costs, place), 0);
    const mayBe = members.length > 0 && members.length <= MOST_STAGES && layers >= costs.model.layers;
    const made = mayBe ? groupOf(asked, members) : null;
    known.set(key, made);
    return made;
  };
  const first = beginning(costs, group);
  const chains = asked.overlaps ? chainsOf(asked) : [];
  const piped = groupsOfChains(asked, chains);
  if (worthOfAll(piped) <= worthOfAll(first.groups)) return bettered(costs, first, group);
  const better = groupsOfChains(asked, judgedChains(asked, chains));
  const groups = worthOfAll(better) > worthOfAll(piped) ? better : piped;
  return { groups: groups.toSorted(byWorth), idle: idleOf(costs, groups) };
}

/** The best first. */
const byWorth = (a: Group, b: Group): number => b.worth - a.worth || at(a.places, 0) - at(b.places, 0);
const worthOfAll = (groups: readonly Group[]): number => groups.reduce((sum, { worth }) => sum + worth, 0);

/** Pipelines alone, each judged as a draft. */
const groupsOfChains = (asked: GroupsAsked, chains: readonly Chain[]): Group[] =>
  chains.flatMap(({ places, layers }) => {
    const groups = places.map((place) => [place]);
    const { samples } = asked.costs.batch;
    const overlapping = { groups, microBatches: samples, schedule: '1f1b', warmup: 'overlap' } as const;
    const found = bestOf(asked, [{ ...overlapping, layers }, overlapping, ...inChain(groups, [samples])]);
    return (found && groupWith(asked, places, found)) ?? [];
  });

type MakeGroup = (members: readonly number[]) => Group | null;

/** The best of a few drafts with all of these donors; null where none fits them, or no step ends within a round. */
export function groupOf(asked: GroupsAsked, members: readonly number[]): Group | null {
  const found = bestOf(asked, sketches(asked.costs, members));
  return found && groupWith(asked, members, found);
}

function bestOf({ costs, overlaps }: GroupsAsked, drafts: Iterable<Sketch>): Judged | null {
  let found: Judged | null = null;
  for (const sketch of drafts) {
    if (sketch.warmup === 'overlap' && !overlaps) continue;
    const judged = judge(costs, sketch, { mayGather: false, limit: found?.seconds ?? Number.POSITIVE_INFINITY });
    if (judged === null || judged.missingBytes > 0) continue;
    if (found === null || judged.seconds < found.seconds) found = judged;
  }
  return found;
}

function groupWith(asked: GroupsAsked, members: readonly number[], found: Judged): Group | null {
  const { samples, sequence } = asked.costs.batch;
  const receiving = receivingSeconds(asked, found);
  const late = Math.max(0, receiving - asked.roundSeconds * MEETING_PART);
  const steps = Math.floor(Math.max(0, asked.roundSeconds - late) / found.seconds);
  const worth = (steps * samples * sequence * weightOf(asked, members)) / asked.roundSeconds;
  return worth > 0 ? { places: members, judged: found, receiving, worth } : null;
}

function* sketches(costs: ClusterCosts, members: readonly number[]): Generator<Sketch> {
  const { samples } = costs.batch;
  if (members.length === 1) {
    for (let microBatches = 1; microBatches < 2 * samples; microBatches *= 2)
      yield { groups: [members], microBatches: Math.min(microBatches, samples), schedule: '1f1b' };
    return;
  }
  const microBatches = Math.min(samples, 4 * members.length);
  if (members.length <= costs.model.layers)
    for (const chain of chains(costs, members)) {
      const groups = chain.map((place) => [place]);
      yield* inChain(groups, new Set([samples, microBatches]));
    }
  // Lanes: for links that carry gradients.
  if (members.length <= samples)
    for (const placement of ['room', 'links'] as const)
      yield { groups: [members], microBatches, schedule: '1f1b', placement };
}

function* inChain(groups: Sketch['groups'], counts: Iterable<number>): Generator<Sketch> {
  for (const microBatches of counts) {
    yield { groups, microBatches, schedule: '1f1b', warmup: 'overlap' };
    for (const schedule of DRAFT_SCHEDULES) yield { groups, microBatches, schedule };
  }
}

/** Orders of a pipeline. Its ends send one stream instead of two, and have the embedding and the head. */
function chains({ peers }: ClusterCosts, members: readonly number[]): number[][] {
  const by = (size: (peer: PlannedPeer) => number): number[] => {
    const sorted = members.toSorted((a, b) => size(at(peers, b)) - size(at(peers, a)) || a - b);
    return [...sorted.slice(1), ...sorted.slice(0, 1)];
  };
  const slowestFirst = by((peer) => -lineOf(peer));
  return [slowestFirst, by((peer) => peer.memoryBytes)];
}

const lineOf = ({ upload, download }: PlannedPeer): number => Math.min(upload, download);

/** Seconds until the slowest line has brought what its donor receives at a meeting. */
function receivingSeconds({ costs, meets }: GroupsAsked, { draft }: Judged): number {
  let [from, most] = [0, 0];
  for (const [stage, places] of draft.groups.entries()) {
    const layers = [from, from + at(draft.layers, stage)] as const;
    from = layers[1];
    const bytes = meets.received * elementsOf(costs, layers);
    for (const place of places) most = Math.max(most, bytes / at(costs.peers, place).download);
  }
  return most;
}

/**
 * Alone whoever can be. The others from the best line on, each with the roomiest of those of the best links to it: of the
 * nearest eight, sixteen and so on, whatever is worth most for the layers that its donors have room for.
 */
function beginning(costs: ClusterCosts, group: MakeGroup): Grouping {
  const groups: Group[] = [];
  let left: number[] = [];
  for (const place of costs.peers.keys()) {
    const alone = group([place]);
    if (alone) groups.push(alone);
    else if (layersOf(costs, place) > 0) left.push(place);
  }
  left.sort((a, b) => lineOf(at(costs.peers, b)) - lineOf(at(costs.peers, a)) || a - b);
  while (left.length > 1) {
    const [seed = 0, ...others] = left;
    const near = byLink(costs, seed, others);
    let [found, most]: [Group | null, number] = [null, 0];
    for (let count = FIRST_NEAR; count < FIRST_NEAR + 2 * others.length; count *= 2) {
      const made = grown(costs, [seed, ...roomiest(costs, near.slice(0, count))], group);
      const share = made && made.worth / made.places.reduce((sum, place) => sum + layersOf(costs, place), 0);
      if (share !== null && share > most) [found, most] = [made, share];
    }
    if (found) groups.push(found);
    const taken = new Set(found?.places ?? [seed]);
    left = left.filter((place) => !taken.has(place));
  }
  return { groups, idle: idleOf(costs, groups) };
}

/** The first of these that hold the model together. */
function grown(costs: ClusterCosts, order: readonly number[], group: MakeGroup): Group | null {
  let layers = 0;
  for (const [index, place] of order.entries()) {
    layers += layersOf(costs, place);
    if (index >= MOST_STAGES) return null;
    const made = layers < costs.model.layers ? null : group(order.slice(0, index + 1));
    if (made) return made;
  }
  return null;
}

const roomiest = ({ peers }: ClusterCosts, places: readonly number[]): number[] =>
  places.toSorted((a, b) => at(peers, b).memoryBytes - at(peers, a).memoryBytes || a - b);

const idleOf = (costs: ClusterCosts, groups: readonly Group[]): number[] => {
  const members = new Set(groups.flatMap(({ places }) => places));
  return [...costs.peers.keys()].filter((place) => !members.has(place));
};

const knownLayers = remembered<number>();

/** Layers of the model's middle that a donor has room for, one sample at a time. */
const layersOf = (costs: ClusterCosts, place: number): number =>
  knownLayers(costs, place, () => mostLayers(costs, { places: [place], largest: Int32Array.of(1) }, false, false));

/** By what the link and both lines carry, then by its latency, then by room. */
function byLink(costs: ClusterCosts, seed: number, others: readonly number[]): number[] {
  const rate = (place: number): number => {
    const { bytesPerSecond } = costs.linkAt(seed, place);
    return Math.min(
      bytesPerSecond ?? Number.POSITIVE_INFINITY,
      lineOf(at(costs.peers, place)),
      lineOf(at(costs.peers, seed)),
    );
  };
  const room = (place: number): number => at(costs.peers, place).memoryBytes;
  const latency = (place: number): number => costs.linkAt(seed, place).latencySeconds;
  return others.toSorted((a, b) => {
    const [one, other] = [rate(a), rate(b)];
    return (one === other ? latency(a) - latency(b) : other - one) || room(b) - room(a) || a - b;
  });
}

/** Donors move and change places between groups as long as that is worth more; who is idle joins where it is of use. */
function bettered(costs: ClusterCosts, { groups, idle }: Grouping, group: MakeGroup): Grouping {
  const random = seededRandom(1);
  // The last one is of those without a group, and before it there is always an empty one.
  const teams: (readonly number[])[] = [...groups.map(({ places }) => places), [], idle];
  const isIdle = (team: number): boolean => team === teams.length - 1;
  const worthOf = (team: number, members: readonly number[]) => (isIdle(team) ? 0 : (group(members)?.worth ?? 0));
  let total = groups.reduce((sum, { worth }) => sum + worth, 0);
  let [best, most] = [[...teams], total];
  const count = Math.max(FEWEST_TRIES, TRIES_EACH * costs.peers.length);
  for (let tries = 0; tries < count; tries++) {
    const [a, b] = [pick(random, teams.length), pick(random, teams.length)];
    const exchange = a === b ? null : exchanged(random, at(teams, a), at(teams, b));
    if (exchange === null) continue;
    const now = worthOf(a, at(teams, a)) + worthOf(b, at(teams, b));
    const then = worthOf(a, exchange[0]) + worthOf(b, exchange[1]);
    // A loss is taken now and then, ever less often: cooling, as the search for a plan does it.
    const temperature = FIRST_TEMPERATURE * (1 - tries / count) ** 2;
    if (then < now * (1 + temperature * Math.log(random()))) continue;
    [teams[a], teams[b]] = exchange;
    if (at(teams, teams.length - 2).length > 0) teams.splice(-1, 0, []);
    total += then - now;
    if (total > most) [best, most] = [[...teams], total];
  }
  const used = best.slice(0, -1).flatMap((members) => group(members) ?? []);
  return {
    groups: used.toSorted(byWorth),
    idle: idleOf(costs, used),
  };
}

const pick = (random: Random, count: number): number => Math.floor(random() * count);

/** One goes from the first to the second, or two change places. */
function exchanged(random: Random, from: readonly number[], to: readonly number[]): [number[], number[]] | null {
  if (from.length === 0) return null;
  const goes = at(from, pick(random, from.length));
  const left = from.filter((place) => place !== goes);
  if (to.length === 0 || random() < 0.5) return [left, [...to, goes]];
  const comes = at(to, pick(random, to.length));
  return [
    [...left, comes],
    [...to.filter((place) => place !== comes), goes],
  ];
}
