/**
 * The islands that a cluster's donors could make for a run (`train.islands`), beside one swarm that takes its steps
 * together: a plan an island, what a round takes, and in words why. With `auto` every group is an island. With K islands of
 * H steps a group does one or more of them by turns, so that the slowest is done as early as can be.
 */
import { at, got, type PeerId, type Result, refusal, success } from '../base.ts';
import type { MeetingSettings } from '../islands/outer.ts';
import { type Plan, peers as peersOf } from '../plan/plan.ts';
import { counted } from '../quantityText.ts';
import type { Cluster } from './cluster.ts';
import { type ClusterCosts, type ClusterProblem, clusterCosts } from './clusterCosts.ts';
import type { ClusterPlan } from './clusterPlan.ts';
import { memoryOf, planOf } from './draft.ts';
import { chanceOfAll, meetsOf } from './groupsAsked.ts';
import { type Group, groupOf, groupsOf } from './islandGroups.ts';
import { type Meeting, meetingOf, missingForOwners, ownersBytes, type Part, toEveryGroup } from './islandMeeting.ts';
import { type CostsFor, exact, type Team, teamOf } from './islandTeam.ts';
import { idleOf, meetingWords, summary, teamWords } from './islandWords.ts';
import type { Reason } from './reason.ts';

/** What a run file asks for. */
export interface IslandsAsked extends MeetingSettings {
  readonly rounds: AutoRounds | { readonly count: number; readonly innerSteps: number };
}

interface AutoRounds {
  readonly count: 'auto';
  readonly roundSeconds: number;
}

export interface PlannedIsland {
  readonly plan: Plan;
  readonly predicted: ClusterPlan['predicted'] & { readonly stepsPerRound: number };
}

export interface IslandPlan {
  readonly islands: readonly PlannedIsland[];
  readonly predicted: {
    /** From one meeting's end to the next one's. */
    readonly roundSeconds: number;
    readonly meetingSeconds: number;
    /** While nobody leaves. */
    readonly tokensPerSecond: number;
    /** Of that what reaches its meeting, as long as donors stay. */
    readonly expectedTokensPerSecond: number;
    /** Parts of the model, of those donors who own a ten-thousandth or more. */
    readonly owners: readonly { readonly peer: PeerId; readonly share: number }[];
  };
  readonly idle: ClusterPlan['idle'];
  readonly reasons: readonly Reason[];
}

/** Rounds that are first assumed where the run file counts steps. */
const FIRST_ROUND_SECONDS = 600;
/** Of the model: who owns less is not named. */
const LEAST_SHARE = 1e-4;
/** Bytes an element beside value, gradient and moments: what was published, and of each island its left-over; who waits for its turn has its value and moments there too. */
const planeBytes = ({ exchange }: MeetingSettings, turns: number): number =>
  4 + (exchange === 'f32' ? 0 : 4 * turns) + 12 * (turns - 1);

export function planIslands(problem: ClusterProblem, asked: IslandsAsked): Result<IslandPlan> {
  // Where a donor stands in the file changes nothing.
  const cluster = { ...problem.cluster, peers: problem.cluster.peers.toSorted((a, b) => (a.id < b.id ? -1 : 1)) };
  const sorted = { ...problem, cluster };
  const found = planned(sorted, asked);
  if (!cluster.peers.some(({ hostBytes = 0 }) => hostBytes > 0)) return found;
  // With more room the search goes other ways, which may be worse ones: what is found with less stands beside it.
  const without = planned({ ...problem, cluster: withoutHostBytes(cluster) }, asked);
  if (!without.ok || (found.ok && isAsGood(found.value, without.value))) return found;
  return success(withMemory(sorted, asked, without.value));
}

