/**
 * The end of a step: every report is in and the step is committed, or it cannot be and is given up. A commit is stored
 * before anyone hears of it; the start of the next step follows in the same breath, so that a step costs one round trip.
 */
import { assertNever, type PeerId } from '../base.ts';
import { afterCommit, afterOverflow } from '../precision.ts';
import { learningRate } from '../run/learningRate.ts';
import { expectCheckpoint } from './checkpoint.ts';
import { boundary, checkpointDue, planAnew, planOn, tryAgain } from './planInForce.ts';
import { membersOf, type Training } from './state.ts';
import { clipScale, type Tally, tally } from './tally.ts';
import {
  change,
  changeDonor,
  donorOf,
  forgive,
  log,
  refuse,
  send,
  sendAbandon,
  type Transition,
} from './transition.ts';

/** Faults in a row after which the peer they are about has to go. */
const FAULTS_LIMIT = 3;
/** Deadlines that everybody missed, one after the other, after which they all have to go. */
const STALLS_LIMIT = 3;
const NOT_FINITE_LIMIT = 2;
/** Steps of which the pages show the mean speed. */
const NEWEST_STEPS = 10;

/** After each report: commits the step where it is whole. */
export function considerCommit(transition: Transition, phase: Training) {
  const { config, lossScale } = transition.state;
  const { plan, duties } = phase.inForce;
  const targets = config.batch.samples * config.batch.sequence;
  const reports = new Map(phase.reports.map(({ peer, report }) => [peer, report]));
  const result = tally(plan, duties, reports, targets, lossScale?.scale);
  switch (result.outcome) {
    case 'open':
      return;
    case 'whole':
      return commit(transition, phase, result);
    case 'notFinite':
      if (result.what === 'gradient norm' && halveLossScale(transition, phase.step)) return;
      return notFinite(transition, `Step ${phase.step}`, `its ${result.what}`);
    case 'unequal':
      return faulty(transition, result.primary, `no replica of ${result.shard} received what its primary did`);
    default:
      assertNever(result);
  }
}

function commit(transition: Transition, phase: Training, sums: Extract<Tally, { outcome: 'whole' }>) {
  const { step, inForce, startedAt } = phase;
  const { config, donors, newestSteps, unsaved, lossScale } = transition.state;
  const { loss, gradientNorm, bytesDirect, bytesRelayed } = sums;
  const { plan, epoch, ledger } = inForce;
  const tokens = config.batch.samples * config.batch.sequence;
  const tookMs = transition.now - startedAt;
  const seconds = tookMs / 1000;
  const rate = learningRate(config.train, step);
  const checkpoint = checkpointDue(transition);
  transition.effects.push({
    type: 'storeCommit',
    record: {
      ...{ step, loss, gradientNorm, learningRate: rate, tokens, seconds },
      ...{ donors: ledger.length, stages: plan.stages.length, microBatches: plan.microBatches.length, plan: epoch },
      ...{ bytesDirect, bytesRelayed },
    },
    ledger,
  });
  const earned = new Map(ledger.map((entry) => [entry.peer, entry.tokens]));
  const after = { ...inForce, slowestMs: Math.max(inForce.slowestMs ?? 0, tookMs) };
  change(transition, {
    committedSteps: step + 1,
    loss,
    donors: donors.map((donor) => ({ ...donor, tokens: donor.tokens + (earned.get(donor.peer) ?? 0) })),
    newestSteps: [...newestSteps, { tokens, seconds }].slice(-NEWEST_STEPS),
    unsaved: [...unsaved, { step, ledger }],
    phase: { ...phase, inForce: after },
  });
  forgive(transition);
  if (lossScale) change(transition, { lossScale: afterCommit(lossScale) });
  if (checkpoint) expectCheckpoint(transition, after);
  const scale = clipScale(gradientNorm, config.gradientClipNorm) / (lossScale?.scale ?? 1);
  const message = { type: 'committed', epoch, step, clipScale: scale, learningRate: rate, checkpoint } as const;
  send(transition, membersOf(inForce), message);
  boundary(transition);
}

