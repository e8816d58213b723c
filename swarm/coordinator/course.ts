/**
 * The course of a run: which plan is in force, what happens at a step boundary, and how a step is given up. Its one
 * idea: there are three ways to a new epoch and no fourth. `planAnew` starts from the newest checkpoint with whoever is
 * there; `handOver` changes the plan at a boundary, the state going from peer to peer, and is only open while all who
 * have it live; `tryAgain` keeps plan and state, and is only open while every member of the plan lives.
 */
import type { PeerId } from '../base.ts';
import { stepLedger } from '../plan/ledger.ts';
import { type Plan, peers } from '../plan/plan.ts';
import { awaitedCheckpoint, pendingNow, rollBack, uploadsMissing } from './checkpoint.ts';
import {
  type CoordinatorState,
  type Course,
  courseOf,
  evaluationDue,
  isDone,
  isPlanningAnew,
  type Lack,
  membersOf,
  type Preparing,
  type Source,
  unsavedLimit,
} from './state.ts';
import { givingState, interruption, keepersLive, membersInvolved, offerOf, planAtHand } from './successor.ts';
import { dutiesOf } from './tally.ts';
import { change, changeDonor, forget, log, send, sendAbandon, type Turn } from './turn.ts';

const PREPARE_MS = 120_000;
const UPLOAD_MS = 120_000;
/** Kernels and buffers warm up. */
const FIRST_STEP_MS = 60_000;
const SHORTEST_STEP_MS = 10_000;
const SLOWEST_STEPS = 4;
const EVALUATION_MS = 60_000;

/** After anything that may interrupt: where nothing would be lost, it does so now; else at the next boundary. */
export function considerInterruption(turn: Turn) {
  const { phase, newestCheckpointStep, committedSteps } = turn.state;
  if (phase.name === 'waiting') return planAnew(turn, 'donors are there');
  if (phase.name === 'planning' && isPlanningAnew(turn.state)) return planAnew(turn, phase.reason);
  if (phase.name === 'holding') return boundary(turn);
  if (phase.name !== 'preparing' || phase.source.from === 'peers' || newestCheckpointStep !== committedSteps) return;
  const stop = interruption(turn.state);
  if (stop !== null) planAnew(turn, stop.reason);
}

/** A donor that this turn forgot: whatever its plan had in progress cannot be completed. */
export function lose(turn: Turn, peer: PeerId, reason: string) {
  if (!membersInvolved(turn.state).includes(peer)) return considerInterruption(turn);
  const pending = turn.state.phase.name === 'saving' ? pendingNow(turn) : undefined;
  // Its shards are there already: nothing is lost, and the plan ends at this boundary anyway.
  if (pending !== undefined && !uploadsMissing(pending).includes(peer)) return;
  planOn(turn, reason);
}

/** The epoch in progress cannot go on. A hand-over begins again where all who have the state still live. */
export function planOn(turn: Turn, reason: string) {
  const before = givingState(turn.state);
  if (before === null || turn.state.operator !== 'run' || !keepersLive(turn.state, before))
    return planAnew(turn, reason);
  end(turn, reason);
  waitForPlan(turn, before, reason);
}

function waitForPlan(turn: Turn, before: Course | null, reason: string) {
  change(turn, { phase: { name: 'planning', before, reason } });
  proceed(turn);
}

/** Where a plan is waited for and it is there, it begins. */
export function proceed(turn: Turn) {
  const { phase, newestCheckpointStep } = turn.state;
  const found = planAtHand(turn.state);
  if (phase.name !== 'planning' || found === null) return;
  const { before, reason } = phase;
  const plan = found.answer === 'plan' ? found.plan : null;
  // Without another plan those who have the state go on with their own, and save it first where one of them wants to go.
  if (before !== null) return begin(turn, plan ?? before.plan, { from: 'peers', course: before }, reason);
  if (found.answer === 'none') return wait(turn, { of: 'plan', reason: found.reason });
  begin(turn, found.plan, { from: 'checkpoint', step: newestCheckpointStep }, reason);
  sendSpare(turn, new Set(peers(found.plan)));
}

/** At a boundary: the members of `before` give the state to those of the new plan. */
function handOver(turn: Turn, before: Course, plan: Plan, reason: string) {
  end(turn, reason);
  begin(turn, plan, { from: 'peers', course: before }, reason);
}

/** What was begun under the epoch in progress ends; a step that is whole is completed by those who did it. */
function end(turn: Turn, reason: string) {
  const { phase, attempts } = turn.state;
  change(turn, { attempts: { ...attempts, faults: 0, stalls: 0 } });
  if (!('course' in phase)) return;
  // A training course at its boundary has no step in progress: its members finish what was committed, then hand over.
  const isBetween = phase.name === 'holding' || (phase.name === 'training' && phase.step < turn.state.committedSteps);
  if (isBetween) return;
  sendAbandon(turn, membersInvolved(turn.state), phase.course.epoch, reason);
}

