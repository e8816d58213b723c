/**
 * Which donors make an island together: those alone who have room for the model, the others in pipelines of a donor a stage
 * (chains.ts), or in lanes where their links carry gradients. What is sought is tokens a second times the chance that an
 * island lives to its meeting, or tokens alone.
 * Of a group follows a team: its best plan as an island, what its memory leaves over, and what its meetings take.
 */
import { at, countIn, got, type PeerId, totalOf } from '../base.ts';
import type { MeetingSettings } from '../islands/outer.ts';
import {
  meetingTimes,
  OWNER_BYTES,
  OWNERS,
  ownerLine,
  publishedBytes,
  SENT_KINDS,
  sharesOf,
  toEveryGroup,
  wantsOwners,
} from '../islands/ownerShares.ts';
import { blocksOfStage } from '../model/model.ts';
import { type Plan, peers as peersOf, problems } from '../plan/plan.ts';
import { sizeOf } from '../plan/shardCuts.ts';
import { FLOAT_BYTES, STATE_KINDS, savedKinds, stateKinds } from '../plan/stateKinds.ts';
import {
  type Chain,
  chainsOf,
  type GroupsAsked,
  MEETING_PART,
  rateBothWays,
  stageElements,
  weightOf,
} from './chains.ts';
import { type ClusterCosts, type ClusterProblem, clusterCosts, type PlannedPeer } from './clusterCosts.ts';
import { type Judged, judgeDraft, memoryOf, planOf, roomyBytes, withConnections, withLinks } from './draft.ts';
import { type Forecast, forecast } from './forecast.ts';
import { DRAFT_SCHEDULES, type Sketch } from './layout.ts';

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
export function plannedGroups(asked: GroupsAsked, from: readonly Chain[] = []): Grouping {
  const known = new Map<number, Group | null>();
  const alone = (place: number): Group | null => {
    const found = known.get(place);
    if (found !== undefined) return found;
    const made = groupOf(asked, [place]);
    known.set(place, made);
    return made;
  };
  const chains = chainsOf(asked, (place) => alone(place)?.judged.seconds ?? Infinity, from);
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
    const judged = judgeDraft(costs, sketch, { mayGather: false, limit: found?.seconds ?? Infinity });
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
  const slowestFirst = by((peer) => -rateBothWays(peer));
  return [slowestFirst, by((peer) => peer.memoryBytes)];
}

/** Seconds until the slowest line has brought what its donor receives at a meeting. */
function receivingSeconds({ costs, meets }: GroupsAsked, { draft }: Judged): number {
  let [from, most] = [0, 0];
  for (const [stage, places] of draft.groups.entries()) {
    const layers = [from, from + at(draft.layers, stage)] as const;
    from = layers[1];
    const bytes = meets.received * stageElements(costs, layers);
    for (const place of places) most = Math.max(most, bytes / at(costs.peers, place).download);
  }
  return most;
}

/** A group with its plan, as it would run. */
export interface Team {
  /** Of its group, with as many turns. */
  readonly costs: ClusterCosts;
  readonly group: Group;
  readonly plan: Plan;
  readonly forecast: Forecast;
  readonly memory: ReadonlyMap<PeerId, number>;
  readonly parts: readonly Part[];
  /** Islands that it computes by turns. */
  readonly turns: number;
}

/** Costs of a group that does so many islands by turns; `planned` are those that it is planned with, which may keep room for owners. */
type CostsFor = (turns: number) => Readonly<Record<'planned' | 'own', ClusterCosts>>;

/** With streams as exact as leave it as many steps in so many seconds. */
export function exact(team: Team, steps: number, seconds: number): Team {
  const { costs } = team;
  if (costs.batch.wire !== 'auto') return team;
  const plan = withLinks(costs, team.plan, steps > 0 ? seconds / steps : undefined);
  return { ...team, plan, forecast: forecast(costs, plan), memory: memoryOf(costs, plan) };
}

/** Null where its memory, to the byte, is more than its donors have. */
export function teamOf(costsFor: CostsFor, group: Group, turns: number): Team | null {
  const { planned, own: costs } = costsFor(turns);
  const drafted = planOf(planned, group.judged.draft);
  if (drafted === null || drafted.missingBytes > 0) return null;
  const plan = withConnections(costs, drafted.plan);
  const [memory, roomy] = [memoryOf(costs, plan), roomyBytes(costs, plan)];
  if (problems(costs.model, costs.batch, plan).length > 0) return null;
  const isFull = (id: PeerId): boolean => got(memory, id) > at(costs.peers, costs.placeOf(id)).memoryBytes;
  if (peersOf(plan).some(isFull)) return null;
  const parts = peersOf(plan).map((id): Part => {
    const stages = plan.stages.filter(({ members }) => members.some(({ peer }) => peer === id));
    const held = stages.flatMap(({ layers }) => blocksOfStage(costs.model, layers).flatMap(({ ranges }) => ranges));
    const kept = plan.state.flatMap(({ shards }) => shards.filter(({ peer }) => peer === id));
    const place = costs.placeOf(id);
    const { memoryBytes, hostBytes } = at(costs.peers, place);
    const primary = totalOf(kept, sizeOf);
    return {
      place,
      primary: turns * primary,
      held: totalOf(held, countIn),
      // What is kept for meetings may lie in main memory, as far as planes leave it over.
      free:
        memoryBytes -
        (got(roomy, id) <= memoryBytes ? got(roomy, id) : got(memory, id)) +
        Math.max(0, hostBytes - costs.planeBytes * primary),
    };
  });
  return { costs, group, plan, forecast: forecast(costs, plan), memory, parts, turns };
}

