/**
 * The islands that a cluster's donors could make for a run (`train.islands`), beside one swarm that takes its steps
 * together: a plan an island, what a round takes, and in words why. With `auto` every group is an island. With K islands of
 * H steps a group does one or more of them by turns, so that the slowest is done as early as can be.
 * A round is the steps that each team ends in it, and the meeting after them.
 */
import {
  at,
  got,
  median,
  type PeerId,
  peerId,
  type Result,
  refusal,
  rounded,
  success,
  total,
  totalOf,
} from '../base.ts';
import type { MeetingSettings } from '../islands/outer.ts';
import { OWNER_BYTES, OWNERS } from '../islands/ownerShares.ts';
import { NEEDS_OWN } from '../plan/ends.ts';
import { type Plan, peers as peersOf } from '../plan/plan.ts';
import { bytesText, counted, durationText, groupedText, secondsText } from '../quantityText.ts';
import { type Islands, parseRunFile, type RunFile } from '../run/runFile.ts';
import { type Chain, chanceOfAll, meetsOf } from './chains.ts';
import type { Cluster } from './cluster.ts';
import { type ClusterCosts, type ClusterProblem, ownEndsOf } from './clusterCosts.ts';
import { type ClusterPlan, predictionOf } from './clusterPlan.ts';
import { memoryOf, planOf } from './draft.ts';
import {
  costsIn,
  exact,
  type Group,
  groupOf,
  type IslandSave,
  islandSave,
  type MeetingSeconds,
  type MeetingWay,
  meetingOf,
  meetingOfAll,
  meetSoonerOwned,
  missingForOwners,
  othersOf,
  type Part,
  plannedGroups,
  secondsToAll,
  type Team,
  teamOf,
} from './islandGroups.ts';
import type { Reason } from './reason.ts';

/** What a run file asks for. */
export interface IslandsAsked extends MeetingSettings {
  readonly rounds: AutoRounds | { readonly count: number; readonly innerSteps: number };
  /** Is a meeting held beside the steps of the next round? Not if absent. */
  readonly overlap?: boolean;
}

interface AutoRounds {
  readonly count: 'auto';
  readonly roundSeconds: number;
}

interface PlannedIsland {
  readonly plan: Plan;
  readonly predicted: ClusterPlan['predicted'] & { readonly stepsPerRound: number };
}

export interface IslandPlan {
  readonly islands: readonly PlannedIsland[];
  readonly predicted: {
    /** From one meeting's end to the next one's. */
    readonly roundSeconds: number;
    /** Of it, or with `overlap` beside its steps. */
    readonly meetingSeconds: number;
    /** While nobody leaves. */
    readonly tokensPerSecond: number;
    /** Of that what reaches its meeting, as long as donors stay. */
    readonly expectedTokensPerSecond: number;
    /** Parts of the model, of those donors who own some; empty where nobody does. */
    readonly owners: readonly { readonly peer: PeerId; readonly share: number }[];
  };
  /** With owners, and these groups would want them were there room for either. */
  readonly isSoonerOwned: boolean;
  readonly idle: ClusterPlan['idle'];
  readonly reasons: readonly Reason[];
}

/** Islands that are compared with others: their plans and sentences are finished once they are chosen. */
interface Sought extends Pick<IslandPlan, 'predicted' | 'isSoonerOwned'> {
  readonly count: number;
  readonly finished: () => IslandPlan;
}

const finishedOf = (found: Result<Sought>): Result<IslandPlan> => (found.ok ? success(found.value.finished()) : found);

/** Rounds that are first assumed where the run file counts steps. */
const FIRST_ROUND_SECONDS = 600;
/** Of runs that a coordinator has owners for. */
const mayOwn = ({ rounds, exchange, publish }: IslandsAsked): boolean =>
  rounds.count === 'auto' && exchange !== 'f32' && publish === 'int8';