/** The plan in force, if any, ends here; what is not in the newest checkpoint is lost. Then whatever should come next. */
export function planAnew(turn: Turn, reason: string) {
  const { phase } = turn.state;
  const course = courseOf(turn.state);
  if (course !== null) {
    sendAbandon(turn, membersInvolved(turn.state), course.epoch, reason);
  }
  change(turn, { attempts: { ...turn.state.attempts, faults: 0, stalls: 0 } });
  rollBack(turn, phase.name === 'waiting' ? 'the server started again from its store' : reason);
  release(turn, new Set());
  const { state } = turn;
  if (isDone(state)) return finish(turn);
  if (state.operator === 'stop') return stopNow(turn);
  if (state.operator === 'pause') return change(turn, { phase: { name: 'paused' }, proposal: null });
  if (state.gathering === 'open') {
    const { donors, config } = state;
    if (donors.length < (config.expectedDonors ?? 0))
      return wait(turn, { of: 'donors', here: donors.length, expected: config.expectedDonors ?? 0 });
    change(turn, { gathering: 'whole' });
  }
  if (offerOf(turn.state).length === 0) return wait(turn, { of: 'donor' });
  waitForPlan(turn, null, reason);
}

/** Who is told so drops what it holds: nobody is whom the epoch in progress still needs. */
export function sendSpare(turn: Turn, needed: ReadonlySet<PeerId>) {
  const { donors, config } = turn.state;
  const members = courseOf(turn.state)?.duties.length ?? 0;
  const why = members >= config.capacity ? 'full' : 'noGain';
  const spare = donors.flatMap(({ peer, wish }) => (wish === 'compute' && !needed.has(peer) ? peer : []));
  send(turn, spare, { type: 'standby', state: 'spare', why });
}

/** Everyone of the new plan has what it needs: who handed over and has no place in it is let go. */
export function arrived(turn: Turn) {
  const { phase } = turn.state;
  if (phase.name !== 'preparing') return;
  if (phase.source.from === 'peers') {
    const members = new Set(membersOf(phase.course));
    release(turn, members);
    sendSpare(turn, members);
  }
  boundary(turn);
}

/** Those who asked to go are free now, but for `needed`: their shards are with others, saved, or lost for everyone. */
function release(turn: Turn, needed: ReadonlySet<PeerId>) {
  for (const { peer, wish } of turn.state.donors) {
    if (needed.has(peer)) continue;
    if (wish === 'pausing') {
      changeDonor(turn, peer, { wish: 'paused' });
      send(turn, [peer], { type: 'standby', state: 'paused' });
    } else if (wish === 'leaving') {
      send(turn, [peer], { type: 'standby', state: 'left' });
      forget(turn, peer);
    }
  }
}

function wait(turn: Turn, lack: Lack) {
  change(turn, { phase: { name: 'waiting', lack }, proposal: null });
}

export function stopNow(turn: Turn) {
  change(turn, { phase: { name: 'stopped' } });
  turn.effects.push({ type: 'stopped' });
}

export function finish(turn: Turn) {
  change(turn, { phase: { name: 'finished' } });
  release(turn, new Set());
  const { donors, operator, committedSteps } = turn.state;
  log(turn, 'info', `The run is finished after ${committedSteps} steps.`);
  send(
    turn,
    donors.map(({ peer }) => peer),
    { type: 'standby', state: 'finished' },
  );
  turn.effects.push({ type: 'finished' });
  if (operator === 'stop') stopNow(turn);
}

function begin(turn: Turn, plan: Plan, source: Source, reason: string) {
  const { config } = turn.state;
  change(turn, { proposal: null });
  const course: Omit<Course, 'epoch'> = {
    plan,
    duties: dutiesOf(plan),
    slowestMs: null,
    ledger: stepLedger(plan, config.layers, config.batch.sequence),
  };
  prepare(turn, course, source, reason);
}

function prepare(turn: Turn, before: Omit<Course, 'epoch'>, source: Source, reason: string) {
  const epoch = turn.state.epoch + 1;
  change(turn, { epoch });
  const { generation, committedSteps: step } = turn.state;
  const course: Course = { ...before, epoch };
  const members = membersOf(course);
  const phase: Preparing = {
    name: 'preparing',
    course,
    source,
    waitingFor: members,
    deadline: turn.now + PREPARE_MS,
  };
  change(turn, { phase });
  turn.effects.push({ type: 'storeEpoch', epoch, generation, plan: course.plan, reason });
  const donors = members.length === 1 ? '1 donor' : `${members.length} donors`;
  log(turn, 'info', `Epoch ${epoch} with ${donors} from step ${step}: ${reason}.`);
  const told =
    source.from === 'peers' ? { from: source.from, epoch: source.course.epoch, plan: source.course.plan } : source;
  const message = { type: 'prepare', epoch, generation, step, source: told, plan: course.plan } as const;
  send(turn, membersInvolved(turn.state), message);
}