/** How they meet: ranges have owners, or every primary sends its packets to every group. */
export type MeetingWay = 'owned' | 'toAll';
/** Of gradients there is a plane that is no kind of state. */
const UPDATED_BYTES = FLOAT_BYTES * (STATE_KINDS.length + 1);
/** Bytes an element beside value, gradient and moments. */
const planeBytes = ({ exchange, publish }: MeetingSettings, turns: number, way: MeetingWay): number =>
  FLOAT_BYTES * (1 + stateKinds({ count: turns, exchange, publish }, undefined, way === 'owned').length) -
  UPDATED_BYTES;

/** Other groups that a donor sends its packets to; null: it sends them to owners. About as many as there is memory for. */
export function othersOf(
  { peers, model, planeBytes: planes }: ClusterCosts,
  count: number | 'auto',
  way: MeetingWay,
): number | null {
  if (way === 'owned') return null;
  const elements = totalOf(model.blocks, (block) => block.elements);
  const room = peers.reduce((sum, { memoryBytes, hostBytes }) => sum + memoryBytes + hostBytes, 0);
  const most = Math.min(peers.length, Math.floor(room / ((UPDATED_BYTES + planes) * elements)));
  return Math.max(0, Math.min(most, count === 'auto' ? most : count) - 1);
}

/** `kept` bytes of each element stay free while groups are sought. */
export function costsIn(problem: ClusterProblem, asked: MeetingSettings, way: MeetingWay, kept: number): CostsFor {
  const known = new Map<number, ReturnType<CostsFor>>();
  return (turns) => {
    const found = known.get(turns);
    if (found) return found;
    const bytes = planeBytes(asked, turns, way);
    const own = clusterCosts({ ...problem, planeBytes: bytes });
    const made = { own, planned: kept === 0 ? own : clusterCosts({ ...problem, planeBytes: bytes + kept }) };
    known.set(turns, made);
    return made;
  };
}

/** From the round's end to the next one's beginning messages go to and fro so often: packets, digests, roster, outcome. */
const MESSAGES = 6;
/** Of CPU work an element: a packet made, the outer step, what is published. Measured, 10 M elements in 0.3 s. */
const ELEMENT_SECONDS = 3e-8;

/** Which is all that matters of it here. */
const SPARSE = { top: 1, chunk: 1, feedback: 0 };

/** A donor's part of an island. */
export interface Part {
  readonly place: number;
  /** Elements whose primary it is, and those that it computes with. */
  readonly primary: number;
  readonly held: number;
  /** Bytes of its memory that nothing else takes. */
  readonly free: number;
}

export interface MeetingSeconds {
  /** Until all ranges are sent by their owners, or all packets to every group. */
  readonly sendingSeconds: number;
  /** Latencies and CPU work beside sending and receiving. */
  readonly besideSeconds: number;
  /** The part of the model that each donor owns; empty where nobody does. */
  readonly shares: readonly number[];
}

/** A model, and what each donor's line carries. */
interface Lines {
  readonly model: { readonly blocks: readonly { readonly elements: number }[] };
  readonly peers: readonly { readonly upload: number; readonly download: number }[];
}

const elementsOf = ({ model }: Pick<Lines, 'model'>): number => totalOf(model.blocks, ({ elements }) => elements);

/** Bytes that owners need beside what these donors have. */
export const missingForOwners = (costs: ClusterCosts, parts: readonly Part[]): number =>
  Math.min(OWNERS, parts.length) * OWNER_BYTES * elementsOf(costs) - totalOf(parts, ({ free }) => free);

/**
 * What a meeting of islands takes, in the two ways that a run has. With owners (islands/ownerShares.ts) each primary sends its
 * packet to the owner of that range and to the owner's copy; the owner adds what all islands sent, takes the outer step and
 * publishes the outcome to everyone who computes with that range. To every group: each primary sends its packet to whoever
 * keeps that range elsewhere, and every keeper works out all that it keeps.
 *
 * Null where nobody has room for what owners keep, or no line carries anything.
 */