export function planIslands(problem: ClusterProblem, asked: IslandsAsked): Result<IslandPlan> {
  const own = ownEndsOf(problem);
  if (own === null) return islandsOf(problem, asked);
  // Each island has ends of its own.
  const [trusted, strangers] = [
    problem.cluster.peers.filter((peer) => peer.own),
    problem.cluster.peers.filter((peer) => !peer.own),
  ];
  if (trusted.length === 0) return refusal(NEEDS_OWN);
  const { pairs } = problem.cluster.links;
  const isOwn = (name: string): boolean => trusted.some(({ id }) => id === name);
  const links = { ...problem.cluster.links, pairs: pairs.filter(({ between }) => between.every(isOwn)) };
  const found = islandsOf({ ...problem, cluster: { peers: trusted, links } }, asked);
  if (!found.ok) return found;
  const reason = 'each island has a first and a last stage of its own, which are for the operator’s own donors alone';
  return success({
    ...found.value,
    idle: [...found.value.idle, ...strangers.map(({ id }) => ({ peer: peerId(id), reason }))],
  });
}

function islandsOf(problem: ClusterProblem, asked: IslandsAsked): Result<IslandPlan> {
  // Where a donor stands in the file changes nothing.
  const cluster = { ...problem.cluster, peers: problem.cluster.peers.toSorted((a, b) => (a.id < b.id ? -1 : 1)) };
  const sorted = { ...problem, cluster };
  const found = planned(sorted, asked);
  if (!cluster.peers.some(({ hostBytes = 0 }) => hostBytes > 0)) return finishedOf(found);
  // With more room the search goes other ways, which may be worse ones: what is found with less stands beside it.
  const without = planned({ ...problem, cluster: withoutHostBytes(cluster) }, asked);
  if (!without.ok || (found.ok && isAsGood(found.value, without.value))) return finishedOf(found);
  return success(withMemory(sorted, asked, without.value.finished()));
}

/** Just these groups of donors, with the best plan found for each; who would end no step in a round is left out. */
export function planGroups(
  problem: ClusterProblem,
  asked: IslandsAsked & { readonly rounds: AutoRounds },
  groups: readonly (readonly PeerId[])[],
): Result<IslandPlan> {
  const found = inBestWay(asked, (way) => {
    const costsFor = costsIn(problem, asked, way, 0);
    const { planned: costs, own } = costsFor(1);
    const { roundSeconds } = asked.rounds;
    const meets = meetsOf(costs, asked, roundSeconds, othersOf(costs, asked.rounds.count, way));
    const searched = { costs, overlaps: true, roundSeconds, meets, caution: 0 };
    const teams = groups.flatMap((names) => {
      const group = groupOf(searched, names.map(costs.placeOf));
      return (group && teamOf(costsFor, group, 1)) ?? [];
    });
    return teams.length === 0 ? refusal(noGroup(costs, roundSeconds)) : whole(own, asked, way, teams, { roundSeconds });
  });
  return finishedOf(found);
}

/** To every group only where these groups do not meet clearly sooner with owners, which also take less memory. */
function inBestWay(asked: IslandsAsked, found: (way: MeetingWay) => Result<Sought>): Result<Sought> {
  if (!mayOwn(asked)) return found('toAll');
  const owned = found('owned');
  if (owned.ok && owned.value.isSoonerOwned) return owned;
  const toAll = found('toAll');
  // Where neither has room: what packets to every group lack is all that is missing, and owners need room beside an island's.
  return toAll.ok || owned.ok ? chosen([toAll, owned]) : toAll;
}

const withoutHostBytes = (cluster: Cluster): Cluster => ({
  ...cluster,
  peers: cluster.peers.map(({ hostBytes: _, ...peer }) => peer),
});

const isAsGood = ({ predicted: own }: Sought, { predicted: other }: Sought): boolean =>
  own.tokensPerSecond >= other.tokensPerSecond && own.expectedTokensPerSecond >= other.expectedTokensPerSecond;

/** Planned without main memory, and what it takes of the GPU's with it. */
function withMemory(problem: ClusterProblem, asked: IslandsAsked, found: IslandPlan): IslandPlan {
  const way = found.predicted.owners.length > 0 ? 'owned' : 'toAll';
  const islands = found.islands.map((island): PlannedIsland => {
    const turns = found.islands.filter(({ plan }) => plan === island.plan).length;
    const memory = memoryOf(costsIn(problem, asked, way, 0)(turns).own, island.plan);
    const peers = island.predicted.peers.map((own) => ({ ...own, memoryBytes: got(memory, own.peer) }));
    return { ...island, predicted: { ...island.predicted, peers } };
  });
  return { ...found, islands };
}

