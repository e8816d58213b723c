/**
 * What this server's own clock says of a plan that replaced another one: where steps take longer than its members'
 * claims let expect, those whose part grew count as so much slower from then on, and where they take longer than before,
 * the plan before is taken back.
 */
import { type PeerId, rounded } from '../base.ts';
import { type Plan, peers } from '../plan/plan.ts';
import { workShares } from './doubt.ts';
import { lastSeconds, type Pace, stepSeconds } from './pace.ts';
import { predictedSeconds } from './predicting.ts';
import { addCause, answer, change, changeDonors, type Replanning, remember } from './replanning.ts';
import { hasHelped, TRIAL_STEPS, type Trial } from './standing.ts';
import { acquit, MOST_SLOWINGS, suspect } from './suspicion.ts';

/** Machines do swing: steps are longer where they take so many times as long. */
const LONGER = 1.25;
/** The same of a plan that had its trial long ago. */
const DECLINED = 2;
/** Until a trial ends, however few its steps: at least so long, and as long as so many of its steps took before. */
const LEAST_TRIAL_MS = 10_000;

/** When a trial ends, whatever was done by then; null: there is none, or its first step has not started. */
export function trialEndMs(trial: Trial | null, { startedMs }: Pace): number | null {
  const seconds = trial && (trial.beforeSeconds ?? trial.predictedSeconds);
  if (seconds === null || startedMs === null) return null;
  return startedMs + Math.max(LEAST_TRIAL_MS, 2_000 * TRIAL_STEPS * seconds);
}

/** Seconds of a step of the plan on trial, once its steps are done or its time is over; null before. */
export function trialSeconds(trial: Trial, pace: Pace, nowMs: number): number | null {
  if (pace.steps.length >= TRIAL_STEPS) return stepSeconds(pace);
  const endMs = trialEndMs(trial, pace);
  if (endMs === null || pace.startedMs === null || nowMs < endMs) return null;
  // The one in progress takes longer yet.
  return (nowMs - pace.startedMs) / 1_000 / (pace.steps.length + 1);
}

/** `seconds`: of a step of the plan on trial, which is in force. */
export function judge(replanning: Replanning, plan: Plan, trial: Trial, seconds: number) {
  const { before, beforeSeconds } = trial;
  if (!hasHelped(trial, seconds)) acquit(replanning);
  change(replanning, { suspicion: null });
  if (before === null || beforeSeconds === null) return suspect(replanning, plan, seconds);
  const isFound = believeClock(replanning, plan, before, seconds - trial.besideSeconds);
  if (seconds > LONGER * beforeSeconds) takeBack(replanning, before, seconds, beforeSeconds);
  else if (!isFound) suspect(replanning, plan, seconds);
}

/** Long after its trial: a plan whose steps take as long as they never did. Its members' spans need not say so. */
export function considerDecline(replanning: Replanning, plan: Plan) {
  const { replaced, trial, pace, donors } = replanning.state;
  const seconds = lastSeconds(pace);
  if (trial !== null || replaced?.before == null || replaced.beforeSeconds === null || seconds === null) return;
  if (pace.steps.length < 2 * TRIAL_STEPS || seconds <= DECLINED * replaced.beforeSeconds) return;
  const grown = whoseGrew(replaced.before, plan);
  if (donors.every(({ peer, isOwn }) => isOwn || !grown.has(peer))) return;
  change(replanning, { replaced: null });
  judge(replanning, plan, replaced, seconds);
}

function takeBack(replanning: Replanning, before: Plan, seconds: number, beforeSeconds: number) {
  const [now, then] = [seconds, beforeSeconds].map((value) => rounded(value, 3));
  const reason = `a step takes ${now} s, with the plan before it took ${then} s`;
  const isHere = peers(before).every((peer) => replanning.run.offer.includes(peer));
  if (!isHere) return addCause(replanning, { reason, by: null });
  remember(replanning, { plan: before, reasons: [], idle: [] }, [], true);
  replanning.effects.push({ type: 'log', level: 'info', text: `${reason}: it is taken back.` });
  answer(replanning, null, { answer: 'plan', plan: before, reason });
}

/** Whether it says who is slow. */
function believeClock(replanning: Replanning, plan: Plan, before: Plan, seconds: number): boolean {
  const known = replanning.state.donors;
  const isShort = (): boolean => {
    const predicted = predictedSeconds(replanning.state, plan);
    return predicted !== null && seconds > LONGER * predicted;
  };
  const grown = whoseGrew(before, plan);
  for (let time = 0; time < MOST_SLOWINGS && isShort(); time++)
    changeDonors(replanning, (donor) => (grown.has(donor.peer) ? { ...donor, slowdown: 2 * donor.slowdown } : donor));
  // Whatever takes so long, it is not their work.
  if (isShort()) change(replanning, { donors: known });
  if (replanning.state.donors === known) return false;
  addCause(replanning, { reason: `${[...grown].join(', ')} took longer than they say`, by: null });
  return true;
}

function whoseGrew(before: Plan, after: Plan): Set<PeerId> {
  const had = workShares(before);
  return new Set([...workShares(after)].flatMap(([peer, share]) => (share > (had.get(peer) ?? 0) ? peer : [])));
}
