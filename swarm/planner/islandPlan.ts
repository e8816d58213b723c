/**
 * The islands that a cluster's donors could make for a run (`train.islands`), beside one swarm that takes its steps
 * together: a plan an island, what a round takes, and in words why. With `auto` every group is an island. With K islands of
 * H steps a group does one or more of them by turns, so that the slowest is done as early as can be.
 */
import { at, got, type PeerId, type Result, refusal, rounded, success } from '../base.ts';
import type { MeetingSettings } from '../islands/outer.ts';
import { blocksOfStage } from '../model/model.ts';
import { type Plan, peers as peersOf, problems } from '../plan/plan.ts';
import { bytesText, counted } from '../quantityText.ts';
import type { WireEncoding } from '../wire.ts';
import { type ClusterCosts, type ClusterProblem, clusterCosts } from './clusterCosts.ts';
import type { ClusterPlan } from './clusterPlan.ts';
import { memoryOf, planOf } from './draft.ts';
import { type Forecast, forecast } from './forecast.ts';
import { chanceOfAll, type Group, groupsOf } from './islandGroups.ts';
import { type Meeting, meetingOf, type Part, publishedBytes } from './islandMeeting.ts';
import type { Reason } from './reason.ts';

/** What a run file asks for. */
export interface IslandsAsked extends MeetingSettings {
  /** What the stream may be written as, the most exact first. */
  readonly wires: readonly WireEncoding[];
  readonly rounds:
    | { readonly count: 'auto'; readonly roundSeconds: number }
    | { readonly count: number; readonly innerSteps: number };
}

export interface PlannedIsland {
  readonly plan: Plan;
  readonly wire: WireEncoding;
  readonly predicted: ClusterPlan['predicted'];
}

export interface IslandPlan {
  readonly islands: readonly PlannedIsland[];
  readonly predicted: {
    /** From one meeting's end to the next one's. */
    readonly roundSeconds: number;
    readonly meetingSeconds: number;
    readonly tokensPerSecond: number;
  };
  readonly idle: ClusterPlan['idle'];
  readonly reasons: readonly Reason[];
}

/** A group with its plan, as it would run. */
interface Team {
  readonly group: Group;
  readonly plan: Plan;
  readonly forecast: Forecast;
  readonly memory: ReadonlyMap<PeerId, number>;
  readonly parts: readonly Part[];
  /** Islands that it computes by turns. */
  readonly turns: number;
  /** How the stream goes between its donors. */
  readonly wire: WireEncoding;
}

/** Rounds that are first assumed where the run file counts steps. */
const FIRST_ROUND_SECONDS = 600;
/** A stream that is more exact may make a step so much longer. */
const AS_FAST = 1.02;

/** Bytes an element beside value, gradient and moments: what was published, and of each island its left-over; who waits for its turn has its value and moments there too. */
const planeBytes = ({ exchange }: MeetingSettings, turns: number): number =>
  4 + (exchange === 'f32' ? 0 : 4 * turns) + 12 * (turns - 1);

export function planIslands(problem: ClusterProblem, asked: IslandsAsked): Result<IslandPlan> {
  // Where a donor stands in the file changes nothing.
  const cluster = { ...problem.cluster, peers: problem.cluster.peers.toSorted((a, b) => (a.id < b.id ? -1 : 1)) };
  const known = new Map<string, ClusterCosts>();
  const costsFor: CostsFor = (turns, wire) => {
    const made =
      known.get(`${turns} ${wire}`) ??
      clusterCosts({ ...problem, batch: { ...problem.batch, wire }, cluster, planeBytes: planeBytes(asked, turns) });
    known.set(`${turns} ${wire}`, made);
    return made;
  };
  const team = (group: Group, turns: number) => chosenTeam(asked.wires, costsFor, group, turns);
  const costs = costsFor(1, asked.wires.at(-1) ?? 'f32');
  const inRounds = (roundSeconds: number): Group[] => [
    ...groupsOf({ costs, roundSeconds, publishedBytes: publishedBytes(asked, 64) / 64 }).groups,
  ];
  const { rounds } = asked;
  if (rounds.count === 'auto') {
    const teams = inRounds(rounds.roundSeconds).flatMap((group) => team(group, 1) ?? []);
    const made = teams.length === 0 ? null : whole(costs, asked, teams, { roundSeconds: rounds.roundSeconds });
    return made ? success(made) : refusal(NONE);
  }
  const { count, innerSteps } = rounds;
  const byTurns = (groups: readonly Group[]): IslandPlan | null => {
    const teams = sharedOut(team, groups, count);
    return teams === null ? null : whole(costs, asked, teams, { innerSteps });
  };
  const first = byTurns(inRounds(FIRST_ROUND_SECONDS));
  const second = first && byTurns(inRounds(first.predicted.roundSeconds));
  const best = first && second && second.predicted.tokensPerSecond > first.predicted.tokensPerSecond ? second : first;
  return best ? success(best) : refusal(NONE);
}