function planned(problem: ClusterProblem, asked: IslandsAsked): Result<Sought> {
  return inBestWay(asked, (way) => {
    const found = plannedKeeping(problem, asked, way, 0, true);
    if (found.ok || way === 'toAll') return found;
    // Only where owners have no room else: with fewer micro-batches in flight, and with so much kept free from the beginning.
    const others = [
      plannedKeeping(problem, asked, way, 0, false),
      plannedKeeping(problem, asked, way, OWNERS * OWNER_BYTES, true),
    ];
    return others.some(({ ok }) => ok) ? chosen(others) : found;
  });
}

/** `kept` bytes of each element stay free. */
function plannedKeeping(
  problem: ClusterProblem,
  asked: IslandsAsked,
  way: MeetingWay,
  kept: number,
  overlaps: boolean,
): Result<Sought> {
  const costsFor = costsIn(problem, asked, way, kept);
  const team = (group: Group, turns: number) => teamOf(costsFor, group, turns);
  const { planned: costs, own } = costsFor(1);
  const { rounds } = asked;
  const inRounds = (
    roundSeconds: number,
    made: (groups: readonly Group[]) => Result<Sought>,
    others = othersOf(costs, asked.rounds.count, way),
  ): Result<Sought> => {
    const meets = meetsOf(costs, asked, roundSeconds, others);
    const searched = { costs, overlaps, roundSeconds, meets };
    let chains: readonly Chain[] = [];
    const groupings = (overlaps ? CAUTIONS : [1]).map((caution) => {
      const found = plannedGroups({ ...searched, caution }, chains);
      chains = found.chains;
      return found.groups;
    });
    const tried = groupings.filter((groups) => groups.length > 0).map(made);
    return tried.length === 0 ? refusal(noGroup(costs, roundSeconds)) : chosen(tried);
  };
  if (rounds.count === 'auto') {
    const { roundSeconds } = rounds;
    const eachAnIsland = (groups: readonly Group[]): Result<Sought> => {
      const teams = groups.flatMap((group) => team(group, 1) ?? []);
      return teams.length === 0
        ? refusal(noGroup(costs, roundSeconds))
        : whole(own, asked, way, teams, { roundSeconds });
    };
    const all = inRounds(roundSeconds, eachAnIsland);
    const most = othersOf(costs, 'auto', way);
    const others = all.ok ? all.value.count - 1 : 1;
    // Fewer groups than there is memory for send to fewer: others, of faster donors, may then be worth more.
    return most === null || others >= most ? all : chosen([all, inRounds(roundSeconds, eachAnIsland, others)]);
  }
  const { innerSteps } = rounds;
  const byTurns = (roundSeconds: number): Result<Sought> =>
    inRounds(roundSeconds, (groups) => {
      const teams = soonestShared(own, asked, team, groups, rounds);
      return teams.ok ? whole(own, asked, way, teams.value, { innerSteps }) : teams;
    });
  const first = byTurns(FIRST_ROUND_SECONDS);
  const second = first.ok ? byTurns(first.value.predicted.roundSeconds) : first;
  if (!first.ok || !second.ok) return first;
  return second.value.predicted.tokensPerSecond > first.value.predicted.tokensPerSecond ? second : first;
}

/** Of those that are expected to do about as much, the one that does most while nobody leaves. */
function chosen(tried: readonly Result<Sought>[]): Result<Sought> {
  const plans = tried.flatMap((found) => (found.ok ? [found.value.predicted] : []));
  const most = Math.max(...plans.map(({ expectedTokensPerSecond }) => expectedTokensPerSecond));
  let best: Result<Sought> | null = null;
  for (const found of tried) {
    if (!found.ok || found.value.predicted.expectedTokensPerSecond < ABOUT_AS_MUCH * most) continue;
    if (!best?.ok || found.value.predicted.tokensPerSecond > best.value.predicted.tokensPerSecond) best = found;
  }
  return best ?? at(tried, 0);
}
const ABOUT_AS_MUCH = 0.75;
/** Groups are sought for more or less of what is expected of them: with none, donors would be taken who bring nearly nothing. */
const CAUTIONS = [0.05, 0.5];

