/**
 * The islands that a cluster's donors could make for a run (`train.islands`), beside one swarm that takes its steps
 * together: a plan an island, what a round takes, and in words why. With `auto` every group is an island. With K islands of
 * H steps a group does one or more of them by turns, so that the slowest is done as early as can be.
 */
import { at, got, type PeerId, type Result, refusal, success } from '../base.ts';
import type { MeetingSettings } from '../islands/outer.ts';
import { OWNER_BYTES, OWNERS } from '../islands/ownerShares.ts';
import { type Plan, peers as peersOf } from '../plan/plan.ts';
import { counted } from '../quantityText.ts';
import type { Chain } from './chains.ts';
import type { Cluster } from './cluster.ts';
import type { ClusterCosts, ClusterProblem } from './clusterCosts.ts';
import { type ClusterPlan, predictedOf } from './clusterPlan.ts';
import { memoryOf } from './draft.ts';
import { chanceOfAll, meetsOf } from './groupsAsked.ts';
import { costsIn, othersOf, type Way } from './islandCosts.ts';
import { type Group, groupOf, groupsOf } from './islandGroups.ts';
import { islandSave, meetSoonerOwned, secondsToAll } from './islandMeeting.ts';
import { metBy, owningParts, type Rounds, withoutSlow } from './islandRound.ts';
import { exact, type Team, teamOf } from './islandTeam.ts';
import { idleOf, meetingWords, noGroup, savingWords, summary, teamWords } from './islandWords.ts';
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
  /** With owners, and these groups would want them were there room for either (IS121). */
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
function inBestWay(asked: IslandsAsked, found: (way: Way) => Result<Sought>): Result<Sought> {
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
  way: Way,
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
      const found = groupsOf({ ...searched, caution }, chains);
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
  let least = Number.POSITIVE_INFINITY;
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
    let [best, least] = [-1, Number.POSITIVE_INFINITY];
    for (const [index, team] of next.entries()) {
      const seconds = team ? team.turns * team.forecast.stepSeconds : Number.POSITIVE_INFINITY;
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
  way: Way,
  teams: readonly Team[],
  rounds: Rounds,
): Result<Sought> {
  const timed = { ...rounds, overlap: asked.overlap === true };
  const first = metBy(costs, asked, way, teams, timed);
  if (!first.ok) return first;
  const { teams: met, meeting, round } = way === 'owned' ? first.value : withoutSlow(costs, asked, first.value, timed);
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
            ...predictedOf(costs, team.forecast, team.memory, peersOf(team.plan)),
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
  return success({ predicted, isSoonerOwned, count: met.reduce((sum, { turns }) => sum + turns, 0), finished });
}
