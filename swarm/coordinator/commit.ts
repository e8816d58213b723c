/**
 * The end of a step: every report is in and the step is committed, or it cannot be and is given up. A commit is stored
 * before anyone hears of it; the start of the next step follows in the same breath, so that a step costs one round trip.
 */
import { assertNever, type PeerId } from '../base.ts';
import { stepLedger } from '../plan/ledger.ts';
import { keepersOf } from '../plan/plan.ts';
import { afterCommit, afterOverflow } from '../precision.ts';
import { budgetRate, learningRate } from '../run/learningRate.ts';
import { drawAudits } from './auditing.ts';
import { dismiss, relay, rememberedTimes, throwOut, verdictOf } from './blame.ts';
import { endedBy, shareOf } from './budget.ts';
import { expectCheckpoint } from './checkpoint.ts';
import { allowedMs, DEADLINES, LOOK_AGAIN_MS, lookWithinMs, paceAfter } from './deadlines.ts';
import { filledAfter } from './filling.ts';
import { boundary, checkpointDue, planOn, tryAgain } from './planInForce.ts';
import { lackingAfter, leftBehind, staleOf, withStale } from './replicas.ts';
import { type Evaluating, keeperKey, membersOf, shardKey, type Training } from './state.ts';
import { countedIn, countedOf, tokensOf, tookIn, turnOf } from './stepsAhead.ts';
import { offerOf } from './successor.ts';
import { clipScale, reportersOf, type Tally, tally } from './tally.ts';
import { change, donorOf, forgive, log, send, sendAbandon, type Transition } from './transition.ts';
import type { Doubt } from './trouble.ts';
import { areSquaresSettled, settleDisputes } from './unequal.ts';
import { rest } from './warmUp.ts';

/** Steps of which the pages show the mean speed. */
const NEWEST_STEPS = 10;

/** After each report: commits the step where it is whole. */
export function considerCommit(transition: Transition, phase: Training) {
  const { lossScale } = transition.state;
  const targets = countedOf(transition.state, phase.step);
  const reports = new Map(phase.reports.map(({ peer, report }) => [peer, report]));
  const result = tally(phase.inForce, reports, targets, lossScale?.scale);
  switch (result.outcome) {
    case 'open':
      return hurry(transition, phase);
    case 'whole':
      if (!areSquaresSettled(transition, phase, result.differing)) return;
      settleDoubt(transition, { of: 'step', step: phase.step });
      return commit(transition, phase, result);
    case 'notFinite':
      if (result.what === 'gradient norm' && halveLossScale(transition, phase.step)) return;
      return notFinite(transition, phase, result.what);
    case 'unequal': {
      if (settleDisputes(transition, phase)) return;
      const [first = '', ...others] = result.shards;
      const sentence = `The keepers of ${first}${others.length > 0 ? ' and others' : ''} did not get the same slices`;
      log(transition, 'warn', `${sentence}.`);
      return tryAgain(transition, sentence);
    }
    default:
      assertNever(result);
  }
}

/**
 * Those who report last have as long as the others took some times over, whatever the step was allowed at its start, and are
 * looked at once half of that is over; sooner where the server watches, so that it knows from then on what moves.
 */
function hurry(transition: Transition, phase: Training) {
  const owing = reportersOf(phase.inForce.duties);
  const missing = owing.filter((peer) => phase.reports.every((one) => one.peer !== peer));
  if (2 * missing.length > owing.length) return;
  const elapsedMs = transition.now - phase.startedAt;
  const isWhole = missing.length === 0;
  const allowed = allowedMs(isWhole ? DEADLINES.copies : DEADLINES.lastReports, elapsedMs);
  // What comes after that moves it no more.
  if (isWhole && phase.reportedMs !== null) return;
  const deadline = Math.min(phase.deadline, transition.now + allowed);
  const lookMs = phase.inForce.watched.length > 0 ? LOOK_AGAIN_MS : lookWithinMs(allowed);
  const lookAt = Math.min(phase.lookAt, transition.now + lookMs);
  const { halfReportedMs } = phase;
  const reported = { reportedMs: isWhole ? elapsedMs : null, halfReportedMs: halfReportedMs ?? elapsedMs };
  change(transition, { phase: { ...phase, deadline, lookAt, ...reported } });
}

/**
 * Only keepers of copies are late: the step is committed without them, they go, and others keep those copies. A commit
 * is never held up for long by who has no other part in it.
 */
export function withoutLateCopies(transition: Transition, phase: Training) {
  const reported = new Set(phase.reports.map(({ peer }) => peer));
  const late = phase.inForce.duties.filter(({ peer, replica }) => replica.length > 0 && !reported.has(peer));
  const lost = late.flatMap(({ peer, replica }) => replica.map((key) => keeperKey(peer, key)));
  const inForce = { ...phase.inForce, filling: null, lacking: withStale(phase.inForce.lacking, lost) };
  const after = { ...phase, inForce };
  change(transition, { phase: after });
  considerCommit(transition, after);
  const reason = `${late.map(({ peer }) => peer).join(', ')} did not report in time what it keeps`;
  dismiss(
    transition,
    late.map(({ peer }) => peer),
    reason,
  );
  planOn(transition, reason);
}