type TeamFor = (group: Group, turns: number) => Team | null;

/** K islands. All wait for whoever has the slowest line: without that group, as long as others have room, they may be done sooner. */
function soonestShared(
  costs: ClusterCosts,
  asked: IslandsAsked,
  teamFor: TeamFor,
  groups: readonly Group[],
  { count, innerSteps }: { readonly count: number; readonly innerSteps: number },
): Result<Team[]> {
  const known = new Map(groups.map((group): [Group, Map<number, Team | null>] => [group, new Map()]));
  const knownTeam: TeamFor = (group, turns) => {
    const teams = got(known, group);
    if (!teams.has(turns)) teams.set(turns, teamFor(group, turns));
    return got(teams, turns);
  };
  let best = sharedOut(knownTeam, groups, count);
  let least = Infinity;
  for (let [left, shared] = [groups, best]; shared.ok; shared = sharedOut(knownTeam, left, count)) {
    const met = metBy(costs, asked, 'toAll', shared.value, { innerSteps, overlap: asked.overlap === true });
    if (!met.ok) break;
    if (met.value.round.seconds < least) [best, least] = [shared, met.value.round.seconds];
    const receiving = met.value.teams.map(({ group }) => group.receiving);
    const { group: slowest } = at(shared.value, receiving.indexOf(Math.max(...receiving)));
    left = left.filter((group) => group !== slowest);
  }
  return best;
}

/** K islands on groups of unequal speed: each next one to the group that would be done with it first. */
function sharedOut(teamFor: TeamFor, groups: readonly Group[], count: number): Result<Team[]> {
  const teams: (Team | null)[] = groups.map(() => null);
  const next = groups.map((group) => teamFor(group, 1));
  for (let island = 0; island < count; island++) {
    let [best, least] = [-1, Infinity];
    for (const [index, team] of next.entries()) {
      const seconds = team ? team.turns * team.forecast.stepSeconds : Infinity;
      if (seconds < least) [best, least] = [index, seconds];
    }
    const team = next[best];
    if (!team)
      return refusal(
        `these peers have room for ${island} of ${counted(count, 'island')}: each one more of the same peers takes 20 bytes a parameter of their memoryBytes or hostBytes`,
      );
    teams[best] = team;
    next[best] = teamFor(team.group, team.turns + 1);
  }
  return success(teams.filter((team) => team !== null));
}

function whole(
  costs: ClusterCosts,
  asked: IslandsAsked,
  way: MeetingWay,
  teams: readonly Team[],
  rounds: Rounds,
): Result<Sought> {
  const timed = { ...rounds, overlap: asked.overlap === true };
  const first = metBy(costs, asked, way, teams, timed);
  if (!first.ok) return first;
  const { teams: met, meeting, round } = withoutSlow(costs, asked, way, first.value, timed);
  const tokens = costs.batch.samples * costs.batch.sequence;
  const rate = (part: (team: Team) => number): number =>
    met.reduce((sum, team, i) => sum + at(round.steps, i) * tokens * part(team), 0) / round.seconds;
  const parts = owningParts(costs, met);
  const predicted = {
    roundSeconds: round.seconds,
    meetingSeconds: round.meetingSeconds,
    tokensPerSecond: rate(() => 1),
    expectedTokensPerSecond: rate(({ group }) => chanceOfAll(costs, group.places, round.seconds)),
    owners: meeting.shares.flatMap((share, i) =>
      share > 0 ? [{ peer: at(costs.peers, at(parts, i).place).id, share }] : [],
    ),
  };
  const isSoonerOwned = way === 'owned' && meetSoonerOwned(costs, asked, met);
  const finished = (): IslandPlan => {
    const ownParts = met.map((team) => team.parts);
    const save = islandSave(costs, asked, ownParts, parts, meeting.shares);
    const exacted = met.map((team, i) => exact(team, at(round.steps, i), at(round.stepsSeconds, i)));
    return {
      islands: exacted.flatMap((team, i) =>
        Array<PlannedIsland>(team.turns).fill({
          plan: team.plan,
          predicted: {
            ...predictionOf(costs, team.forecast, team.memory, peersOf(team.plan)),
            stepsPerRound: at(round.steps, i) / team.turns,
          },
        }),
      ),
      predicted,
      isSoonerOwned,
      idle: idleOf(costs, new Set(met.flatMap(({ group }) => group.places))),
      reasons: [
        ...summary(costs, exacted, asked.rounds.count === 'auto'),
        ...meetingWords(round.meetingSeconds, way === 'owned', secondsToAll(costs, asked, met)),
        ...(asked.rounds.count === 'auto' ? savingWords(save, round.seconds) : []),
        ...teamWords(exacted, round.steps, predicted.owners),
      ],
    };
  };
  return success({ predicted, isSoonerOwned, count: totalOf(met, ({ turns }) => turns), finished });
}

