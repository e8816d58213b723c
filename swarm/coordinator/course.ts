/**
 * The course of a run: which plan is in force, what happens at a step boundary, and how a step is given up. Its one
 * idea: there are two ways to a new epoch and no third. `planAnew` starts from the newest checkpoint with whoever is
 * there; `tryAgain` keeps plan and state, and is only open while every member of the plan lives.
 */
import type { PeerId, Result } from '../base.ts';
import { stepLedger } from '../ledger.ts';
import { type Plan, peers } from '../plan.ts';
import { mayAskForCheckpoint, pendingNow, rollBack, uploadsMissing } from './checkpoint.ts';
import { type CoordinatorState, type Course, courseOf, evaluationDue, isDone, type Preparing } from './state.ts';
import { dutiesOf } from './tally.ts';
import { change, changeDonor, forget, log, send, type Turn } from './turn.ts';

const PREPARE_MS = 120_000;
const UPLOAD_MS = 120_000;
/** Kernels and buffers warm up. */
const FIRST_STEP_MS = 60_000;
const SHORTEST_STEP_MS = 10_000;
const SLOWEST_STEPS = 4;
const EVALUATION_MS = 60_000;

/** A plan over as many of these peers as one can be made for, the first ones first; else why there is none. */
function bestPlan({ config }: CoordinatorState, offer: readonly PeerId[]): Result<Plan> {
  const largest = config.makePlan(offer);
  for (let count = offer.length - 1; count > 0 && !largest.ok; count--) {
    const smaller = config.makePlan(offer.slice(0, count));
    if (smaller.ok) return smaller;
  }
  return largest;
}

/** Those a plan may use, in the order they joined. */
const offerOf = ({ donors, config }: CoordinatorState): PeerId[] =>
  donors.flatMap(({ peer, wish }) => (wish === 'compute' ? peer : [])).slice(0, config.capacity);

/** Why the run should stand at the next boundary whose state is saved, or null. */
export function interruption(state: CoordinatorState): string | null {
  const course = courseOf(state);
  if (course === null) return null;
  if (state.operator !== 'run') return `the operator said ${state.operator}`;
  const wishes = new Map(state.donors.map(({ peer, wish }) => [peer, wish]));
  for (const peer of course.duties.keys()) {
    const wish = wishes.get(peer);
    if (wish === undefined) return `${peer} is gone`;
    if (wish !== 'compute') return `${peer} is ${wish}`;
  }
  const members = course.duties.size;
  if (members >= state.config.capacity || state.donors.length <= members) return null;
  const offer = offerOf(state);
  const newcomer = offer.find((peer) => !course.duties.has(peer));
  if (newcomer === undefined) return null;
  const plan = bestPlan(state, offer);
  return plan.ok && peers(plan.value).length > members ? `${newcomer} joins` : null;
}

/** After anything that may interrupt: where nothing would be lost, it does so now; else at the next boundary. */
export function considerInterruption(turn: Turn) {
  const { phase, newestCheckpointStep, committedSteps } = turn.state;
  if (phase.name === 'waiting') return planAnew(turn, 'donors are there');
  if (phase.name !== 'preparing' || newestCheckpointStep !== committedSteps) return;
  const reason = interruption(turn.state);
  if (reason !== null) planAnew(turn, reason);
}

/** A donor that this turn forgot: whatever its plan had in progress cannot be completed. */
export function lose(turn: Turn, peer: PeerId, reason: string) {
  const course = courseOf(turn.state);
  if (!course?.duties.has(peer)) return considerInterruption(turn);
  const pending = turn.state.phase.name === 'saving' ? pendingNow(turn) : undefined;
  // Its shards are there already: nothing is lost, and the plan ends at this boundary anyway.
  if (pending !== undefined && !uploadsMissing(pending).includes(peer)) return;
  planAnew(turn, reason);
}

/** The plan in force, if any, ends here; what is not in the newest checkpoint is lost. Then whatever should come next. */
export function planAnew(turn: Turn, reason: string) {
  const { phase } = turn.state;
  const course = courseOf(turn.state);
  if (course !== null) {
    send(turn, course.duties.keys(), { type: 'abandon', epoch: course.epoch, detail: reason });
  }
  change(turn, { attempts: { ...turn.state.attempts, faults: 0, stalls: 0 } });
  rollBack(turn, phase.name === 'waiting' ? 'the server started again from its store' : reason);
  release(turn);
  const { state } = turn;
  if (isDone(state)) return finish(turn);
  if (state.operator === 'stop') return stopNow(turn);
  if (state.operator === 'pause') return change(turn, { phase: { name: 'paused' } });
  const gathered = state.gathered || state.donors.length >= (state.config.expectedDonors ?? 0);
  change(turn, { gathered });
  if (!gathered) {
    return wait(turn, `Waiting for donors: ${state.donors.length} of ${state.config.expectedDonors} are here.`);
  }
  const offer = offerOf(state);
  if (offer.length === 0) return wait(turn, 'Waiting for a donor.');
  const plan = bestPlan(state, offer);
  if (!plan.ok) return wait(turn, `No plan for these donors: ${plan.reason}`);
  begin(turn, plan.value, reason);
  const planned = new Set(peers(plan.value));
  const spare = state.donors.flatMap(({ peer, wish }) => (wish === 'compute' && !planned.has(peer) ? peer : []));
  send(turn, spare, { type: 'standby', state: 'spare' });
}

