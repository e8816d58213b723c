/**
 * Which plan is in force, what happens at a step boundary, and how a step is given up. There are three ways to a new epoch
 * and no fourth. `tryAgain` keeps plan and state, and is only open while every member of the plan lives. `planOn` and, at
 * a boundary, `handOver` change the plan, the state going from peer to peer: that needs a living keeper of every shard.
 * `planAnew` starts from the newest checkpoint with whoever is there.
 */
import type { PeerId } from '../base.ts';
import { isMeeting, isRecorded } from '../islands/rounds.ts';
import { hasOwnEnds } from '../plan/ends.ts';
import { peers } from '../plan/plan.ts';
import { auditsSentence } from './audits.ts';
import {
  awaitedCheckpoint,
  expectCheckpoint,
  isCheckpointOnItsWay,
  pendingNow,
  rollBack,
  uploadsMissing,
} from './checkpoint.ts';
import { allowedFor, paceOf } from './deadlines.ts';
import type { Proposal } from './events.ts';
import { areWarmAhead, planAhead } from './filling.ts';
import { begin, newlyInForce, prepare } from './newEpoch.ts';
import { watchedFrom } from './progress.ts';
import { staleOf } from './replicas.ts';
import { evaluate, train } from './starting.ts';
import {
  type Among,
  type CoordinatorState,
  expectedDonors,
  isPlanningAnew,
  type Lack,
  membersOf,
  type PlanInForce,
  planInForce,
} from './state.ts';
import { areAllCommitted, evaluationDue, isDone, isLastStep, nextStepOf } from './stepsAhead.ts';
import {
  interruption,
  keepersLive,
  keepingThrough,
  living,
  lostReason,
  membersInvolved,
  membersLeft,
  offerOf,
  ownEndsIn,
  planAtHand,
  successorOf,
  willing,
} from './successor.ts';
import { takeIn } from './takingIn.ts';
import { change, changeDonor, forget, isAside, log, send, sendAbandon, type Transition } from './transition.ts';

/** After anything that may interrupt: where nothing would be lost, it does so now; else at the next boundary. */
export function considerInterruption(transition: Transition) {
  const { phase, newestCheckpointStep, committedSteps } = transition.state;
  if (phase.name === 'waiting') return planAnew(transition, 'enough donors are here');
  if (phase.name === 'planning' && isPlanningAnew(transition.state))
    return planAnew(transition, phase.reason, membersLeft(transition.state, null));
  if (phase.name === 'holding') return boundary(transition);
  if (phase.name !== 'preparing' || phase.source.from === 'peers' || newestCheckpointStep !== committedSteps) return;
  const stop = interruption(transition.state);
  if (stop !== null) planAnew(transition, stop.reason);
}

/** A donor that this transition forgot: the step in progress cannot be completed. */
export function lose(transition: Transition, peer: PeerId, reason: string) {
  if (!membersInvolved(transition.state).includes(peer)) return considerInterruption(transition);
  const pending = transition.state.phase.name === 'saving' ? pendingNow(transition) : undefined;
  // Its shards are there already: nothing is lost, and the plan ends at this boundary anyway.
  if (pending !== undefined && !uploadsMissing(pending).includes(peer)) return;
  planOn(transition, reason);
}

/**
 * The epoch in progress cannot go on. Where every shard has a keeper left, nothing is given up but the step in progress;
 * and a run that is to stand and has all of it saved needs no plan at all. `isChecked`: the next plan is.
 */
export function planOn(transition: Transition, reason: string, isChecked = false) {
  const { state } = transition;
  const kept = keepingThrough(state);
  // Also where somebody is lost while that one is waited for.
  const isWanted = isChecked || (state.phase.name === 'planning' && kept?.isChecked === true);
  const before = kept && { ...kept, isChecked: isWanted };
  const among = membersLeft(state, before);
  const isDispensable = state.operator !== 'run' && state.committedSteps === state.newestCheckpointStep;
  if (before === null || isDispensable || living(state, before) === null)
    return planAnew(transition, before === null ? reason : lostReason(transition.state, before, reason), among);
  takeIn(transition, before);
  end(transition, reason);
  waitForPlan(transition, before, reason, among);
}

