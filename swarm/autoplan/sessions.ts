/**
 * How long donors stay, learnt from those who came before: the survival curve of Kaplan and Meier ("Nonparametric Estimation
 * from Incomplete Observations", 1958), in which who is still here counts as having stayed at least so long. Who comes at
 * about the same hour of the day, and for the first time or not, is looked at first; where these are few, more of them are.
 */
import { totalOf } from '../base.ts';
import { SESSION_SECONDS } from '../planner/cluster.ts';

/** A visit. */
export interface Stay {
  readonly seconds: number;
  /** Its end was seen; false: it goes on, or the server ended first. */
  readonly hasEnded: boolean;
  /** Of the day on the server's clock, 0 to below 24, when it began. */
  readonly hour: number;
  readonly isNew: boolean;
}

/** Hours to either side of a visit's own. */
const NEAR_HOURS = 3;
/** Ended visits of a kind that are enough to go by. */
const ENOUGH = 20;
/** The usual length counts as so many visits. */
const PRIOR = 5;

/** Seconds that a visit which begins at this hour is expected to last. */
export function expectedSeconds(known: readonly Stay[], { hour, isNew }: Pick<Stay, 'hour' | 'isNew'>): number {
  const isNear = (one: Stay): boolean => {
    const apart = Math.abs(one.hour - hour);
    return Math.min(apart, 24 - apart) <= NEAR_HOURS;
  };
  const isAlike = (one: Stay): boolean => one.isNew === isNew;
  const narrower = [known.filter((one) => isNear(one) && isAlike(one)), known.filter(isAlike), known];
  const found = narrower.find((some) => endedIn(some) >= ENOUGH) ?? known;
  const ended = endedIn(found);
  return ended === 0 ? SESSION_SECONDS : (ended * meanSeconds(found) + PRIOR * SESSION_SECONDS) / (ended + PRIOR);
}

const endedIn = (sessions: readonly Stay[]): number => sessions.filter(({ hasEnded }) => hasEnded).length;

/** The area under the survival curve; past the last end that was seen it falls as the visits in all end. Some have ended. */
export function meanSeconds(sessions: readonly Stay[]): number {
  const sorted = sessions.toSorted((a, b) => a.seconds - b.seconds || Number(b.hasEnded) - Number(a.hasEnded));
  let [area, surviving, before] = [0, 1, 0];
  for (const [place, { seconds, hasEnded }] of sorted.entries()) {
    area += surviving * (seconds - before);
    before = seconds;
    if (hasEnded) surviving *= 1 - 1 / (sorted.length - place);
  }
  const sum = totalOf(sorted, ({ seconds }) => seconds);
  return area + surviving * (sum / endedIn(sorted));
}