/** Ordinary where gradients are scaled: the same step again at half the scale. False where there is nothing to halve. */
function halveLossScale(transition: Transition, step: number): boolean {
  const { lossScale } = transition.state;
  const smaller = lossScale && afterOverflow(lossScale);
  if (!smaller) return false;
  change(transition, { lossScale: smaller });
  const sentence = `Step ${step} overflowed and is done again at a loss scale of ${smaller.scale}`;
  log(transition, 'info', `${sentence}.`);
  tryAgain(transition, sentence);
  return true;
}

/** Never committed: done once more; then the run stands until a person has looked. `what`: `Step 12`. */
export function notFinite(transition: Transition, what: string, detail: string) {
  const { attempts } = transition.state;
  const times = attempts.notFinite + 1;
  change(transition, { attempts: { ...attempts, notFinite: times } });
  const sentence = `${what} was not committed: ${detail} is not a finite number`;
  log(transition, 'warn', `${sentence}.`);
  if (times < NOT_FINITE_LIMIT) return tryAgain(transition, sentence);
  fail(transition, `${sentence}, ${times} times in a row. Resume tries it again from the newest checkpoint.`);
}

function fail(transition: Transition, sentence: string) {
  const { phase } = transition.state;
  if ('inForce' in phase) {
    sendAbandon(transition, membersOf(phase.inForce), phase.inForce.epoch, sentence);
  }
  change(transition, { phase: { name: 'failed', sentence } });
}

/** A member of the plan said, or showed, that this epoch cannot go on, but nobody's state is lost. `accuser`: another one said it. */
export function faulty(transition: Transition, culprit: PeerId, detail: string, accuser: PeerId | null = null) {
  const { attempts } = transition.state;
  const faults = attempts.faults + 1;
  change(transition, { attempts: { ...attempts, faults } });
  log(transition, 'warn', `Fault ${faults} in a row, about ${culprit}: ${detail}`);
  if (faults < FAULTS_LIMIT) return tryAgain(transition, detail);
  refuse(transition, culprit, 'faulty', detail);
  if (accuser !== null) changeDonor(transition, accuser, { hasBlamed: true });
  planOn(transition, `${culprit} failed ${faults} times in a row`);
}

/** The deadline of a step (or of an evaluation) passed: `owing` should have answered by now, `missing` of them did not. */
export function overdue(transition: Transition, owing: readonly PeerId[], missing: readonly PeerId[]) {
  const { attempts, donors } = transition.state;
  // One that has the run to itself is late by itself where others could have it.
  const others = donors.filter(({ peer, wish }) => wish === 'compute' && !owing.includes(peer));
  const isAlone = owing.length === 1 && others.length > 0;
  const everybody = missing.length === owing.length && !isAlone;
  const stalls = attempts.stalls + (everybody ? 1 : 0);
  // Where everybody is late, nobody is singled out: one slow machine stalls a whole pipeline.
  const late = everybody ? attempts.late : [...attempts.late.filter((peer) => !owing.includes(peer)), ...missing];
  const lost = missing.filter((peer) => stalls >= STALLS_LIMIT || (!everybody && attempts.late.includes(peer)));
  change(transition, { attempts: { ...attempts, late, stalls } });
  const reason = `${missing.join(', ')} did not answer in time`;
  log(transition, 'warn', `${reason}.`);
  dismiss(transition, lost, reason);
  return lost.length > 0 ? planAnew(transition, reason) : tryAgain(transition, reason);
}

/** For those who did not answer in time. */
export function dismiss(transition: Transition, lost: readonly PeerId[], reason: string) {
  for (const peer of lost) if (donorOf(transition, peer)) refuse(transition, peer, 'tooLate', reason);
}