export function waitForPlan(transition: Transition, before: PlanInForce | null, reason: string, among: Among) {
  change(transition, { phase: { name: 'planning', before, reason, among } });
  proceed(transition);
}

/** Where a plan is waited for and it is there, it begins. */
export function proceed(transition: Transition) {
  const { phase, newestCheckpointStep, outcome } = transition.state;
  const found = planAtHand(transition.state);
  // What comes of a meeting under way is taken in by those who ended the round.
  if (phase.name !== 'planning' || found === null || outcome === 'awaited') return;
  const { before, reason, among } = phase;
  const { doubt } = transition.state;
  // They cannot do it alone.
  if (found.answer === 'none' && among !== 'everyone') return waitForPlan(transition, before, reason, 'everyone');
  // Nobody else can do it: the suspect takes part again, and a plan with it is asked for.
  if (found.answer === 'none' && doubt?.suspect) return change(transition, { doubt: { ...doubt, suspect: null } });
  const proposal = found.answer === 'plan' ? found : null;
  if (before !== null) {
    // Without another plan those who have the state go on with their own, and save it first where one of them wants to go.
    const mayGoOn = keepersLive(transition.state, before) && hasOwnEnds(before.plan, ownEndsIn(transition.state));
    const next = proposal ?? (mayGoOn ? before : null);
    // Some of them are gone and the others cannot go on without a newcomer: they keep what they have until one comes.
    const { isChecked } = before;
    if (next !== null) return begin(transition, { ...next, isChecked }, { from: 'peers', inForce: before }, reason);
    const { config } = transition.state;
    // Of several groups the others would wait for that one, too.
    if (config.own === undefined || isRecorded(config.train) || offerOf(transition.state).length > 0) return;
    return endGroup(transition, 'noPlan', reason);
  }
  if (found.answer === 'none') {
    if (transition.state.config.own !== undefined) return endGroup(transition, 'noPlan', found.reason);
    return wait(transition, { of: 'plan', reason: found.reason });
  }
  begin(transition, found, { from: 'checkpoint', step: newestCheckpointStep }, reason);
  sendSpare(transition, new Set(peers(found.plan)));
}

/** At a boundary: the members of `before` give the state to those of the new plan, who are warm. */
function handOver(transition: Transition, before: PlanInForce, proposal: Proposal, reason: string) {
  const { state } = transition;
  const isForced = state.donors.some(({ peer, wish }) => wish !== 'compute' && membersOf(before).includes(peer));
  const ahead = isForced ? null : planAhead(state, before.plan, proposal.plan);
  end(transition, reason);
  const source = { from: 'peers', inForce: before } as const;
  if (ahead === null) return begin(transition, proposal, source, reason, true);
  const isWarm = areWarmAhead(ahead, proposal.plan);
  const sameWork = { ...newlyInForce(state, ahead, before.predicted), ...paceOf(before) };
  prepare(transition, sameWork, source, `${reason}: copies first`, isWarm);
}

/** While copies are made beside the steps nothing else is copied. */
function isCopiedAnew(state: CoordinatorState): boolean {
  const inForce = planInForce(state);
  return state.operator === 'run' && inForce?.filling === null && staleOf(inForce.lacking).length > 0;
}

/** At a boundary: replicas that have not what they should keep get it before the next step. */
function copyAnew(transition: Transition, inForce: PlanInForce) {
  const stale = staleOf(inForce.lacking);
  const reason = `${stale.slice(0, 3).join(', ')}${stale.length > 3 ? ' and others' : ''}: copied anew`;
  end(transition, reason);
  const again = { ...newlyInForce(transition.state, inForce.plan, inForce.predicted), ...paceOf(inForce) };
  prepare(transition, again, { from: 'peers', inForce }, reason);
}

