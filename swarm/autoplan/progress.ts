/** How the plan in force does: what it was predicted to take, what its steps take, and what is measured between them. */
import type { PeerId } from '../base.ts';
import type { Effect } from '../coordinator/events.ts';
import { type Plan, peers as peersOf } from '../plan/plan.ts';
import { clusterCosts } from '../planner/clusterCosts.ts';
import { forecast } from '../planner/forecast.ts';
import { keepProfile } from './donorWords.ts';
import { isOff } from './drift.ts';
import { addCause, change, changeDonors, changeStanding, isAuto, type Judgement, LINKS, says } from './judgement.ts';
import type { JudgeState } from './judging.ts';
import { begunAnew, clusterProblem, plannedNow, searchProblem } from './knownDonors.ts';
import { hasRoom, isProbeDue, nextSampling, probePair, withTried } from './linkSample.ts';
import { lastSeconds, planBegan, stepSeconds, stepStarted, stepTook } from './pace.ts';
import { hasHelped, lookedInVain, restored, TRIAL_STEPS } from './standing.ts';

/** Every so many steps the links are looked at. */
const LOOK_EVERY_STEPS = 10;

/** What the coordinator asked for is about to be done. */
export function doing(judgement: Judgement, effect: Effect) {
  switch (effect.type) {
    case 'storeEpoch':
      return began(judgement, effect);
    case 'send':
      if (effect.message.type === 'start')
        change(judgement, { pace: stepStarted(judgement.state.pace, judgement.nowMs) });
      return;
    case 'storeCheckpoint':
    case 'finished':
    case 'stopped':
      for (const donor of judgement.state.donors) keepProfile(judgement, donor);
      return;
    case 'storeCommit':
      return committed(judgement, effect.record);
    default:
      return;
  }
}

/** Seconds of a step, by what is known now (or was, when the plan was made); null where a member measured nothing. */
export function predictedSeconds(
  { config, donors }: JudgeState,
  plan: Plan,
  as: 'now' | 'planned' = 'now',
): number | null {
  const members = peersOf(plan);
  const problem = searchProblem(config, donors, members, new Map(), as);
  if (problem.cluster.peers.length < members.length) return null;
  return forecast(clusterCosts(clusterProblem(config, problem)), plan).stepSeconds;
}

/** From now on drifts are measured against what is known now. */
export function planFrom(judgement: Judgement, plan: Plan) {
  const members = new Set(peersOf(plan));
  const { config } = judgement.state;
  changeDonors(judgement, (donor) => (members.has(donor.peer) ? plannedNow(config, donor) : { ...donor, drift: null }));
}

function began(judgement: Judgement, { epoch, plan, reason }: Extract<Effect, { type: 'storeEpoch' }>) {
  const { config, pace, planning } = judgement.state;
  changeDonors(judgement, (donor) => begunAnew(config, donor));
  planFrom(judgement, plan);
  const beforeSeconds = lastSeconds(pace);
  endTrial(judgement, beforeSeconds);
  const made = judgement.state.made.findLast((one) => isSamePlan(one.plan, plan));
  const by = made?.by ?? [];
  const predicted = predictedSeconds(judgement.state, plan);
  const reasons = made?.reasons ?? [];
  change(judgement, {
    pace: planBegan(pace, judgement.nowMs),
    trial: by.length === 0 ? null : { by, beforeSeconds },
    planning: { epoch, reason, predictedSeconds: predicted, reasons, verdict: planning?.verdict ?? null },
  });
  if (made?.isJudged !== true) addCause(judgement, { reason: 'a plan was needed at once', by: null });
  const { schedule } = plan;
  judgement.effects.push({ type: 'recordPlan', epoch, schedule, predictedSeconds: predicted, reasons });
}

/** They may have been written down and read again. */
const isSamePlan = (one: Plan, other: Plan): boolean => one === other || JSON.stringify(one) === JSON.stringify(other);

function committed(judgement: Judgement, record: { readonly step: number; readonly seconds: number }) {
  change(judgement, { pace: stepTook(judgement.state.pace, record.seconds) });
  const { pace } = judgement.state;
  if (pace.steps.length >= TRIAL_STEPS) endTrial(judgement, stepSeconds(pace));
  if (!isAuto(judgement)) return;
  if ((record.step + 1) % LOOK_EVERY_STEPS === 0) lookAtLinks(judgement);
  sampleLinks(judgement);
}

/** A plan that donors' words brought about is over, or its steps are known; `seconds` each. */
function endTrial(judgement: Judgement, seconds: number | null) {
  const { trial } = judgement.state;
  if (trial === null) return;
  change(judgement, { trial: null });
  if (!hasHelped(trial, seconds)) return inVain(judgement, trial.by);
  for (const peer of trial.by) changeStanding(judgement, peer, restored);
}

/** A look that these asked for came to nothing. */
export function inVain(judgement: Judgement, by: readonly PeerId[]) {
  for (const peer of by) changeStanding(judgement, peer, (standing) => lookedInVain(standing, judgement.nowMs));
}

function lookAtLinks(judgement: Judgement) {
  const { state, run } = judgement;
  const expected = state.planning?.predictedSeconds ?? null;
  if (run.plan === null || expected === null) return;
  const seconds = predictedSeconds(state, run.plan, 'planned');
  if (seconds !== null && isOff(seconds, expected))
    says(judgement, LINKS, 'links are others than those that were planned with');
}

/** Where two steps meet, and only where there are steps: for anything else links need not be known. */
function sampleLinks(judgement: Judgement) {
  const { state, run, nowMs } = judgement;
  if (!isProbeDue(state.sampling, nowMs)) return;
  const seconds = stepSeconds(state.pace) ?? 0;
  const offer = new Set(run.offer);
  const able = state.donors.filter(
    ({ peer, limits, sentBytes }) => offer.has(peer) && hasRoom(limits, seconds > 0 ? sentBytes / seconds : 0),
  );
  const pair = probePair(able, run.plan ? peersOf(run.plan) : [], state.sampling, nowMs);
  change(judgement, { sampling: nextSampling(state.sampling, pair !== null, nowMs) });
  if (pair === null) return;
  const [one, other] = pair;
  const { epoch } = run;
  for (const [peer, partner] of [
    [one, other],
    [other, one],
  ] as const) {
    changeDonors(judgement, (donor) =>
      donor.peer === peer
        ? { ...donor, probe: { peer: partner, atMs: nowMs }, tried: withTried(donor.tried, partner, nowMs) }
        : donor,
    );
    judgement.effects.push({ type: 'send', to: peer, message: { type: 'probe', peer: partner, epoch } });
  }
}