interface Round {
  readonly seconds: number;
  readonly meetingSeconds: number;
  /** Of each team, of all its islands. */
  readonly steps: readonly number[];
  /** What each team has for them. */
  readonly stepsSeconds: readonly number[];
}

/**
 * Steps as long as the time lasts; the round is over when the last of them ends. Whom a meeting's outcome reaches later than
 * the others begins late: how many are waited for is what makes most steps a second.
 */
function timedRound(teams: readonly Team[], meeting: MeetingSeconds, stepsSeconds: number): Round {
  const after = (waiting: number): Round => {
    const meetingSeconds = waiting + meeting.besideSeconds;
    const left = teams.map(({ group }) => Math.max(0, stepsSeconds - Math.max(0, group.receiving - waiting)));
    const steps = teams.map(({ forecast }, i) => Math.floor(at(left, i) / forecast.stepSeconds));
    // Nobody has another step then (IS66).
    const over = Math.max(
      ...teams.map(({ forecast }, i) => stepsSeconds - at(left, i) + at(steps, i) * forecast.stepSeconds),
    );
    const own = left.map((seconds) => Math.max(0, seconds - stepsSeconds + over));
    return { seconds: over + meetingSeconds, meetingSeconds, steps, stepsSeconds: own };
  };
  const rate = ({ steps, seconds }: Round): number => total(steps) / seconds;
  let best = after(meeting.sendingSeconds);
  for (const { group } of teams) {
    const tried = group.receiving > meeting.sendingSeconds ? after(group.receiving) : best;
    if (rate(tried) > rate(best)) best = tried;
  }
  return best;
}

/** Steps go on beside the meeting (IS80), whose outcome all of them wait for before they meet again. */
function besideMeeting(round: Round, teams: readonly Team[], meeting: MeetingSeconds): Round {
  const receiving = Math.max(...teams.map(({ group }) => group.receiving));
  const meetingSeconds = Math.max(meeting.sendingSeconds, receiving) + meeting.besideSeconds;
  return { ...round, seconds: Math.max(round.seconds, meetingSeconds), meetingSeconds };
}

/** Nobody waits for it, nor for what comes of it. */
const AT_ONCE: MeetingSeconds = { sendingSeconds: 0, besideSeconds: 0, shares: [] };
const withoutReceiving = (teams: readonly Team[]): Team[] =>
  teams.map((team) => ({ ...team, group: { ...team.group, receiving: 0 } }));

/** The slowest group is waited for. */
function countedRound(teams: readonly Team[], meeting: MeetingSeconds, innerSteps: number): Round {
  const receiving = Math.max(...teams.map(({ group }) => group.receiving));
  const meetingSeconds = Math.max(meeting.sendingSeconds, receiving) + meeting.besideSeconds;
  const steps = teams.map(({ turns }) => turns * innerSteps);
  const longest = Math.max(...teams.map(({ forecast }, i) => at(steps, i) * forecast.stepSeconds));
  return { seconds: longest + meetingSeconds, meetingSeconds, steps, stepsSeconds: teams.map(() => longest) };
}