/** The same plan again under a new epoch. Every member must be alive. */
export function tryAgain(turn: Turn, reason: string) {
  const { phase, newestCheckpointStep, committedSteps } = turn.state;
  const course = courseOf(turn.state);
  const stop = interruption(turn.state);
  const handsOver = phase.name === 'preparing' && phase.source.from === 'peers';
  if (course === null || (stop !== null && !handsOver && newestCheckpointStep === committedSteps))
    return planAnew(turn, stop?.reason ?? reason);
  sendAbandon(turn, membersInvolved(turn.state), course.epoch, reason);
  prepare(turn, course, phase.name === 'preparing' ? phase.source : { from: 'kept' }, reason);
}

/** Everyone is ready and no step is in progress: what comes next? */
export function boundary(turn: Turn) {
  const { state } = turn;
  const course = courseOf(state);
  if (isDone(state)) return finish(turn);
  const stop = interruption(state);
  const saved = state.newestCheckpointStep === state.committedSteps;
  const saving = pendingNow(turn) !== undefined;
  if (course === null) return planAnew(turn, 'no plan is in force');
  // After the last step there is nothing to plan for, only to save.
  const successor = state.committedSteps < state.config.steps ? stop?.successor : null;
  if (stop !== null && successor) return handOver(turn, course, successor, stop.reason);
  if (stop !== null && saved) return planAnew(turn, stop.reason);
  if (stop !== null && saving) return save(turn, course);
  if ((state.held === 'everyStep' || isTakingIn(state)) && state.committedSteps < state.config.steps)
    return change(turn, { phase: { name: 'holding', course, awaits: 'newcomer' } });
  if (evaluationDue(state)) return evaluate(turn, course);
  if (state.held === 'lastStep' && state.committedSteps === state.config.steps - 1)
    return change(turn, { phase: { name: 'holding', course, awaits: 'newcomer' } });
  if (state.committedSteps < state.config.steps && awaitedCheckpoint(turn)) return awaitCheckpoint(turn, course);
  if (state.committedSteps < state.config.steps) return train(turn, course);
  if (saving) return save(turn, course);
  planAnew(turn, 'the last checkpoint was lost');
}

/** The newcomer that the next step waited for is here, and it is not known yet whether a plan will use it. */
const isTakingIn = ({ phase, ask }: CoordinatorState): boolean =>
  phase.name === 'holding' && phase.awaits === 'newcomer' && ask?.purpose === 'arrival' && ask.answer === null;

function save(turn: Turn, course: Course) {
  change(turn, { phase: { name: 'saving', course, deadline: turn.now + UPLOAD_MS } });
}

function awaitCheckpoint(turn: Turn, course: Course) {
  const { phase } = turn.state;
  const waitsAlready = phase.name === 'holding' && phase.awaits === 'checkpoint';
  const deadline = waitsAlready ? phase.deadline : turn.now + UPLOAD_MS;
  change(turn, { phase: { name: 'holding', course, awaits: 'checkpoint', deadline } });
}

/** Deadlines that everyone missed double the next one: then it was the deadline that was wrong. */
const patience = ({ state }: Turn): number => 2 ** state.attempts.stalls;

function evaluate(turn: Turn, course: Course) {
  const { config, committedSteps } = turn.state;
  const steps = Math.max(1, (config.evaluation?.windows ?? 0) / config.batch.samples);
  const allowed = Math.max(EVALUATION_MS, steps * SLOWEST_STEPS * (course.slowestMs ?? FIRST_STEP_MS / SLOWEST_STEPS));
  const deadline = turn.now + patience(turn) * allowed;
  change(turn, { phase: { name: 'evaluating', course, answers: [], deadline } });
  send(turn, membersOf(course), { type: 'evaluate', epoch: course.epoch, step: committedSteps });
}

function train(turn: Turn, course: Course) {
  const { slowestMs, epoch } = course;
  const allowed = slowestMs === null ? FIRST_STEP_MS : Math.max(SHORTEST_STEP_MS, SLOWEST_STEPS * slowestMs);
  const deadline = turn.now + patience(turn) * allowed;
  const { committedSteps: step, lossScale } = turn.state;
  change(turn, { phase: { name: 'training', course, step, reports: [], startedAt: turn.now, deadline } });
  send(turn, membersOf(course), {
    type: 'start',
    epoch,
    step,
    ...(lossScale ? { lossScale: lossScale.scale } : {}),
  });
}

/** This commit asks for its checkpoint: it is due, overdue, the last one, or the run should stand after it and nobody takes over. */
export function checkpointDue(turn: Turn): boolean {
  const { state } = turn;
  const committed = state.committedSteps + 1;
  const stop = interruption(state);
  if (committed >= state.config.steps || (stop !== null && stop.successor === null)) return true;
  if (committed - state.newestCheckpointStep > unsavedLimit(state.config)) return true;
  return committed % state.config.checkpointEverySteps === 0;
}
