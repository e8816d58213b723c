/** A round of islands: the steps that each team ends in it, and the meeting after them. */
import { at } from '../base.ts';
import type { Meeting } from './islandMeeting.ts';
import type { Team } from './islandTeam.ts';

export interface Round {
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
export function timedRound(teams: readonly Team[], meeting: Meeting, stepsSeconds: number): Round {
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
export function countedRound(teams: readonly Team[], meeting: Meeting, innerSteps: number): Round {
  const receiving = Math.max(...teams.map(({ group }) => group.receiving));
  const meetingSeconds = Math.max(meeting.sendingSeconds, receiving) + meeting.besideSeconds;
  const steps = teams.map(({ turns }) => turns * innerSteps);
  const longest = Math.max(...teams.map(({ forecast }, i) => at(steps, i) * forecast.stepSeconds));
  return { seconds: longest + meetingSeconds, meetingSeconds, steps, stepsSeconds: teams.map(() => longest) };
}