/** Just these groups of donors, with the best plan found for each; who would end no step in a round is left out. */
export function planGroups(
  problem: ClusterProblem,
  asked: IslandsAsked & { readonly rounds: AutoRounds },
  groups: readonly (readonly PeerId[])[],
): Result<IslandPlan> {
  const costsFor = costsIn(problem, asked, 0);
  const { planned: costs, own } = costsFor(1);
  const { roundSeconds } = asked.rounds;
  const searched = { costs, overlaps: true, roundSeconds, meets: meetsOf(costs, asked, roundSeconds) };
  const teams = groups.flatMap((names) => {
    const group = groupOf({ ...searched, caution: 0 }, names.map(costs.placeOf));
    return (group && teamOf(costsFor, group, 1)) ?? [];
  });
  return teams.length === 0 ? refusal(noGroup(costs, roundSeconds)) : whole(own, asked, teams, { roundSeconds });
}

const withoutHostBytes = (cluster: Cluster): Cluster => ({
  ...cluster,
  peers: cluster.peers.map(({ hostBytes: _, ...peer }) => peer),
});

const isAsGood = ({ predicted: own }: IslandPlan, { predicted: other }: IslandPlan): boolean =>
  own.tokensPerSecond >= other.tokensPerSecond && own.expectedTokensPerSecond >= other.expectedTokensPerSecond;

/** Planned without main memory, and what it takes of the GPU's with it. */
function withMemory(problem: ClusterProblem, asked: IslandsAsked, found: IslandPlan): IslandPlan {
  const islands = found.islands.map((island): PlannedIsland => {
    const turns = found.islands.filter(({ plan }) => plan === island.plan).length;
    const memory = memoryOf(costsIn(problem, asked, 0)(turns).own, island.plan);
    const peers = island.predicted.peers.map((own) => ({ ...own, memoryBytes: got(memory, own.peer) }));
    return { ...island, predicted: { ...island.predicted, peers } };
  });
  return { ...found, islands };
}

/** Only where owners have no room else: with fewer micro-batches in flight, and with so much kept free from the beginning. */
function planned(problem: ClusterProblem, asked: IslandsAsked): Result<IslandPlan> {
  const found = plannedKeeping(problem, asked, 0, true);
  if (found.ok) return found;
  const others = [plannedKeeping(problem, asked, 0, false), plannedKeeping(problem, asked, ownersBytes(asked), true)];
  return others.some(({ ok }) => ok) ? chosen(others) : found;
}

/** `kept` bytes of each element stay free. */
function plannedKeeping(
  problem: ClusterProblem,
  asked: IslandsAsked,
  kept: number,
  overlaps: boolean,
): Result<IslandPlan> {
  const costsFor = costsIn(problem, asked, kept);
  const team = (group: Group, turns: number) => teamOf(costsFor, group, turns);
  const { planned: costs, own } = costsFor(1);
  const { rounds } = asked;
  const inRounds = (
    roundSeconds: number,
    made: (groups: readonly Group[]) => Result<IslandPlan>,
  ): Result<IslandPlan> => {
    const searched = { costs, overlaps, roundSeconds, meets: meetsOf(costs, asked, roundSeconds) };
    const groupings = (overlaps ? CAUTIONS : [1]).map((caution) => groupsOf({ ...searched, caution }).groups);
    const tried = groupings.filter((groups) => groups.length > 0).map(made);
    return tried.length === 0 ? refusal(noGroup(costs, roundSeconds)) : chosen(tried);
  };
  if (rounds.count === 'auto') {
    const { roundSeconds } = rounds;
    return inRounds(roundSeconds, (groups) => {
      const teams = groups.flatMap((group) => team(group, 1) ?? []);
      return teams.length === 0 ? refusal(noGroup(costs, roundSeconds)) : whole(own, asked, teams, { roundSeconds });
    });
  }
  const { count, innerSteps } = rounds;
  const byTurns = (roundSeconds: number): Result<IslandPlan> =>
    inRounds(roundSeconds, (groups) => {
      const teams = sharedOut(team, groups, count);
      return teams.ok ? whole(own, asked, teams.value, { innerSteps }) : teams;
    });
  const first = byTurns(FIRST_ROUND_SECONDS);
  const second = first.ok ? byTurns(first.value.predicted.roundSeconds) : first;
  if (!first.ok || !second.ok) return first;
  return second.value.predicted.tokensPerSecond > first.value.predicted.tokensPerSecond ? second : first;
}