/** Those who asked to go are free now: their shards are in the newest checkpoint, or lost for everyone. */
function release(turn: Turn) {
  for (const { peer, wish } of turn.state.donors) {
    if (wish === 'pausing') {
      changeDonor(turn, peer, { wish: 'paused' });
      send(turn, [peer], { type: 'standby', state: 'paused' });
    } else if (wish === 'leaving') {
      send(turn, [peer], { type: 'standby', state: 'left' });
      forget(turn, peer);
    }
  }
}

function wait(turn: Turn, sentence: string) {
  change(turn, { phase: { name: 'waiting', sentence } });
}

export function stopNow(turn: Turn) {
  change(turn, { phase: { name: 'stopped' } });
  turn.effects.push({ type: 'stopped' });
}

export function finish(turn: Turn) {
  change(turn, { phase: { name: 'finished' } });
  release(turn);
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

function begin(turn: Turn, plan: Plan, reason: string) {
  const { config, newestCheckpointStep } = turn.state;
  const course: Omit<Course, 'epoch'> = {
    plan,
    duties: dutiesOf(plan),
    slowestMs: null,
    ledger: stepLedger(plan, config.model.layers, config.batch.sequence),
  };
  prepare(turn, course, newestCheckpointStep, reason);
}

/** `checkpoint` null: the state is kept. */
function prepare(turn: Turn, before: Omit<Course, 'epoch'>, checkpoint: number | null, reason: string) {
  const epoch = turn.state.epoch + 1;
  change(turn, { epoch });
  const { generation, committedSteps: step } = turn.state;
  const course: Course = { ...before, epoch };
  const members = [...course.duties.keys()];
  const phase: Preparing = {
    name: 'preparing',
    course,
    checkpoint,
    waitingFor: members,
    deadline: turn.now + PREPARE_MS,
  };
  change(turn, { phase });
  turn.effects.push({ type: 'storeEpoch', epoch, generation, plan: course.plan, reason });
  log(turn, 'info', `Epoch ${epoch} with ${members.length} donors from step ${step}: ${reason}.`);
  send(turn, members, { type: 'prepare', epoch, generation, step, checkpoint, plan: course.plan });
}

/** The same plan again under a new epoch. Every member must be alive. */
export function tryAgain(turn: Turn, reason: string) {
  const { phase, newestCheckpointStep, committedSteps } = turn.state;
  const course = courseOf(turn.state);
  const stop = interruption(turn.state);
  if (course === null || (stop !== null && newestCheckpointStep === committedSteps))
    return planAnew(turn, stop ?? reason);
  send(turn, course.duties.keys(), { type: 'abandon', epoch: course.epoch, detail: reason });
  prepare(turn, course, phase.name === 'preparing' ? phase.checkpoint : null, reason);
}

/** Everyone is ready and no step is in progress: what comes next? */
export function boundary(turn: Turn) {
  const { state } = turn;
  const course = courseOf(state);
  if (isDone(state)) return finish(turn);
  const stop = interruption(state);
  const saved = state.newestCheckpointStep === state.committedSteps;
  const saving = pendingNow(turn) !== undefined;
  if (course === null || (stop !== null && saved)) return planAnew(turn, stop ?? 'no plan is in force');
  if (stop !== null && saving) return save(turn, course);
  if (evaluationDue(state)) return evaluate(turn, course);
  if (state.committedSteps < state.config.steps) return train(turn, course);
  if (saving) return save(turn, course);
  planAnew(turn, 'the last checkpoint was lost');
}

function save(turn: Turn, course: Course) {
  change(turn, { phase: { name: 'saving', course, deadline: turn.now + UPLOAD_MS } });
}

/** Deadlines that everyone missed double the next one: then it was the deadline that was wrong. */
const patience = ({ state }: Turn): number => 2 ** state.attempts.stalls;

function evaluate(turn: Turn, course: Course) {
  const { config, committedSteps } = turn.state;
  const steps = Math.max(1, (config.evaluation?.windows ?? 0) / config.batch.samples);
  const allowed = Math.max(EVALUATION_MS, steps * SLOWEST_STEPS * (course.slowestMs ?? FIRST_STEP_MS / SLOWEST_STEPS));
  const deadline = turn.now + patience(turn) * allowed;
  change(turn, { phase: { name: 'evaluating', course, answers: new Map(), deadline } });
  send(turn, course.duties.keys(), { type: 'evaluate', epoch: course.epoch, step: committedSteps });
}

function train(turn: Turn, course: Course) {
  const { slowestMs, epoch } = course;
  const allowed = slowestMs === null ? FIRST_STEP_MS : Math.max(SHORTEST_STEP_MS, SLOWEST_STEPS * slowestMs);
  const deadline = turn.now + patience(turn) * allowed;
  const step = turn.state.committedSteps;
  change(turn, { phase: { name: 'training', course, step, reports: new Map(), startedAt: turn.now, deadline } });
  send(turn, course.duties.keys(), { type: 'start', epoch, step });
}

/** This commit asks for its checkpoint: it is due, the last one, or the run should stand after it. */
export function checkpointDue(turn: Turn): boolean {
  const { state } = turn;
  const committed = state.committedSteps + 1;
  if (committed >= state.config.steps || interruption(state) !== null) return true;
  return committed % state.config.checkpointEverySteps === 0 && mayAskForCheckpoint(turn);
}