export function meetingOf(
  costs: ClusterCosts,
  settings: MeetingSettings,
  parts: readonly Part[],
): MeetingSeconds | null {
  const model = elementsOf(costs);
  const lines = parts.map(({ place, primary, held, free }) => ({
    ...ownerLine(settings, at(costs.peers, place), primary, held),
    room: free / (OWNER_BYTES * model),
  }));
  const found = sharesOf(lines);
  if (found === null) return null;
  const { seconds, owned, copied } = found;
  const worked = parts.map(({ held }, i) => held + (at(owned, i) + at(copied, i)) * model);
  return {
    sendingSeconds: Math.max(seconds, overLinks(costs, settings, parts, owned)),
    besideSeconds: besideSeconds(costs, parts, worked),
    shares: owned,
  };
}

/** A group's donors with their parts, and how many islands they do by turns. */
interface Parted {
  readonly parts: readonly Part[];
  readonly turns: number;
}

const donorsOf = (costs: ClusterCosts, { parts, turns }: Parted) => ({
  turns,
  donors: parts.map(({ place, primary, held }) => {
    const { id, upload, download } = at(costs.peers, place);
    return { peer: id, upload, download, primary: primary / turns, kept: held };
  }),
});

/** Seconds of each donor that sends its packets to every group. */
export const secondsToAll = (costs: ClusterCosts, settings: MeetingSettings, groups: readonly Parted[]): number[] =>
  toEveryGroup(
    elementsOf(costs),
    settings,
    groups.map((group) => donorsOf(costs, group)),
  );

export const meetSoonerOwned = (costs: ClusterCosts, settings: MeetingSettings, groups: readonly Parted[]): boolean =>
  wantsOwners(
    meetingTimes(
      elementsOf(costs),
      settings,
      groups.map((group) => donorsOf(costs, group).donors),
    ),
  );

/** Without owners. */
export function meetingOfAll(
  costs: ClusterCosts,
  settings: MeetingSettings,
  groups: readonly Parted[],
): MeetingSeconds {
  const parts = groups.flatMap((group) => group.parts);
  // The outer step of all that it keeps, beside its packets.
  const worked = parts.map(({ primary, held }) => primary + held);
  return {
    sendingSeconds: Math.max(...secondsToAll(costs, settings, groups)),
    besideSeconds: besideSeconds(costs, parts, worked),
    shares: [],
  };
}

/** A checkpoint of what islands share. */
export interface IslandSave {
  /** Of the groups the one that has it uploaded soonest, which saves it. */
  readonly group: number;
  readonly uploadSeconds: number;
  readonly bytes: number;
  /** How much longer the meeting takes, with owners, who send that group what is saved. */
  readonly meetingSeconds: number;
}

/** `shares`: of owners, in the order of all donors of these groups, then of others; empty where there are none. */
export function islandSave(
  costs: Lines,
  { publish }: Pick<MeetingSettings, 'publish'>,
  groups: readonly (readonly Part[])[],
  owning: readonly Part[],
  shares: readonly number[],
): IslandSave {
  const model = elementsOf(costs);
  const saved = FLOAT_BYTES * savedKinds({ count: 'auto', exchange: SPARSE, publish }).length;
  const sent = shares.length > 0 ? FLOAT_BYTES * SENT_KINDS : 0;
  const of = ({ place }: Part) => at(costs.peers, place);
  const slowest = (parts: readonly Part[], seconds: (part: Part, i: number) => number): number =>
    Math.max(0, ...parts.map(seconds));
  const uploads = groups.map((parts) => slowest(parts, (part) => (saved * part.primary) / of(part).upload));
  const group = uploads.indexOf(Math.min(...uploads));
  const received = slowest(at(groups, group), (part) => (sent * part.held) / of(part).download);
  const sending = slowest(owning, (part, i) => (sent * (shares[i] ?? 0) * model) / of(part).upload);
  return {
    ...{ group, uploadSeconds: at(uploads, group), bytes: saved * model },
    meetingSeconds: Math.max(received, sending),
  };
}

/** What goes from each owner to each donor over their link alone. */
function overLinks(costs: ClusterCosts, settings: MeetingSettings, parts: readonly Part[], owned: readonly number[]) {
  let most = 0;
  for (const [owner, { place: from }] of parts.entries()) {
    for (const { place: to, held } of parts) {
      const { bytesPerSecond } = costs.linkAt(from, to);
      if (bytesPerSecond === null || from === to) continue;
      most = Math.max(most, (at(owned, owner) * publishedBytes(settings, held)) / bytesPerSecond);
    }
  }
  return most;
}

function farthest(costs: ClusterCosts, parts: readonly Part[]): number {
  let most = 0;
  for (const { place: from } of parts)
    for (const { place: to } of parts) if (from !== to) most = Math.max(most, costs.linkAt(from, to).latencySeconds);
  return most;
}

/** `worked`: elements of each part's CPU work. */
const besideSeconds = (costs: ClusterCosts, parts: readonly Part[], worked: readonly number[]): number =>
  MESSAGES * farthest(costs, parts) + ELEMENT_SECONDS * Math.max(...worked);