const NONE =
  'no group of these peers has room for an island, 24 bytes a parameter and what owners keep for its meetings, and a step that ends within a round';

/** K islands on groups of unequal speed: each next one to the group that would be done with it first. */
function sharedOut(
  teamFor: (group: Group, turns: number) => Team | null,
  groups: readonly Group[],
  count: number,
): Team[] | null {
  const teams: (Team | null)[] = groups.map(() => null);
  const next = groups.map((group) => teamFor(group, 1));
  for (let island = 0; island < count; island++) {
    let [best, least] = [-1, Number.POSITIVE_INFINITY];
    for (const [index, team] of next.entries()) {
      const seconds = team ? team.turns * team.forecast.stepSeconds : Number.POSITIVE_INFINITY;
      if (seconds < least) [best, least] = [index, seconds];
    }
    const team = next[best];
    if (!team) return null;
    teams[best] = team;
    next[best] = teamFor(team.group, team.turns + 1);
  }
  return teams.filter((team) => team !== null);
}

type CostsFor = (turns: number, wire: WireEncoding) => ClusterCosts;

/** With the most exact stream that is about as fast as any. */
function chosenTeam(wires: readonly WireEncoding[], costsFor: CostsFor, group: Group, turns: number): Team | null {
  const hasStream = group.judged.draft.groups.length > 1;
  const teams = (hasStream ? wires : wires.slice(0, 1)).flatMap(
    (wire) => teamOf(costsFor(turns, wire), group, turns, wire) ?? [],
  );
  const least = Math.min(...teams.map(({ forecast: { stepSeconds } }) => stepSeconds));
  return teams.find(({ forecast: { stepSeconds } }) => stepSeconds <= AS_FAST * least) ?? null;
}

/** Null where its memory, to the byte, is more than its donors have. */
function teamOf(costs: ClusterCosts, group: Group, turns: number, wire: WireEncoding): Team | null {
  const drafted = planOf(costs, group.judged.draft);
  if (drafted === null || drafted.missingBytes > 0) return null;
  const { plan } = drafted;
  const memory = memoryOf(costs, plan);
  if (problems(costs.model, costs.batch, plan).length > 0) return null;
  const parts = peersOf(plan).map((id): Part => {
    const stages = plan.stages.filter(({ members }) => members.some(({ peer }) => peer === id));
    const held = stages.flatMap(({ layers }) => blocksOfStage(costs.model, layers).flatMap(({ ranges }) => ranges));
    const kept = plan.state.flatMap(({ shards }) => shards.filter(({ peer }) => peer === id));
    const elements = (ranges: readonly (readonly [number, number])[]) =>
      ranges.reduce((sum, [from, to]) => sum + to - from, 0);
    const place = costs.placeOf(id);
    return {
      place,
      primary: turns * elements(kept.map(({ range }) => range)),
      held: elements(held),
      free: at(costs.peers, place).memoryBytes - got(memory, id),
    };
  });
  if (parts.some(({ free }) => free < 0)) return null;
  return { group, plan, forecast: forecast(costs, plan), memory, parts, turns, wire };
}

interface Rounds {
  /** Of steps; absent: as long as the slowest group takes for so many inner steps of each of its islands. */
  readonly roundSeconds?: number;
  readonly innerSteps?: number;
}

function whole(costs: ClusterCosts, asked: IslandsAsked, teams: readonly Team[], rounds: Rounds): IslandPlan | null {
  const used = new Set(teams.flatMap(({ group }) => group.places));
  // Who computes nothing may still own a range: it has the whole of its line for it.
  const spare = [...costs.peers.entries()].filter(([place]) => !used.has(place));
  const parts = [
    ...teams.flatMap((team) => team.parts),
    ...spare.map(([place, { memoryBytes: free }]): Part => ({ place, primary: 0, held: 0, free })),
  ];
  const count = teams.reduce((sum, { turns }) => sum + turns, 0);
  const meeting = meetingOf(costs, asked, parts, count);
  if (meeting === null) return null;
  const round =
    rounds.innerSteps === undefined
      ? timedRound(teams, meeting, rounds.roundSeconds ?? 0)
      : countedRound(teams, meeting, rounds.innerSteps);
  const tokens = costs.batch.samples * costs.batch.sequence;
  const rate = (teamsOf: (team: Team, steps: number) => number): number =>
    teams.reduce((sum, team, i) => sum + teamsOf(team, at(round.steps, i)), 0) / round.seconds;
  const predicted = {
    roundSeconds: round.seconds,
    meetingSeconds: round.meetingSeconds,
    tokensPerSecond: rate((_, steps) => steps * tokens),
  };
  const expected = rate(({ group }, steps) => steps * tokens * chanceOfAll(costs, group.places, round.seconds));
  const owned = new Map(parts.map(({ place }, i) => [at(costs.peers, place).id, at(meeting.shares, i)]));
  return {
    islands: teams.flatMap((team) => Array<PlannedIsland>(team.turns).fill(islandOf(costs, team))),
    predicted,
    idle: idleOf(costs, used, owned),
    reasons: [...words(costs, teams, predicted, expected, count), ...sizes(teams, round.steps, owned)],
  };
}