interface Rounds {
  /** Of steps; absent: as long as the slowest group takes for so many inner steps of each of its islands. */
  readonly roundSeconds?: number;
  readonly innerSteps?: number;
  /** Is the meeting beside the next round's steps? */
  readonly overlap?: boolean;
}

/** Teams that have steps in a round, with it and its meeting. */
interface Met {
  readonly teams: readonly Team[];
  readonly meeting: MeetingSeconds;
  readonly round: Round;
}

function metBy(
  costs: ClusterCosts,
  asked: MeetingSettings,
  way: MeetingWay,
  all: readonly Team[],
  rounds: Rounds,
): Result<Met> {
  const parts = owningParts(costs, all);
  const meeting = way === 'owned' ? meetingOf(costs, asked, parts) : meetingOfAll(costs, asked, all);
  if (meeting === null)
    return refusal(
      `what these peers have left over does not hold what owners keep for the meetings of islands: ${groupedText(Math.ceil(missingForOwners(costs, parts)))} bytes of memoryBytes or hostBytes are missing, of any of them`,
    );
  const teams = way === 'owned' ? all : receivingAll(costs, asked, all);
  const roundOf = (met: readonly Team[], held: MeetingSeconds): Round =>
    rounds.innerSteps === undefined
      ? timedRound(met, held, rounds.roundSeconds ?? 0)
      : countedRound(met, held, rounds.innerSteps);
  const round = rounds.overlap
    ? besideMeeting(roundOf(withoutReceiving(teams), AT_ONCE), teams, meeting)
    : roundOf(teams, meeting);
  const busy = teams.filter((_, i) => at(round.steps, i) > 0);
  if (busy.length === 0) return refusal(noGroup(costs, rounds.roundSeconds ?? 0));
  // The others' donors had nothing to send: they would only have to be waited for.
  return busy.length < teams.length ? metBy(costs, asked, way, busy, rounds) : success({ teams, meeting, round });
}

/** Of the donors of these teams, then of who computes nothing: those may own something all the same, with all of their lines. */
function owningParts(costs: ClusterCosts, teams: readonly Team[]): Part[] {
  const parts = teams.flatMap((team) => team.parts);
  const used = new Set(parts.map(({ place }) => place));
  return [
    ...parts,
    ...[...costs.peers.entries()].flatMap(([place, { memoryBytes, hostBytes }]) =>
      used.has(place) ? [] : { place, primary: 0, held: 0, free: memoryBytes + hostBytes },
    ),
  ];
}

/** As long as a donor of theirs takes to send and receive its packets. */
function receivingAll(costs: ClusterCosts, asked: MeetingSettings, teams: readonly Team[]): Team[] {
  const seconds = secondsToAll(costs, asked, teams);
  let next = 0;
  return teams.map((team) => {
    const own = seconds.slice(next, next + team.parts.length);
    next += team.parts.length;
    return { ...team, group: { ...team.group, receiving: Math.max(...own) } };
  });
}

/** So many groups more are tried without, one after the other, while that gains nothing. */
const MOST_IN_VAIN = 8;

/**
 * The round without as many groups as is worth most. To every group, all wait for the slowest line; owners publish to every
 * group, so that one of few steps may cost the others more than it does. With a number of islands all are needed.
 */
function withoutSlow(costs: ClusterCosts, asked: MeetingSettings, way: MeetingWay, all: Met, rounds: Rounds): Met {
  if (rounds.innerSteps !== undefined) return all;
  const rate = ({ round }: Met): number => total(round.steps) / round.seconds;
  const worth = all.teams.map(({ group }, index) => (way === 'owned' ? at(all.round.steps, index) : -group.receiving));
  const order = [...worth.keys()].sort((one, other) => at(worth, one) - at(worth, other));
  let best = all;
  for (let count = 1, inVain = 0; count < order.length && inVain < MOST_IN_VAIN; count++, inVain++) {
    const out = new Set(order.slice(0, count));
    const tried = metBy(
      costs,
      asked,
      way,
      all.teams.filter((_, index) => !out.has(index)),
      rounds,
    );
    if (tried.ok && rate(tried.value) > rate(best)) [best, inVain] = [tried.value, -1];
  }
  return best;
}