/** What was begun under the epoch in progress ends; a step that is whole is completed by those who did it. */
function end(transition: Transition, reason: string) {
  const { phase, attempts } = transition.state;
  change(transition, { attempts: { ...attempts, stalls: 0 } });
  if (!('inForce' in phase)) return;
  // Training at its boundary has no step in progress: its members finish what was committed, then hand over. Where one of
  // them is gone they could wait for it in vain.
  const isBetween =
    phase.name === 'holding' || (phase.name === 'training' && phase.step < transition.state.committedSteps);
  if (isBetween && keepersLive(transition.state, phase.inForce)) return;
  sendAbandon(transition, membersInvolved(transition.state), phase.inForce.epoch, reason);
}

/**
 * The plan in force, if any, ends here; what is not in the newest checkpoint is lost. Then whatever should come next. `among`:
 * whose the next plan is.
 */
export function planAnew(transition: Transition, reason: string, among: Among = 'everyone') {
  const { phase } = transition.state;
  const inForce = planInForce(transition.state);
  const why = groupEnd(transition.state);
  if (why !== null) return endGroup(transition, why, reason);
  const hasBegun = phase.name !== 'waiting' && phase.name !== 'returning';
  if (inForce !== null) {
    sendAbandon(transition, membersInvolved(transition.state), inForce.epoch, reason);
  }
  change(transition, { attempts: { ...transition.state.attempts, stalls: 0 } });
  rollBack(transition, hasBegun ? reason : 'the server started again from its store');
  release(transition, new Set());
  const { state } = transition;
  if (isDone(state)) return areAudited(state) ? finish(transition) : wait(transition, { of: 'audits' });
  if (state.operator === 'stop') return stopNow(transition);
  if (state.operator === 'pause') return change(transition, { phase: { name: 'paused' }, proposal: null });
  if (state.gathering === 'open') {
    const here = state.donors.length;
    const expected = expectedDonors(state);
    if (here < expected) return wait(transition, { of: 'donors', here, expected });
    change(transition, { gathering: 'whole' });
  }
  if (willing(transition.state, 1, among).length === 0) return wait(transition, { of: 'donor' });
  waitForPlan(transition, null, reason, among);
}

/** One of several groups plans from a checkpoint by itself only where nothing is lost by that. Null: it does. */
function groupEnd(state: CoordinatorState): 'over' | 'lost' | null {
  const { config, committedSteps, newestCheckpointStep, operator } = state;
  if (config.own === undefined) return null;
  if (newestCheckpointStep < committedSteps) return 'lost';
  if (isDone(state) || operator !== 'run') return 'over';
  return willing(state, 1, 'everyone').length === 0 ? 'lost' : null;
}

function endGroup(transition: Transition, why: Extract<Lack, { of: 'groups' }>['why'], reason: string) {
  const inForce = planInForce(transition.state);
  if (inForce !== null && !isDone(transition.state))
    sendAbandon(transition, membersInvolved(transition.state), inForce.epoch, reason);
  wait(transition, { of: 'groups', reason, why });
}

/**
 * Tells the donors without a place in the plan that they are spare. A donor that is told so drops the state it holds:
 * `needed` are those whose state the epoch in progress still needs, and they are not told.
 */
export function sendSpare(transition: Transition, needed: ReadonlySet<PeerId>) {
  const { donors, config } = transition.state;
  const members = planInForce(transition.state)?.duties.length ?? 0;
  const why = members >= config.capacity ? 'full' : 'noGain';
  // Who was set aside, or is to be in another group, knows that it has to wait.
  const spare = donors.flatMap(({ peer, wish, asideUntilMs, isApart, newcomer }) =>
    wish === 'compute' && asideUntilMs === null && !isApart && !newcomer?.waits && !needed.has(peer) ? peer : [],
  );
  send(transition, spare, { type: 'standby', state: 'spare', why });
}

/** Everyone of the new plan has what it needs: who handed over and has no place in it is let go. */
export function arrived(transition: Transition) {
  const { phase } = transition.state;
  if (phase.name !== 'preparing') return;
  if (phase.source.from === 'peers') {
    const members = new Set(membersOf(phase.inForce));
    release(transition, members);
    const gave = membersOf(phase.source.inForce).filter((peer) => !members.has(peer) && isAside(transition, peer));
    send(transition, gave, { type: 'standby', state: 'spare', why: 'mustWait' });
    sendSpare(transition, members);
  }
  boundary(transition);
}

