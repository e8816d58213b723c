/** A round of islands: the steps that each team ends in it, and the meeting after them. */
import { at, type Result, refusal, success } from '../base.ts';
import type { MeetingSettings } from '../islands/outer.ts';
import { groupedText } from '../quantityText.ts';
import type { ClusterCosts } from './clusterCosts.ts';
import type { Way } from './islandCosts.ts';
import { type Meeting, meetingOf, meetingOfAll, missingForOwners, type Part, secondsToAll } from './islandMeeting.ts';
import type { Team } from './islandTeam.ts';
import { noGroup } from './islandWords.ts';

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

/** Steps go on beside the meeting (IS80), whose outcome all of them wait for before they meet again. */
function besideMeeting(round: Round, teams: readonly Team[], meeting: Meeting): Round {
  const receiving = Math.max(...teams.map(({ group }) => group.receiving));
  const meetingSeconds = Math.max(meeting.sendingSeconds, receiving) + meeting.besideSeconds;
  return { ...round, seconds: Math.max(round.seconds, meetingSeconds), meetingSeconds };
}

/** Nobody waits for it, nor for what comes of it. */
const AT_ONCE: Meeting = { sendingSeconds: 0, besideSeconds: 0, shares: [] };
const withoutReceiving = (teams: readonly Team[]): Team[] =>
  teams.map((team) => ({ ...team, group: { ...team.group, receiving: 0 } }));

/** The slowest group is waited for. */
function countedRound(teams: readonly Team[], meeting: Meeting, innerSteps: number): Round {
  const receiving = Math.max(...teams.map(({ group }) => group.receiving));
  const meetingSeconds = Math.max(meeting.sendingSeconds, receiving) + meeting.besideSeconds;
  const steps = teams.map(({ turns }) => turns * innerSteps);
  const longest = Math.max(...teams.map(({ forecast }, i) => at(steps, i) * forecast.stepSeconds));
  return { seconds: longest + meetingSeconds, meetingSeconds, steps, stepsSeconds: teams.map(() => longest) };
}

export interface Rounds {
  /** Of steps; absent: as long as the slowest group takes for so many inner steps of each of its islands. */
  readonly roundSeconds?: number;
  readonly innerSteps?: number;
  /** Is the meeting beside the next round's steps? */
  readonly overlap?: boolean;
}

/** Teams that have steps in a round, with it and its meeting. */
interface Met {
  readonly teams: readonly Team[];
  readonly meeting: Meeting;
  readonly round: Round;
}

export function metBy(
  costs: ClusterCosts,
  asked: MeetingSettings,
  way: Way,
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
  const roundOf = (met: readonly Team[], held: Meeting): Round =>
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
export function owningParts(costs: ClusterCosts, teams: readonly Team[]): Part[] {
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

/** Of as many of the slowest lines as is worth most: all wait for all packets. With a number of islands all are needed. */
export function withoutSlow(costs: ClusterCosts, asked: MeetingSettings, all: Met, rounds: Rounds): Met {
  if (rounds.innerSteps !== undefined) return all;
  const rate = ({ round }: Met): number => round.steps.reduce((sum, own) => sum + own, 0) / round.seconds;
  const slowestFirst = all.teams.toSorted((a, b) => b.group.receiving - a.group.receiving);
  let best = all;
  for (const count of slowestFirst.keys()) {
    const out = new Set(slowestFirst.slice(0, count));
    const tried = metBy(
      costs,
      asked,
      'toAll',
      all.teams.filter((team) => !out.has(team)),
      rounds,
    );
    if (tried.ok && rate(tried.value) > rate(best)) best = tried.value;
  }
  return best;
}