type Owners = readonly { readonly peer: PeerId; readonly share: number }[];

/** `isAuto`: of a run that makes its groups by itself. */
function summary(costs: ClusterCosts, teams: readonly Team[], isAuto: boolean): Reason[] {
  const count = totalOf(teams, ({ turns }) => turns);
  const alone = teams.filter(({ group }) => group.places.length === 1).length;
  const donors = totalOf(teams, ({ group }) => group.places.length);
  const kinds = [
    ...(alone > 0 ? [alone < donors ? `${alone} alone` : `${donors > 1 ? 'each ' : ''}alone`] : []),
    ...(alone < teams.length ? [`${counted(teams.length - alone, 'group')} of several`] : []),
  ];
  const left = costs.peers.length - donors;
  const idle = left === 0 ? '' : `; ${counted(left, 'donor')} left over ${left === 1 ? 'computes' : 'compute'} nothing`;
  return [
    `${counted(count, 'island')} of ${counted(donors, 'donor')}, ${kinds.join(' and ')}${idle}.`,
    isAuto
      ? 'A run makes its groups like this by what its donors measure, and makes them anew as donors come and go.'
      : '`shoal swarm --plan` runs these islands as planned here; without it a run shares its donors out equally.',
  ].map((text) => ({ peer: null, text }));
}

/** How islands meet, in so many seconds. `toAll`: what each donor's packets to all other islands take, or would. */
function meetingWords(meetingSeconds: number, hasOwners: boolean, toAll: readonly number[]): Reason[] {
  const longest = Math.max(...toAll);
  const words: string[] = [];
  if (hasOwners)
    words.push(
      `Each range of the model has an owner and a copy at meetings, who alone keep what islands share: a meeting takes ${secondsText(meetingSeconds)}.`,
    );
  if (longest > 0)
    words.push(
      hasOwners
        ? `Packets to every other island would take ${longestWords(toAll)}, and 8 bytes a parameter more of each.`
        : `At a meeting every donor sends its packets to every other island, which takes ${longestWords(toAll)}.`,
    );
  // Who is later than the others have waited for begins its steps late.
  if (longest > 0 && !hasOwners && longest < meetingSeconds)
    words.push('The rest of a meeting is arithmetic and short messages.');
  return words.length === 0 ? [] : [{ peer: null, text: words.join(' ') }];
}

function longestWords(seconds: readonly number[]): string {
  const [least, middle, longest] = [Math.min(...seconds), median(seconds) ?? 0, Math.max(...seconds)].map((each) =>
    secondsText(each),
  );
  if (least === longest) return seconds.length === 1 ? `${longest}` : `each donor ${longest}`;
  return middle === longest
    ? `the slowest donors ${longest}`
    : `half of the donors ${middle} at most and the slowest ${longest}`;
}

/** How often what islands share is saved at most, and what that takes. */
export function savingWords(
  { group, uploadSeconds, bytes, meetingSeconds }: IslandSave,
  roundSeconds: number,
): Reason[] {
  if (!Number.isFinite(uploadSeconds)) return [];
  const rounds = Math.max(1, Math.ceil(uploadSeconds / roundSeconds));
  const often = rounds === 1 ? 'can be saved at every meeting' : `are saved every ${counted(rounds, 'round')} at most`;
  // Over a line without a limit.
  if (uploadSeconds === 0) return [{ peer: null, text: `Checkpoints ${often}.` }];
  const longer =
    meetingSeconds > 0
      ? `; that meeting takes ${secondsText(meetingSeconds)} more, in which owners send it what it lacks`
      : '';
  const text = `Checkpoints ${often}: island ${group + 1} uploads ${bytesText(bytes)} in ${durationText(uploadSeconds)}, while all train on${longer}.`;
  return [{ peer: null, text }];
}