/** Those who asked to go are free now, but for `needed`: their shards are with others, saved, or lost for everyone. */
function release(transition: Transition, needed: ReadonlySet<PeerId>) {
  for (const { peer, wish } of transition.state.donors) {
    if (needed.has(peer)) continue;
    if (wish === 'pausing') {
      changeDonor(transition, peer, { wish: 'paused' });
      send(transition, [peer], { type: 'standby', state: 'paused' });
    } else if (wish === 'leaving') {
      send(transition, [peer], { type: 'standby', state: 'left' });
      forget(transition, peer);
    }
  }
}

function wait(transition: Transition, lack: Lack) {
  change(transition, { phase: { name: 'waiting', lack }, proposal: null });
}

/** Nothing can be planned for; who comes, or the operator, has it tried again. */
export function waitWithout(transition: Transition, reason: string) {
  const inForce = planInForce(transition.state);
  if (inForce !== null) sendAbandon(transition, membersInvolved(transition.state), inForce.epoch, reason);
  log(transition, 'warn', `The run stands: ${reason}.`);
  wait(transition, { of: 'state', reason });
}

export function stopNow(transition: Transition) {
  change(transition, { phase: { name: 'stopped' } });
  transition.effects.push({ type: 'stopped' });
}

function finish(transition: Transition) {
  if (transition.state.config.own !== undefined) return endGroup(transition, 'over', 'every step is done');
  change(transition, { phase: { name: 'finished' } });
  release(transition, new Set());
  const { donors, operator, committedSteps, audits } = transition.state;
  log(transition, 'info', `The run is finished after ${committedSteps} steps.`);
  if (audits && audits.drawn > 0) log(transition, 'info', auditsSentence(audits));
  send(
    transition,
    donors.map(({ peer }) => peer),
    { type: 'standby', state: 'finished' },
  );
  transition.effects.push({ type: 'finished' });
  if (operator === 'stop') stopNow(transition);
}

/**
 * The same plan again under a new epoch; beside a meeting, when that is over. Every member must be alive. `isChecked`: from now
 * on, where it was not.
 */
export function tryAgain(transition: Transition, reason: string, isChecked = false) {
  const { phase, newestCheckpointStep, committedSteps, outcome } = transition.state;
  const inForce = planInForce(transition.state);
  const staysChecked = isChecked || inForce?.isChecked === true;
  if (outcome === 'awaited') return planOn(transition, reason, staysChecked);
  const stop = interruption(transition.state);
  const handsOver = phase.name === 'preparing' && phase.source.from === 'peers';
  if (inForce === null || (stop !== null && !handsOver && newestCheckpointStep === committedSteps))
    return planAnew(transition, stop?.reason ?? reason);
  takeIn(transition, inForce);
  sendAbandon(transition, membersInvolved(transition.state), inForce.epoch, reason);
  const again = { ...inForce, isChecked: staysChecked };
  prepare(transition, again, phase.name === 'preparing' ? phase.source : { from: 'kept' }, reason);
}