/** Of those that are expected to do about as much, the one that does most while nobody leaves. */
function chosen(tried: readonly Result<IslandPlan>[]): Result<IslandPlan> {
  const plans = tried.flatMap((found) => (found.ok ? [found.value.predicted] : []));
  const most = Math.max(...plans.map(({ expectedTokensPerSecond }) => expectedTokensPerSecond));
  let best: Result<IslandPlan> | null = null;
  for (const found of tried) {
    if (!found.ok || found.value.predicted.expectedTokensPerSecond < ABOUT_AS_MUCH * most) continue;
    if (!best?.ok || found.value.predicted.tokensPerSecond > best.value.predicted.tokensPerSecond) best = found;
  }
  return best ?? at(tried, 0);
}
const ABOUT_AS_MUCH = 0.75;
/** Groups are sought for more or less of what is expected of them: with none, donors would be taken who bring nearly nothing. */
const CAUTIONS = [0.5, 0.1, 0.05];

function costsIn(problem: ClusterProblem, asked: IslandsAsked, kept: number): CostsFor {
  const known = new Map<number, ReturnType<CostsFor>>();
  return (turns) => {
    const found = known.get(turns);
    if (found) return found;
    const costs = (planeBytesOf: number) => clusterCosts({ ...problem, planeBytes: planeBytesOf });
    const own = costs(planeBytes(asked, turns));
    const made = { own, planned: kept === 0 ? own : costs(planeBytes(asked, turns) + kept) };
    known.set(turns, made);
    return made;
  };
}

/** Why no group is found: the least that is missing, or how long the fastest takes. */
function noGroup(costs: ClusterCosts, roundSeconds: number): string {
  const { layers } = costs.model;
  const { samples: microBatches } = costs.batch;
  const alone = [...costs.peers.entries()].flatMap(([place, { id }]) => {
    const drafted = planOf(costs, {
      groups: [[place]],
      layers: [layers],
      gathered: [],
      schedule: '1f1b',
      microBatches,
    });
    return drafted ? [{ id, missing: drafted.missingBytes }] : [];
  });
  const least = alone.toSorted((a, b) => a.missing - b.missing)[0];
  if (!least || least.missing === 0)
    return `no group of these peers that has room for an island ends a step, and receives its part of a meeting, within a round of ${roundSeconds} s`;
  return `no group of these peers has room for an island: "${least.id}" alone, which lacks least, needs ${Math.ceil(least.missing)} bytes more of memoryBytes, or of hostBytes for the ${costs.planeBytes} bytes a parameter that islands keep beside their model`;
}