/** A line for each donor that computes; `steps` are of each team, of all its islands. */
function teamWords(teams: readonly Team[], steps: readonly number[], owners: Owners): Reason[] {
  const shares = new Map(owners.map(({ peer, share }) => [peer, share]));
  const meets = owners.length > 0 ? 'receives what comes of a meeting' : 'sends and receives its packets';
  let next = 0;
  return teams.flatMap(({ plan, forecast: { stepSeconds }, group, turns }, i) => {
    const [first, count] = [next, group.places.length];
    next += turns;
    // From 1 on, as in tables and on the pages.
    const which =
      turns === 1 ? `island ${first + 1}` : `islands ${first + 1} ${turns === 2 ? 'and' : 'to'} ${next} by turns`;
    return peersOf(plan).map((peer): Reason => {
      const part = [
        count === 1 ? `${which}, alone` : `one of the ${count} donors of ${which}`,
        `${counted(at(steps, i), 'step')} of ${secondsText(stepSeconds)} a round`,
        ...(group.receiving > 0 ? [`${meets} in ${secondsText(group.receiving)}`] : []),
        ...ownedWords('owns', shares.get(peer) ?? 0),
      ];
      return { peer, text: `${part.join(', ')}.` };
    });
  });
}

/** Nothing where it owns nothing. */
export const ownedWords = (verb: string, share: number): string[] =>
  share > 0 ? [`${verb} ${rounded(100 * share, 2)} % of the model at meetings`] : [];

/** In the same words of all alike. */
function idleOf(costs: ClusterCosts, used: ReadonlySet<number>): ClusterPlan['idle'] {
  const shape = { first: false, last: false, layers: Math.min(1, costs.model.layers) };
  return [...costs.peers.entries()].flatMap(([place, { id, memoryBytes, compute }]) => {
    if (used.has(place)) return [];
    const needed = costs.memory.stageBytes(shape, { samples: 1, slots: 1, recomputed: 1 }, compute);
    const reason =
      memoryBytes < needed
        ? `its memory does not hold one layer and one sample, ${bytesText(needed)}`
        : 'no group found is worth more with it';
    return [{ peer: id, reason }];
  });
}

/** Why no group is found: the least that is missing, or how long the fastest takes. */
function noGroup(costs: ClusterCosts, roundSeconds: number): string {
  const { layers } = costs.model;
  const { samples: microBatches } = costs.batch;
  const alone = [...costs.peers.entries()].flatMap(([place, { id }]) => {
    const drafted = planOf(costs, {
      groups: [[place]],
      layers: [layers],
      schedule: '1f1b',
      microBatches,
    });
    return drafted ? [{ id, missing: drafted.missingBytes }] : [];
  });
  const least = alone.toSorted((a, b) => a.missing - b.missing)[0];
  if (!least || least.missing === 0)
    return `no group of these peers that has room for an island ends a step, and receives its part of a meeting, within ${roundSeconds} s`;
  return `no group of these peers has room for an island: "${least.id}" alone, which lacks least, needs ${groupedText(Math.ceil(least.missing))} bytes more of memoryBytes, or of hostBytes for the ${costs.planeBytes} bytes a parameter that islands keep beside their model`;
}

interface PlannedRun {
  /** Without its islands. */
  readonly run: RunFile;
  readonly islands: IslandsAsked | null;
}

/**
 * A run file as `shoal plan` reads it: its islands apart from it, as a planner is asked for them.
 */
export function parsePlannedRun(json: unknown, fileName: string): Result<PlannedRun> {
  const parsed = parseRunFile(json, fileName);
  if (!parsed.ok) return parsed;
  const { islands, ...train } = parsed.value.train;
  return success({ run: { ...parsed.value, train }, islands: islands ? islandsAsked(islands) : null });
}

export const islandsAsked = (islands: Islands): IslandsAsked => ({
  ...{ outer: islands.outer, exchange: islands.exchange, publish: islands.publish, overlap: islands.overlap },
  rounds:
    islands.count === 'auto'
      ? { count: 'auto', roundSeconds: islands.roundSeconds }
      : { count: islands.count, innerSteps: islands.innerSteps },
});