/** Everyone is ready and no step is in progress: what comes next? */
export function boundary(transition: Transition) {
  const { state } = transition;
  const inForce = planInForce(state);
  const isOver = areAllCommitted(state);
  if (isDone(state) && areAudited(state)) return finish(transition);
  const stop = interruption(state);
  const saved = state.newestCheckpointStep === state.committedSteps;
  const saving = state.pending.some(({ step }) => step === state.committedSteps);
  if (inForce === null) return planAnew(transition, 'no plan is in force');
  if (isDone(state)) return change(transition, { phase: { name: 'holding', inForce, awaits: 'audits' } });
  takeIn(transition, inForce);
  // Another plan would begin at values that nobody has until the meeting is over.
  if ((stop !== null || isCopiedAnew(state)) && state.outcome === 'awaited') return awaitGroups(transition, inForce);
  if (state.isSavedFirst && !saved) return save(transition, inForce);
  // After the last step there is nothing to plan for, only to save.
  const successor = isOver ? null : stop?.successor;
  if (stop !== null && successor) return handOver(transition, inForce, successor, stop.reason);
  if (stop !== null && saved) return planAnew(transition, stop.reason);
  if (stop !== null && saving) return save(transition, inForce);
  if (isCopiedAnew(state) && !saved) return copyAnew(transition, inForce);
  if ((state.held === 'everyStep' || isTakingIn(state)) && !isOver)
    return change(transition, { phase: { name: 'holding', inForce, awaits: 'newcomer' } });
  if (evaluationDue(state)) return evaluate(transition, inForce);
  const next = nextStepOf(state);
  if (!isOver && next === null) return awaitGroups(transition, inForce);
  if (state.held === 'lastStep' && next !== null && isLastStep(state, next))
    return change(transition, { phase: { name: 'holding', inForce, awaits: 'newcomer' } });
  if (!isOver && awaitedCheckpoint(transition)) return awaitCheckpoint(transition, inForce);
  if (!isOver && next !== null) return train(transition, inForce, next);
  save(transition, inForce);
}

/** No audit is under way. */
const areAudited = ({ audits }: CoordinatorState): boolean => (audits?.pending.length ?? 0) === 0;

function awaitGroups(transition: Transition, inForce: PlanInForce) {
  change(transition, { phase: { name: 'holding', inForce, awaits: 'groups' } });
}

/** The newcomer that the next step waited for is here; a plan that may use it is looked for, or its members warm up. */
function isTakingIn(state: CoordinatorState): boolean {
  const { phase, ask } = state;
  // It waits for its copies, and they are made beside steps.
  if (phase.name !== 'holding' || phase.awaits !== 'newcomer' || phase.inForce.filling !== null) return false;
  return successorOf(state) !== null || (ask?.purpose === 'arrival' && ask.answer === null);
}

/** Of what the commit asked for, a part may have gone with its primary: then those who have it now are asked. */
function save(transition: Transition, inForce: PlanInForce) {
  if (transition.state.isSavedFirst === 'elsewhere') return awaitGroups(transition, inForce);
  const pending = pendingNow(transition);
  if (pending === undefined) askForCheckpoint(transition, inForce);
  if (pending?.isOwnWhole) return awaitGroups(transition, inForce);
  change(transition, { phase: { name: 'saving', ...uploadsAwaited(transition, inForce) } });
}

/** Of all who have a part in it. */
export function askForCheckpoint(transition: Transition, inForce: PlanInForce) {
  const asked = expectCheckpoint(transition, inForce);
  const { committedSteps: step } = transition.state;
  send(transition, membersOf(inForce), { type: 'save', epoch: inForce.epoch, step, ...asked });
}

function awaitCheckpoint(transition: Transition, inForce: PlanInForce) {
  const { phase } = transition.state;
  if (phase.name !== 'holding' || phase.awaits !== 'checkpoint')
    change(transition, { phase: { name: 'holding', awaits: 'checkpoint', ...uploadsAwaited(transition, inForce) } });
}

const uploadsAwaited = ({ state, now }: Transition, inForce: PlanInForce) => ({
  ...watchedFrom(inForce, now),
  deadline: now + allowedFor('upload', state.seen),
});

/**
 * This commit asks for its checkpoint: it is due or overdue and none is on its way, the last one, or the run should stand after
 * it. With islands only a meeting leaves what a checkpoint can hold, which is no commit's where there are several groups.
 */
export function checkpointDue(transition: Transition): boolean {
  const { state } = transition;
  const committed = state.committedSteps + 1;
  const stop = interruption(state);
  // First a copy is there again that what is uploaded can be held against.
  if (isCopiedAnew(state) || state.config.own !== undefined || !isMeeting(state.config.train, committed)) return false;
  if (committed >= state.config.steps || (stop !== null && stop.successor === null)) return true;
  if (isCheckpointOnItsWay(transition)) return false;
  const { checkpointEverySteps: every } = state.config;
  return committed % every === 0 || committed - state.newestCheckpointStep > every;
}
