/**
 * Audits of a run: drawn at a commit, from chance that came with the last report and so after all members had committed to
 * what they sent and got; checked by the shell, from evidence that donors upload beside the training; and whoever is shown to
 * have computed something else is convicted, and undone. Rules AU in SPEC.md.
 */
import { assertNever, type PeerId, seededRandom, totalOf } from '../base.ts';
import type { ServerMessage } from '../messages/messages.ts';
import { acceptedModel } from '../model/acceptedModel.ts';
import {
  type AuditedWork,
  committedBy,
  committedPassages,
  type EvidencePiece,
  evidenceBytes,
  evidenceOf,
  isSeenByOthers,
  isWithinReach,
} from '../ways/evidence.ts';
import type { Passage } from '../ways/passage.ts';
import {
  type Audits,
  counted,
  drawn,
  firstUndone,
  isAudited,
  type PendingAudit,
  stillGoing,
  withConfirmed,
  withItems,
} from './audits.ts';
import { dismiss } from './blame.ts';
import { allowedFor, longestUploadMs } from './deadlines.ts';
import type { CoordinatorEvent } from './events.ts';
import { boundary, considerInterruption, lose, planOn } from './planInForce.ts';
import type { CoordinatorState, Training } from './state.ts';
import { countedOf, turnOf } from './stepsAhead.ts';
import { change, donorOf, log, refuse, type Transition } from './transition.ts';

/** Of the bytes that steps have moved, so much at most is evidence, where nobody said how much is to be audited. */
const EVIDENCE_SHARE = 0.1;
/** What waits for the one processor that checks it. */
const MOST_PENDING = 64;
const MOST_PENDING_BYTES = 2 ** 29;
/** An epoch is one group's, and none comes again: so no two audits under way have the same number, in 32 bits. */
const AUDITS_OF_EPOCH = 2 ** 12;
const NUMBERS = 2 ** 32;
/** Where all evidence is in: a check that takes longer is waited for no more. */
const CHECK_MS = 600_000;

type Evidence = NonNullable<Extract<ServerMessage, { type: 'committed' }>['evidence']>;

const sizeOf = ({ config }: CoordinatorState) => ({ sequence: config.batch.sequence, wire: config.wire });

/** As a step is committed: who uploads what it has of which audits. */
export function drawAudits(transition: Transition, phase: Training, movedBytes: number): ReadonlyMap<PeerId, Evidence> {
  const { config, audits: before } = transition.state;
  const { step, inForce } = phase;
  const { plan } = inForce;
  const asked = new Map<PeerId, Evidence>();
  if (before === undefined || config.audit === undefined || !isAudited(config, plan)) return asked;
  const { share } = config.audit;
  const seed = phase.reports.at(-1)?.chance;
  const work = seed === undefined ? [] : drawn(before, plan, share, step, seededRandom(seed));
  change(transition, {
    audits: withItems({ ...before, movedBytes: before.movedBytes + movedBytes }, plan, step, share),
  });
  for (const [place, one] of work.entries()) {
    const audit = ask(transition, phase, one);
    if (audit === 'notReached' || audit === 'void') {
      // Where there is no room those behind it are not reached either: they stand in an order of chance.
      const by = audit === 'void' ? 1 : work.length - place;
      change(transition, { audits: counted(transition.state.audits ?? before, audit, by) });
      if (audit === 'void') continue;
      break;
    }
    for (const peer of audit.waitingFor) {
      const { stage, peer: audited } = one;
      asked.set(peer, [...(asked.get(peer) ?? []), { audit: audit.audit, stage, peer: audited }]);
    }
  }
  return asked;
}

