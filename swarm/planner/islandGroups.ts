/**
 * Which donors make an island together: those alone who have room for the model, the others in pipelines of a donor a stage
 * (chains.ts), or in lanes where their links carry gradients. What is sought is tokens a second times the chance that an
 * island lives to its meeting, or tokens alone.
 */
import { at } from '../base.ts';
import { type Chain, chainsOf } from './chains.ts';
import type { ClusterCosts, PlannedPeer } from './clusterCosts.ts';
import { elementsOf, type GroupsAsked, lineOf, MEETING_PART, weightOf } from './groupsAsked.ts';
import { type Judged, judge, type Sketch } from './judge.ts';
import { DRAFT_SCHEDULES } from './layout.ts';

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
  /** The best first. */
  readonly groups: readonly Group[];
  /** Their pipelines, where a search with another caution may begin. */
  readonly chains: readonly Chain[];
}

/** `from`: pipelines that were found with another caution. */
export function groupsOf(asked: GroupsAsked, from: readonly Chain[] = []): Grouping {
  const known = new Map<number, Group | null>();
  const alone = (place: number): Group | null => {
    const found = known.get(place);
    if (found !== undefined) return found;
    const made = groupOf(asked, [place]);
    known.set(place, made);
    return made;
  };
  const chains = chainsOf(asked, (place) => alone(place)?.judged.seconds ?? Number.POSITIVE_INFINITY, from);
  const groups = chains.flatMap((chain) => {
    const [first] = chain.places;
    return (
      (chain.places.length === 1 && first !== undefined ? alone(first) : groupOf(asked, chain.places, chain.layers)) ??
      []
    );
  });
  return { groups: groups.toSorted((a, b) => b.worth - a.worth || at(a.places, 0) - at(b.places, 0)), chains };
}

/**
 * The best of a few drafts with all of these donors, also in this order with these layers; null where none fits them, or no
 * step ends within a round.
 */
export function groupOf(asked: GroupsAsked, members: readonly number[], layers?: readonly number[]): Group | null {
  const groups = members.map((place) => [place]);
  const microBatches = asked.costs.batch.samples;
  const ordered = layers
    ? [
        ...ordersOf(groups, [microBatches]).map((sketch) => ({ ...sketch, layers })),
        ...ordersOf(groups, [microBatches]),
      ]
    : [];
  const found = bestOf(asked, [...ordered, ...sketches(asked.costs, members)]);
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
    for (const order of orders(costs, members))
      yield* ordersOf(
        order.map((place) => [place]),
        new Set([samples, microBatches]),
      );
  // Lanes: for links that carry gradients.
  if (members.length <= samples)
    for (const placement of ['room', 'links'] as const)
      yield { groups: [members], microBatches, schedule: '1f1b', placement };
}

/** Pipelines in every order of work. */
const ordersOf = (groups: Sketch['groups'], counts: Iterable<number>): Sketch[] =>
  [...counts].flatMap((microBatches): Sketch[] => [
    { groups, microBatches, schedule: '1f1b', warmup: 'overlap' },
    ...DRAFT_SCHEDULES.map((schedule): Sketch => ({ groups, microBatches, schedule })),
  ]);

/** Of donors in a pipeline. Its ends send one stream instead of two, and have the embedding and the head. */
function orders({ peers }: ClusterCosts, members: readonly number[]): number[][] {
  const by = (size: (peer: PlannedPeer) => number): number[] => {
    const sorted = members.toSorted((a, b) => size(at(peers, b)) - size(at(peers, a)) || a - b);
    return [...sorted.slice(1), ...sorted.slice(0, 1)];
  };
  const slowestFirst = by((peer) => -lineOf(peer));
  return [slowestFirst, by((peer) => peer.memoryBytes)];
}

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
