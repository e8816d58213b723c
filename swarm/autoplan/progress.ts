/** How the plan in force does: what it was predicted to take, what its steps take, and what is measured between them. */
import type { PeerId } from '../base.ts';
import type { Effect } from '../coordinator/events.ts';
import { type Plan, peers as peersOf } from '../plan/plan.ts';
import { keepProfiles } from './donorWords.ts';
import { isSeen } from './doubt.ts';
import { isOff } from './drift.ts';
import { begunAnew, plannedNow } from './knownDonors.ts';
import { hasRoom, isProbeDue, nextSampling, probePair, withTried } from './linkSample.ts';
import { besideSeconds, lastSeconds, planBegan, stepSeconds, stepStarted, stepTook } from './pace.ts';
import { predictedSeconds } from './predicting.ts';
import {
  addCause,
  change,
  changeDonors,
  changeStanding,
  isAuto,
  LINKS,
  type Replanning,
  suggestReplan,
} from './replanning.ts';
import { hasHelped, lookedInVain, restored } from './standing.ts';
import { considerDecline, judge, trialSeconds } from './takeBack.ts';

/** Every so many steps the links are looked at. */
const LOOK_EVERY_STEPS = 10;

/** What the coordinator asked for is about to be done. */
export function doing(replanning: Replanning, effect: Effect) {
  switch (effect.type) {
    case 'storeEpoch':
      return began(replanning, effect);
    case 'send':
      if (effect.message.type === 'start')
        change(replanning, { pace: stepStarted(replanning.state.pace, replanning.nowMs) });
      return;
    case 'storeCheckpoint':
    case 'finished':
    case 'stopped':
      return keepProfiles(replanning, replanning.state.donors);
    case 'offerChanged':
      return addCause(replanning, { reason: effect.reason, by: null });
    case 'storeCommit':
      return committed(replanning, effect.record);
    default:
      return;
  }
}

/** From now on drifts are measured against what is known now. */
export function planFrom(replanning: Replanning, plan: Plan) {
  const members = new Set(peersOf(plan));
  const { config } = replanning.state;
  changeDonors(replanning, (donor) =>
    members.has(donor.peer) ? plannedNow(config, donor) : { ...donor, drift: null },
  );
}

function began(replanning: Replanning, { epoch, plan, reason }: Extract<Effect, { type: 'storeEpoch' }>) {
  const { config, pace, appraisal, newestPlan: before } = replanning.state;
  const expected = before && predictedSeconds(replanning.state, before);
  changeDonors(replanning, (donor) => begunAnew(config, donor));
  planFrom(replanning, plan);
  const beforeSeconds = lastSeconds(pace);
  // Under another epoch the same plan's trial goes on.
  const isAgain = before !== null && isSamePlan(before, plan);
  if (!isAgain) endTrial(replanning, beforeSeconds);
  const made = replanning.state.made.findLast((one) => isSamePlan(one.plan, plan));
  const predicted = predictedSeconds(replanning.state, plan);
  const forced = { by: [], beforeSeconds: null, besideSeconds: 0, predictedSeconds: predicted, before: null };
  const beside = besideSeconds(pace, expected ?? 0);
  const unforced = { ...forced, by: made?.by ?? [], beforeSeconds, besideSeconds: beside, before };
  const reasons = (made?.reasons ?? []).map(({ peer, text }) => ({ peer, text }));
  for (const { text, isWarning } of isAgain ? [] : (made?.reasons ?? []))
    if (isWarning) replanning.effects.push({ type: 'log', level: 'info', text });
  change(replanning, {
    pace: planBegan(pace, replanning.nowMs),
    newestPlan: plan,
    replaced: isAgain ? replanning.state.replaced : null,
    trial: isAgain ? replanning.state.trial : made?.isAtLength ? unforced : isAuto(replanning) ? forced : null,
    appraisal: { epoch, reason, predictedSeconds: predicted, reasons, verdict: appraisal?.verdict ?? null },
  });
  if (made?.isAtLength !== true) addCause(replanning, { reason: 'The plan was looked at again', by: null });
  const { schedule } = plan;
  replanning.effects.push({ type: 'recordPlan', epoch, schedule, predictedSeconds: predicted, reasons });
}

/** They may have been written down and read again. */
const isSamePlan = (one: Plan, other: Plan): boolean => one === other || JSON.stringify(one) === JSON.stringify(other);