function ask(transition: Transition, phase: Training, work: AuditedWork): PendingAudit | 'notReached' | 'void' {
  const { state, now } = transition;
  const { config, audits, seen } = state;
  const { inForce, step, reports } = phase;
  const { plan, epoch } = inForce;
  if (audits === undefined || !hasRoom(state, audits, 0)) return 'notReached';
  const model = acceptedModel(config);
  if (!isWithinReach(model, plan, config.batch.sequence, work)) return 'notReached';
  const pieces = evidenceOf(model, plan, sizeOf(state), work);
  const sizeBytes = evidenceBytes(pieces);
  if (!hasRoom(state, audits, sizeBytes)) return 'notReached';
  const digests = isSeenByOthers(plan, work) ? agreedDigests(state, phase, pieces) : null;
  if (digests === null) return 'void';
  const waitingFor = [...new Set(pieces.map(({ from }) => from))];
  const deadline = now + allowedFor('upload', seen) + longestUploadMs(sizeBytes);
  const audit = (AUDITS_OF_EPOCH * epoch + (audits.drawn % AUDITS_OF_EPOCH)) % NUMBERS;
  const pending: PendingAudit = { audit, step, ...work, sizeBytes, waitingFor, deadline };
  change(transition, {
    audits: {
      ...audits,
      drawn: audits.drawn + 1,
      pending: [...audits.pending, pending],
      evidenceBytes: audits.evidenceBytes + sizeBytes,
    },
  });
  const losses = reports.find(({ peer }) => peer === work.peer)?.report.losses ?? [];
  transition.effects.push({
    ...{ type: 'audit', audit, epoch, step, ...work, digests, losses },
    ...{ isMeasured: donorOf(transition, work.peer)?.adapter.software === true, counted: countedOf(state, step) },
    number: turnOf(state, step).number,
  });
  return pending;
}

function hasRoom(
  { config }: CoordinatorState,
  { pending, movedBytes, evidenceBytes: asked }: Audits,
  sizeBytes: number,
) {
  const waiting = totalOf(pending, (one) => one.sizeBytes);
  const part = partOfRun(config);
  if (pending.length >= part * MOST_PENDING || waiting + sizeBytes > part * MOST_PENDING_BYTES) return false;
  return config.audit?.isBounded !== true || asked + sizeBytes <= EVIDENCE_SHARE * movedBytes;
}

/** Of the islands, where there are several groups: all audits are done by one server. */
const partOfRun = ({ own, train: { islands } }: CoordinatorState['config']): number =>
  own === undefined || islands === undefined || islands.count === 'auto' ? 1 : own.length / islands.count;

/** Of each piece the digest that both ends said; null: nobody else saw it. Null: two ends differ, or one did not say. */
function agreedDigests(
  state: CoordinatorState,
  { inForce, reports }: Training,
  pieces: readonly EvidencePiece[],
): (string | null)[] | null {
  const passages = committedPassages(acceptedModel(state.config), inForce.plan, sizeOf(state));
  const words = new Map<PeerId, ReadonlyMap<Passage, string | undefined>>();
  const wordsOf = (peer: PeerId): ReadonlyMap<Passage, string | undefined> => {
    const said = reports.find((one) => one.peer === peer)?.report.committed;
    const known = words.get(peer) ?? new Map(committedBy(passages, peer).map((one, place) => [one, said?.[place]]));
    words.set(peer, known);
    return known;
  };
  const found: (string | null)[] = [];
  for (const { from, tensor } of pieces) {
    const sent = passages.filter((one) => one.from === from && isSame(one.tensor, tensor));
    const said = new Set(sent.flatMap((one) => [wordsOf(from).get(one), wordsOf(one.to).get(one)]));
    const [digest = null] = said;
    if (said.size > 1 || (sent.length > 0 && digest === null)) return null;
    found.push(digest);
  }
  return found;
}

const isSame = (one: EvidencePiece['tensor'], { kind, stage, index, range }: EvidencePiece['tensor']): boolean =>
  one.kind === kind && one.stage === stage && one.index === index && one.range.join() === range.join();

/** All that a donor owes of an audit has come. */
export function evidenceIn(
  transition: Transition,
  { audit, peer }: Extract<CoordinatorEvent, { type: 'evidenceIn' }>,
): void {
  const { audits } = transition.state;
  if (audits === undefined) return;
  const pending = audits.pending.map((one) => {
    const waitingFor = one.waitingFor.filter((other) => one.audit !== audit || other !== peer);
    const isWhole = one.audit === audit && waitingFor.length === 0;
    return { ...one, waitingFor, deadline: isWhole ? transition.now + CHECK_MS : one.deadline };
  });
  change(transition, { audits: { ...audits, pending } });
}