interface Round {
  readonly seconds: number;
  readonly meetingSeconds: number;
  /** Of each team, of all its islands. */
  readonly steps: readonly number[];
}

/**
 * Steps as long as the time lasts. Whom a meeting's outcome reaches later than the others begins late: how many are waited
 * for is what makes most steps a second.
 */
function timedRound(teams: readonly Team[], meeting: Meeting, stepsSeconds: number): Round {
  const after = (waiting: number): Round => {
    const meetingSeconds = waiting + meeting.besideSeconds;
    const steps = teams.map(({ group: { receiving }, forecast: { stepSeconds } }) =>
      Math.floor(Math.max(0, stepsSeconds - Math.max(0, receiving - waiting)) / stepSeconds),
    );
    return { seconds: stepsSeconds + meetingSeconds, meetingSeconds, steps };
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
  return { seconds: longest + meetingSeconds, meetingSeconds, steps };
}

function islandOf(costs: ClusterCosts, { plan, wire, forecast: { stepSeconds, peers }, memory }: Team): PlannedIsland {
  const { samples, sequence } = costs.batch;
  return {
    plan,
    wire,
    predicted: {
      stepSeconds,
      tokensPerSecond: (samples * sequence) / stepSeconds,
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

const rate = (tokens: number): string => `${rounded(tokens, 4)} tokens a second`;
const seconds = (value: number): string => `${rounded(value, 3)} s`;

function words(
  costs: ClusterCosts,
  teams: readonly Team[],
  { roundSeconds, meetingSeconds, tokensPerSecond }: IslandPlan['predicted'],
  expected: number,
  count: number,
): Reason[] {
  const alone = teams.filter(({ group }) => group.places.length === 1).length;
  const donors = teams.reduce((sum, { group }) => sum + group.places.length, 0);
  const joint = teams.length - alone;
  return [
    `${counted(count, 'island')} of ${counted(donors, 'donor')}: ${alone} alone, ${joint} of several; ${counted(costs.peers.length - donors, 'donor')} left over compute nothing.`,
    `A round takes ${seconds(roundSeconds)}, ${seconds(meetingSeconds)} of it the meeting: ${rate(tokensPerSecond)}. As donors stay, ${rate(expected)} of that reach their meeting.`,
    'Islands of several groups are planned only: a run computes all its islands by one group so far.',
  ].map((text) => ({ peer: null, text }));
}

function sizes(teams: readonly Team[], steps: readonly number[], owned: ReadonlyMap<PeerId, number>): Reason[] {
  return teams.flatMap(({ plan, forecast: { stepSeconds }, group }, i) =>
    peersOf(plan).map((peer) => {
      const how = group.places.length === 1 ? 'an island alone' : `one of ${group.places.length} of an island`;
      const receives = `receives its part of a meeting in ${seconds(group.receiving)}`;
      const part = ownedWords(owned, peer);
      return {
        peer,
        text: `${how}, ${counted(at(steps, i), 'step')} of ${seconds(stepSeconds)} a round, ${receives}, ${part}.`,
      };
    }),
  );
}

const ownedWords = (owned: ReadonlyMap<PeerId, number>, peer: PeerId): string =>
  `owns ${rounded(100 * got(owned, peer), 2)} % of the model at meetings`;

function idleOf(
  costs: ClusterCosts,
  used: ReadonlySet<number>,
  owned: ReadonlyMap<PeerId, number>,
): ClusterPlan['idle'] {
  const shape = { first: false, last: false, layers: Math.min(1, costs.model.layers) };
  return [...costs.peers.entries()].flatMap(([place, { id, memoryBytes, upload, compute }]) => {
    if (used.has(place)) return [];
    const needed = costs.memory.stageBytes(shape, { samples: 1, slots: 1, recomputed: 1 }, compute);
    const reason =
      memoryBytes < needed
        ? `its ${bytesText(memoryBytes)} of memory do not hold one layer and one sample, ${bytesText(needed)}`
        : `no group found is worth more with it: ${bytesText(memoryBytes)} of memory, ${bytesText(upload)} a second up`;
    return [{ peer: id, reason: `${reason}; it computes nothing, and ${ownedWords(owned, id)}` }];
  });
}