function commit(transition: Transition, phase: Training, sums: Extract<Tally, { outcome: 'whole' }>) {
  const { step, inForce, startedAt } = phase;
  const { config, donors, newestSteps, unsaved, lossScale } = transition.state;
  const { loss, gradientNorm, bytesDirect, bytesRelayed } = sums;
  const { plan, epoch } = inForce;
  const tokens = tokensOf(transition.state, step);
  const ledger = stepLedger(plan, config.layers, (samples) => countedIn(transition.state, step, samples));
  const tookMs = transition.now - startedAt;
  const seconds = tookMs / 1000;
  const { number, recorded } = turnOf(transition.state, step);
  const { share } = shareOf(transition.state, step);
  const rate = share === undefined ? learningRate(config.train, number) : budgetRate(config.train, share);
  change(transition, endedBy(transition.state, step, transition.now));
  const checkpoint = checkpointDue(transition);
  const scale = clipScale(gradientNorm, config.gradientClipNorm) / (lossScale?.scale ?? 1);
  const nextScale = lossScale && afterCommit(lossScale);
  const reports = new Map(phase.reports.map(({ peer, report }) => [peer, report]));
  const { lacking, late } = lackingAfter(inForce, step, reports);
  const after = {
    ...inForce,
    ...paceAfter(inForce, phase.reportedMs ?? tookMs),
    ...filledAfter({ ...inForce, lacking }, step, reports),
  };
  transition.effects.push({
    type: 'storeCommit',
    record: {
      ...{ step, loss, gradientNorm, learningRate: rate, tokens, seconds },
      ...{ donors: ledger.length, stages: plan.stages.length, microBatches: plan.microBatches.length, plan: epoch },
      ...{ bytesDirect, bytesRelayed, ...recorded, ...tookIn(transition.state, step) },
      ...shareOf(transition.state, step),
    },
    ledger,
    applied: { clipScale: scale, lossScale: nextScale, stale: staleOf(leftBehind(after.lacking)) },
  });
  const earned = new Map(ledger.map((entry) => [entry.peer, entry.tokens]));
  change(transition, {
    committedSteps: step + 1,
    lastCommit: { epoch, step, clipScale: scale, learningRate: rate },
    committedMs: transition.now,
    lossScale: nextScale,
    loss,
    donors: donors.map((donor) => ({ ...donor, tokens: donor.tokens + (earned.get(donor.peer) ?? 0) })),
    newestSteps: [...newestSteps, { tokens, seconds }].slice(-NEWEST_STEPS),
    unsaved: [...unsaved, { step, ledger }],
    phase: { ...phase, inForce: after },
  });
  forgive(transition);
  const asked = { checkpoint, ...(checkpoint && expectCheckpoint(transition, after)) };
  const message = { type: 'committed', epoch, step, clipScale: scale, learningRate: rate, ...asked } as const;
  const evidence = drawAudits(transition, phase, bytesDirect + bytesRelayed);
  for (const peer of membersOf(inForce)) {
    const own = evidence.get(peer);
    send(transition, [peer], own ? { ...message, evidence: own } : message);
  }
  if (settleDisputes(transition, phase) || dismissLate(transition, late)) return;
  boundary(transition);
}

/** Who was too late with its copies gets them anew, once; the second time they go to others. True: somebody was dismissed. */
function dismissLate(transition: Transition, keepers: readonly string[]): boolean {
  const { donors } = transition.state;
  const late = donors.flatMap(({ peer }) => (keepers.some((one) => one.startsWith(`${peer} `)) ? peer : []));
  const again = late.filter((peer) => rememberedTimes(transition, 'copies', peer) > 1);
  if (again.length === 0) return false;
  const reason = `${again.join(', ')} did not report in time what it keeps`;
  dismiss(transition, again, reason);
  planOn(transition, reason);
  return true;
}

/** Ordinary where gradients are scaled: the same step again at half the scale. False where there is nothing to halve. */
function halveLossScale(transition: Transition, step: number): boolean {
  const { lossScale } = transition.state;
  const smaller = lossScale && afterOverflow(lossScale);
  if (!smaller) return false;
  change(transition, { lossScale: smaller });
  const sentence = `Step ${step + 1} overflowed and is done again at a loss scale of ${smaller.scale}`;
  log(transition, 'info', `${sentence}.`);
  tryAgain(transition, sentence);
  return true;
}

/** Of what is whether a step or an evaluation. */
type Work = Pick<Doubt, 'of' | 'step'>;

const isOf = (doubt: Doubt | null, { of, step }: Work): doubt is Doubt => doubt?.of === of && doubt.step === step;

/**
 * An outcome that is finite stands, however unusual it is. Without whom it came out so rests, and no more: what others sent
 * it may have been the cause.
 */