function committed(replanning: Replanning, record: { readonly step: number; readonly seconds: number }) {
  change(replanning, { pace: stepTook(replanning.state.pace, record.seconds) });
  considerTrial(replanning);
  const { plan } = replanning.run;
  if (!isAuto(replanning)) return;
  if (plan !== null) countSeen(replanning, workersOf(plan));
  if ((record.step + 1) % LOOK_EVERY_STEPS === 0) {
    lookAtLinks(replanning);
    if (plan !== null) considerDecline(replanning, plan);
  }
  sampleLinks(replanning);
}

/** The plan in force has had its steps, or its time. */
export function considerTrial(replanning: Replanning) {
  const { state, run, nowMs } = replanning;
  const seconds = state.trial && trialSeconds(state.trial, state.pace, nowMs);
  if (state.trial === null || seconds === null) return;
  endTrial(replanning, seconds);
  change(replanning, { replaced: state.trial });
  if (run.plan !== null) judge(replanning, run.plan, state.trial, seconds);
}

/** Who keeps state alone shows nothing of its speed. */
const workersOf = ({ stages }: Plan): PeerId[] => stages.flatMap(({ members }) => members.map(({ peer }) => peer));

/** They had a part in one more step. Who was doubted until now may get a larger one. */
function countSeen(replanning: Replanning, members: readonly PeerId[]) {
  const { donors } = replanning.state;
  const unseen = donors.filter((donor) => !isSeen(donor));
  const counted = unseen.filter(({ peer }) => members.includes(peer)).map(({ peer }) => peer);
  if (counted.length === 0) return;
  changeDonors(replanning, (donor) =>
    counted.includes(donor.peer) ? { ...donor, stepsSeen: donor.stepsSeen + 1 } : donor,
  );
  const known = replanning.state.donors.filter(({ peer }) => counted.includes(peer)).filter(isSeen);
  if (known.length === 0 || unseen.length === donors.length) return;
  const names = known.map(({ peer }) => peer).join(', ');
  addCause(replanning, { reason: `${names} was seen at work`, by: null });
}

/** A plan that donors' words brought about is over, or its steps are known; `seconds` each. */
function endTrial(replanning: Replanning, seconds: number | null) {
  const { trial } = replanning.state;
  if (trial === null) return;
  change(replanning, { trial: null });
  if (!hasHelped(trial, seconds)) return inVain(replanning, trial.by);
  for (const peer of trial.by) changeStanding(replanning, peer, restored);
}

/** A look that these asked for came to nothing. */
export function inVain(replanning: Replanning, by: readonly PeerId[]) {
  for (const peer of by) changeStanding(replanning, peer, (standing) => lookedInVain(standing, replanning.nowMs));
}

function lookAtLinks(replanning: Replanning) {
  const { state, run } = replanning;
  const expected = state.appraisal?.predictedSeconds ?? null;
  if (run.plan === null || expected === null) return;
  const seconds = predictedSeconds(state, run.plan, 'planned');
  if (seconds !== null && isOff(seconds, expected))
    suggestReplan(replanning, LINKS, 'the links between donors have changed');
}

/** Where two steps meet, and only where there are steps: for anything else links need not be known. */
function sampleLinks(replanning: Replanning) {
  const { state, run, nowMs } = replanning;
  if (!isProbeDue(state.sampling, nowMs)) return;
  const seconds = stepSeconds(state.pace) ?? 0;
  const offer = new Set(run.offer);
  const able = state.donors.filter(
    ({ peer, limits, sentBytes }) => offer.has(peer) && hasRoom(limits, seconds > 0 ? sentBytes / seconds : 0),
  );
  const pair = probePair(able, run.plan ? peersOf(run.plan) : [], state.sampling, nowMs);
  change(replanning, { sampling: nextSampling(state.sampling, pair !== null, nowMs) });
  if (pair === null) return;
  const [one, other] = pair;
  const { epoch } = run;
  for (const [peer, partner] of [
    [one, other],
    [other, one],
  ] as const) {
    changeDonors(replanning, (donor) =>
      donor.peer === peer
        ? { ...donor, probe: { peer: partner, atMs: nowMs }, tried: withTried(donor.tried, partner, nowMs) }
        : donor,
    );
    replanning.effects.push({ type: 'send', to: peer, message: { type: 'probe', peer: partner, epoch } });
  }
}