/** K islands on groups of unequal speed: each next one to the group that would be done with it first. */
function sharedOut(
  teamFor: (group: Group, turns: number) => Team | null,
  groups: readonly Group[],
  count: number,
): Result<Team[]> {
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

interface Rounds {
  /** Of steps; absent: as long as the slowest group takes for so many inner steps of each of its islands. */
  readonly roundSeconds?: number;
  readonly innerSteps?: number;
}

function whole(costs: ClusterCosts, asked: IslandsAsked, teams: readonly Team[], rounds: Rounds): Result<IslandPlan> {
  const used = new Set(teams.flatMap(({ group }) => group.places));
  // Who computes nothing may still own a range: it has the whole of its line for it.
  const spare = [...costs.peers.entries()].filter(([place]) => !used.has(place));
  const parts = [
    ...teams.flatMap((team) => team.parts),
    ...spare.map(([place, { memoryBytes, hostBytes }]): Part => {
      return { place, primary: 0, held: 0, free: memoryBytes + hostBytes };
    }),
  ];
  const count = teams.reduce((sum, { turns }) => sum + turns, 0);
  const meeting = meetingOf(costs, asked, parts, count);
  if (meeting === null)
    return refusal(
      `what these peers have left over does not hold what owners keep for the meetings of islands: ${Math.ceil(missingForOwners(costs, asked, parts))} bytes of memoryBytes or hostBytes are missing, of any of them`,
    );
  const round =
    rounds.innerSteps === undefined
      ? timedRound(teams, meeting, rounds.roundSeconds ?? 0)
      : countedRound(teams, meeting, rounds.innerSteps);
  const idle = new Set(teams.filter((_, i) => at(round.steps, i) === 0));
  if (idle.size === teams.length) return refusal(noGroup(costs, rounds.roundSeconds ?? 0));
  // Its donors had nothing to send: it would only have to be waited for.
  if (idle.size > 0)
    return whole(
      costs,
      asked,
      teams.filter((team) => !idle.has(team)),
      rounds,
    );
  const tokens = costs.batch.samples * costs.batch.sequence;
  const rate = (part: (team: Team) => number): number =>
    teams.reduce((sum, team, i) => sum + at(round.steps, i) * tokens * part(team), 0) / round.seconds;
  const predicted = {
    roundSeconds: round.seconds,
    meetingSeconds: round.meetingSeconds,
    tokensPerSecond: rate(() => 1),
    expectedTokensPerSecond: rate(({ group }) => chanceOfAll(costs, group.places, round.seconds)),
    owners: parts.flatMap(({ place }, i) => {
      const share = at(meeting.shares, i);
      return share < LEAST_SHARE ? [] : [{ peer: at(costs.peers, place).id, share }];
    }),
  };
  const exacted = teams.map((team, i) => exact(team, at(round.steps, i), at(round.stepsSeconds, i)));
  return success({
    islands: exacted.flatMap((team, i) =>
      Array<PlannedIsland>(team.turns).fill(islandOf(costs, team, at(round.steps, i) / team.turns)),
    ),
    predicted,
    idle: idleOf(costs, used),
    reasons: [
      ...summary(costs, exacted),
      ...meetingWords(round.meetingSeconds, toEveryGroup(costs, asked, teams)),
      ...teamWords(exacted, round.steps, predicted.owners),
    ],
  });
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
 * Steps as long as the time lasts; the round is over when the last of them ends. Whom a meeting's outcome reaches later than the others begins late: how many are waited
 * for is what makes most steps a second.
 */
function timedRound(teams: readonly Team[], meeting: Meeting, stepsSeconds: number): Round {
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
  const rate = ({ steps, seconds }: Round): number => steps.reduce((sum, own) => sum + own, 0) / seconds;
  let best = after(meeting.sendingSeconds);
  for (const { group } of teams) {
    const tried = group.receiving > meeting.sendingSeconds ? after(group.receiving) : best;
    if (rate(tried) > rate(best)) best = tried;
  }
  return best;
}

/** The slowest group is waited for. */
function countedRound(teams: readonly Team[], meeting: Meeting, innerSteps: number): Round {
  const receiving = Math.max(...teams.map(({ group }) => group.receiving));
  const meetingSeconds = Math.max(meeting.sendingSeconds, receiving) + meeting.besideSeconds;
  const steps = teams.map(({ turns }) => turns * innerSteps);
  const longest = Math.max(...teams.map(({ forecast }, i) => at(steps, i) * forecast.stepSeconds));
  return { seconds: longest + meetingSeconds, meetingSeconds, steps, stepsSeconds: teams.map(() => longest) };
}

function islandOf(costs: ClusterCosts, team: Team, stepsPerRound: number): PlannedIsland {
  const { plan, memory } = team;
  const { stepSeconds, peers } = team.forecast;
  const { samples, sequence } = costs.batch;
  return {
    plan,
    predicted: {
      stepSeconds,
      tokensPerSecond: (samples * sequence) / stepSeconds,
      stepsPerRound,
      peers: peersOf(plan).map((peer) => ({
        peer,
        busySeconds: got(peers, peer).busySeconds,
        memoryBytes: got(memory, peer),
        memoryLimitBytes: at(costs.peers, costs.placeOf(peer)).memoryBytes,
        sentBytes: got(peers, peer).sentBytes,
      })),
    },
  };
}