export function settleDoubt(transition: Transition, work: Work) {
  const { doubt } = transition.state;
  if (!isOf(doubt, work)) return;
  change(transition, { doubt: null });
  const { suspect } = doubt;
  if (suspect === null || !donorOf(transition, suspect)) return;
  const sentence = `${nameOf(work)} is finite without ${suspect}`;
  log(transition, 'info', `${sentence}, which rests for ${rest(transition, suspect)}.`);
  send(transition, [suspect], { type: 'standby', state: 'spare', why: 'mustWait' });
}

const nameOf = ({ of, step }: Work): string =>
  of === 'step' ? `Step ${step + 1}` : `The evaluation after ${step} steps`;

/**
 * Done once more without one of its members that has not been left out yet: first who says that it made it, then whoever came
 * last. When all have been, or there are no others, the run stands.
 */
function doItWithout(transition: Transition, work: Work, makers: readonly PeerId[], sentence: string) {
  const { doubt, donors, gathering } = transition.state;
  const { phase } = transition.state;
  const before = isOf(doubt, work) ? doubt.tried : [];
  const members = 'inForce' in phase ? membersOf(phase.inForce) : [];
  const newest = donors.map(({ peer }) => peer).toReversed();
  const suspect = [...makers, ...newest].find((peer) => members.includes(peer) && !before.includes(peer));
  if (suspect === undefined || offerOf({ ...transition.state, doubt: null }).length < 2)
    return diverge(transition, sentence);
  const tried = [...before, suspect];
  change(transition, { doubt: { ...work, suspect, tried }, gathering: gathering === 'whole' ? 'over' : gathering });
  disown(transition, suspect);
  planOn(transition, `${sentence}; it is done without ${suspect}`);
}

/** What another one has, too, is asked of it no more. */
function disown(transition: Transition, peer: PeerId) {
  const { phase } = transition.state;
  if (phase.name !== 'training' && phase.name !== 'evaluating') return;
  const { inForce } = phase;
  const stale = staleOf(inForce.lacking);
  const copied = inForce.plan.state.flatMap(({ block, shards }) =>
    shards.flatMap((shard) => {
      const key = shardKey(block, shard.range);
      const isElsewhere = keepersOf(shard).some(
        (keeper) => keeper !== peer && donorOf(transition, keeper) && !stale.includes(keeperKey(keeper, key)),
      );
      return keepersOf(shard).includes(peer) && isElsewhere ? keeperKey(peer, key) : [];
    }),
  );
  change(transition, { phase: { ...phase, inForce: { ...inForce, lacking: withStale(inForce.lacking, copied) } } });
}

/**
 * Never committed: done once more, every member looking at what it gets and makes. Who is shown to lie then goes; else it is
 * done without each of them, one after another, and stands where it comes out so again. `which`: the number that is not finite.
 */
export function notFinite(transition: Transition, phase: Training | Evaluating, which: string) {
  const { committedSteps, relayed, sightings } = transition.state;
  const step = phase.name === 'training' ? phase.step : committedSteps;
  const work: Work = { of: phase.name === 'training' ? 'step' : 'evaluation', step };
  const sentence = `${nameOf(work)} was not committed: its ${which} is not a finite number`;
  if (!phase.inForce.isChecked) {
    log(transition, 'warn', `${sentence}.`);
    return tryAgain(transition, sentence, true);
  }
  const testimonies = testimoniesOf(phase);
  // Everyone is heard first.
  if (membersOf(phase.inForce).some((peer) => testimonies.every((one) => one.peer !== peer))) return;
  log(transition, 'warn', `${sentence}.`);
  const found = verdictOf(testimonies, relayed, sightings);
  switch (found.verdict) {
    case 'liar':
      return throwOut(transition, found.peer, found.why, `${found.peer} was refused: ${found.why}`, true);
    case 'open':
      relay(transition, found.pairs);
      return tryAgain(transition, sentence);
    case 'makers':
      return doItWithout(transition, work, found.peers, sentence);
    default:
      assertNever(found);
  }
}

const testimoniesOf = (phase: Training | Evaluating): Parameters<typeof verdictOf>[0] =>
  phase.name === 'training'
    ? phase.reports.map(({ peer, report: { losses, shards, unsound } }) => {
        const hasReportedIt =
          losses.some(({ lossSum }) => lossSum === null) ||
          shards.some(({ sumSquares }) => !Number.isFinite(Number(sumSquares)));
        return { peer, unsound, hasReportedIt };
      })
    : phase.answers.map(({ peer, evaluated: { losses, unsound } }) => ({
        ...{ peer, unsound, hasReportedIt: losses.some(({ lossSum }) => lossSum === null) },
      }));

function diverge(transition: Transition, sentence: string) {
  const { phase } = transition.state;
  if (!('inForce' in phase)) return;
  sendAbandon(transition, membersOf(phase.inForce), phase.inForce.epoch, sentence);
  const why = `${sentence}, whoever computes it. The run diverges, so it is paused`;
  const before = { ...phase.inForce, isChecked: false };
  change(transition, {
    doubt: null,
    phase: {
      name: 'diverged',
      sentence: `${why}. Resume does that step again.`,
      before,
    },
  });
  log(transition, 'warn', `${why}.`);
}