export function audited(transition: Transition, { audit, found }: Extract<CoordinatorEvent, { type: 'audited' }>) {
  const { audits } = transition.state;
  const over = audits?.pending.find((one) => one.audit === audit);
  if (audits === undefined || over === undefined) return;
  const after = { ...audits, pending: audits.pending.filter((one) => one !== over) };
  switch (found.result) {
    case 'agrees':
      return change(transition, { audits: counted(withConfirmed(after, over), 'agreed') });
    case 'void':
      log(
        transition,
        'info',
        `What ${over.peer} did in step ${over.step + 1} could not be done again: ${found.reason}.`,
      );
      return change(transition, { audits: counted(after, 'void') });
    case 'broken': {
      change(transition, { audits: counted(after, 'void') });
      const reason = `${found.peer} sent other evidence than it had committed to`;
      dismiss(transition, [found.peer], reason, 'faulty');
      return lose(transition, found.peer, reason);
    }
    case 'differs':
      change(transition, { audits: after });
      return convict(transition, over, found);
    default:
      return assertNever(found);
  }
}

type Difference = Extract<Extract<CoordinatorEvent, { type: 'audited' }>['found'], { result: 'differs' }>;

/** It is out, and what it did is undone: the shell goes back to a checkpoint that has none of it. */
function convict(transition: Transition, over: PendingAudit, { microBatch, direction, evidence }: Difference): void {
  const { audits, config, committedSteps: atStep } = transition.state;
  if (audits === undefined || config.audit === undefined) return;
  const { peer, step, stage } = over;
  const { share } = config.audit;
  const open = audits.pending.filter((one) => one.peer === peer);
  // What is wrong may be in an older step, of which evidence is on its way.
  const firstStep = Math.min(...[over, ...open].map((one) => firstUndone(audits, one, share)));
  const goesBack = audits.pending.filter((one) => one.peer === peer || one.step >= firstStep);
  change(transition, {
    audits: {
      ...counted(counted(audits, 'convicted'), 'undone', goesBack.length),
      pending: audits.pending.filter((one) => !goesBack.includes(one)),
      records: audits.records.filter((one) => one.peer !== peer),
      waryFrom: firstStep,
    },
  });
  const item = { step, stage, microBatch, direction };
  transition.effects.push({ type: 'convicted', peer, atStep, item, firstStep, evidence });
  const reason = `${peer} computed something else than it should have: ${evidence}`;
  if (!donorOf(transition, peer)) return;
  refuse(transition, peer, 'convicted', evidence, true);
  lose(transition, peer, reason);
}

/** Evidence that did not come in time, or a check that does not end. */
export function lateAudits(transition: Transition): void {
  const { audits } = transition.state;
  const late = audits?.pending.filter(({ deadline }) => deadline <= transition.now) ?? [];
  if (audits === undefined || late.length === 0) return;
  const pending = audits.pending.filter((one) => !late.includes(one));
  change(transition, { audits: counted({ ...audits, pending }, 'notReached', late.length) });
  const owing = [...new Set(late.flatMap(({ waitingFor }) => waitingFor))].filter((peer) => donorOf(transition, peer));
  if (owing.length === 0) return;
  const reason = `${owing.join(', ')} did not upload the evidence of an audit in time`;
  dismiss(transition, owing, reason);
  planOn(transition, reason);
}

/** After each event: what can come to nothing any more is over, and where the run waited for the last one, it goes on. */
export function settleAudits(transition: Transition): void {
  const { audits, committedSteps, phase } = transition.state;
  if (audits === undefined) return;
  const here = (peer: PeerId): boolean => donorOf(transition, peer) !== undefined;
  const after = stillGoing(audits, committedSteps, here);
  if (after !== audits) change(transition, { audits: after });
  if (after.pending.length > 0) return;
  if (phase.name === 'holding' && phase.awaits === 'audits') boundary(transition);
  else if (phase.name === 'waiting' && phase.lack.of === 'audits') considerInterruption(transition);
}
