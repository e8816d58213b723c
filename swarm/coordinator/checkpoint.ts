/**
 * Checkpoints on their way: a commit asks for one, of each shard a keeper uploads it while training goes on (its primary, or
 * the replica that the plan names), and the one whose last shard came in is the newest from then on. A checkpoint is keyed by
 * (epoch, step), so an upload of an abandoned plan can never complete another one's.
 */
import { countIn, got, type PeerId, totalOf } from '../base.ts';
import type { PeerMessage } from '../messages/messages.ts';
import { keepersOf, type Plan, type Shard } from '../plan/plan.ts';
import { FLOAT_BYTES, savedKinds } from '../plan/stateKinds.ts';
import { uploaderOf, uploadsOf } from '../plan/uploader.ts';
import type { LossScale } from '../precision.ts';
import { undoableFrom } from './audits.ts';
import {
  contested,
  excusedIn,
  expectedCopies,
  isAwaited,
  judged,
  primariesAwaited,
  withCopies,
  withVerdict,
} from './copies.ts';
import { allowedFor, allowedMs, DEADLINES, longestUploadMs, withSeen } from './deadlines.ts';
import type { CoordinatorConfig, CoordinatorEvent } from './events.ts';
import { isIdle, withWork } from './progress.ts';
import {
  type CoordinatorState,
  type PendingCheckpoint,
  type PlanInForce,
  planInForce,
  shardKey,
  type Watched,
} from './state.ts';
import { unsavedLimit } from './stepsAhead.ts';
import { living } from './successor.ts';
import { change, donorOf, log, type Transition } from './transition.ts';

/** Older ones are given up: they lack a shard of a donor that has left. */
export const PENDING_CHECKPOINTS = 3;

type UploadedMessage = Extract<PeerMessage, { type: 'uploaded' }>;

/** Call after the commit: the checkpoint is that of `committedSteps`. Who is excused from uploading it, for whoever asks. */
export function expectCheckpoint(
  transition: Transition,
  inForce: PlanInForce,
): { readonly excused?: readonly PeerId[] } {
  const { epoch, plan } = inForce;
  const { committedSteps: step, lossScale, pending } = transition.state;
  const excused = excusedIn(inForce);
  const expected = {
    step,
    epoch,
    plan,
    lossScale,
    hashes: {},
    excused,
    copies: expectedCopies(inForce, excused),
    askedAt: transition.now,
    tookMs: null,
  };
  change(transition, { pending: [...pending, expected].slice(-PENDING_CHECKPOINTS) });
  return excused.length > 0 ? { excused } : {};
}

/** Without whom it does not count: who has a shard of it yet to send, or its word on what a replica uploads. */
export const uploadsMissing = (pending: PendingCheckpoint): PeerId[] => [
  ...new Set([
    ...pending.plan.state.flatMap(({ block, shards }) =>
      shards.flatMap((shard) =>
        Object.hasOwn(pending.hashes, shardKey(block, shard.range)) ? [] : uploaderOf(shard, pending.excused),
      ),
    ),
    ...primariesAwaited(pending),
  ]),
];

/**
 * Who sends nothing of its part, where at least half of the others' parts are in: whose state others have, who waits for
 * nobody and has done nothing for so long, and nothing of whose uploads comes.
 */
export function silentUploads({ state, now }: Transition, phase: Watched, pending: PendingCheckpoint): PeerId[] {
  const owing = uploadsMissing(pending);
  const { plan, excused } = pending;
  const asked = new Set(
    plan.state.flatMap(({ shards }) => shards.flatMap((shard) => [shard.peer, uploaderOf(shard, excused)])),
  );
  if (pending.tookMs === null || 2 * owing.length > asked.size) return [];
  const quiet = allowedMs(DEADLINES.lastUploads, pending.tookMs);
  const silent = owing.filter((peer) => isIdle(phase, peer, quiet, now));
  const donors = state.donors.filter(({ peer }) => !silent.includes(peer));
  return living({ ...state, donors }, phase.inForce) === null ? [] : silent;
}

/** The state after the last commit was asked for, and may become whole. */
export const pendingNow = (transition: Transition): PendingCheckpoint | undefined => {
  const { pending, committedSteps } = transition.state;
  return pending.find((checkpoint) => checkpoint.step === committedSteps && canBecomeWhole(transition, checkpoint));
};

/** Those who have it yet to send are still here. */
const canBecomeWhole = (transition: Transition, checkpoint: PendingCheckpoint): boolean =>
  uploadsMissing(checkpoint).every((peer) => donorOf(transition, peer));

/** A slow line carries one at a time. */
export const isCheckpointOnItsWay = (transition: Transition): boolean =>
  transition.state.pending.some((checkpoint) => canBecomeWhole(transition, checkpoint));

/**
 * As many steps are unsaved as may be, and this one can still become whole: the next step waits for it. Not that of one of
 * several groups, whose checkpoints are of meetings: there all wait together.
 */
export function awaitedCheckpoint(transition: Transition): PendingCheckpoint | undefined {
  const { config, committedSteps, newestCheckpointStep, pending } = transition.state;
  if (config.own !== undefined) return undefined;
  if (committedSteps - newestCheckpointStep < unsavedLimit(config)) return undefined;
  return pending.find((checkpoint) => !checkpoint.isOwnWhole && canBecomeWhole(transition, checkpoint));
}

/** Until when its uploads of a checkpoint may come on, whatever it sends. */
function latestUpload(
  { train, own: islands }: CoordinatorConfig,
  { plan, excused, askedAt }: PendingCheckpoint,
  peer: PeerId,
  allowed: number,
): number {
  const elements = totalOf(uploadsOf(plan, peer, excused), ({ range }) => countIn(range));
  return askedAt + allowed + longestUploadMs(elements * savedKinds(train.islands, islands).length * FLOAT_BYTES);
}

/** New pieces of a shard came in, fast enough: whoever waits for this checkpoint goes on waiting. */
export function uploading(transition: Transition, peer: PeerId): void {
  const { config, phase, pending, seen, committedSteps } = transition.state;
  const waits = phase.name === 'saving' || (phase.name === 'holding' && phase.awaits === 'checkpoint');
  if (!waits) return;
  const allowed = allowedFor('upload', seen);
  const latest = pending.flatMap((checkpoint) =>
    uploadsMissing(checkpoint).includes(peer) ? latestUpload(config, checkpoint, peer, allowed) : [],
  );
  const deadline = Math.max(phase.deadline, Math.min(transition.now + allowed, Math.max(...latest)));
  change(transition, { phase: { ...withWork(phase, peer, committedSteps - 1, transition.now), deadline } });
}

/** wrong: no checkpoint that was ever asked of this peer. old: it is not needed any more. */
type UploadOutcome = 'wrong' | 'old' | 'taken';

export function takeUpload(transition: Transition, peer: PeerId, message: UploadedMessage): UploadOutcome {
  const { state } = transition;
  const pending = state.pending.find(({ step, epoch }) => step === message.step && epoch === message.epoch);
  if (pending === undefined) {
    // After a roll-back fewer steps are committed than were when it was asked for.
    const mayBeAhead = message.epoch < state.epoch || planInForce(state) === null;
    const isAhead = message.step > state.committedSteps && !mayBeAhead;
    return message.epoch > state.epoch || isAhead ? 'wrong' : 'old';
  }
  const { plan, excused } = pending;
  const own = keysOf(plan, (shard) => uploaderOf(shard, excused) === peer);
  const kept = keysOf(plan, (shard) => keepersOf(shard).includes(peer) && uploaderOf(shard, excused) !== peer);
  const uploaded = message.shards.map(({ block, range, hash }) => [shardKey(block, range), hash] as const);
  const copies = message.copies ?? [];
  const isStray = uploaded.some(([key]) => !own.has(key));
  if (isStray || uploaded.length + copies.length === 0) return 'wrong';
  if (copies.some(({ block, range }) => !kept.has(shardKey(block, range)))) return 'wrong';
  // One time of each peer and checkpoint: it says what is usual.
  const isFirst = uploaded.length > 0 && ![...own].some((key) => Object.hasOwn(pending.hashes, key));
  if (isFirst) change(transition, { seen: withSeen(state.seen, 'upload', transition.now - pending.askedAt) });
  // A shard that came before stays as it was: its upload was answered.
  const hashes = new Map([...uploaded, ...Object.entries(pending.hashes)]);
  const tookMs = transition.now - pending.askedAt;
  const more = withCopies({ ...pending, hashes: Object.fromEntries(hashes), tookMs }, peer, copies);
  replace(transition, pending, judged(transition, more));
  return 'taken';
}

const keysOf = (plan: Plan, isIt: (shard: Shard) => boolean): Set<string> =>
  new Set(
    plan.state.flatMap(({ block, shards }) =>
      shards.flatMap((shard) => (isIt(shard) ? shardKey(block, shard.range) : [])),
    ),
  );

function replace(transition: Transition, before: PendingCheckpoint, after: PendingCheckpoint): void {
  change(transition, { pending: transition.state.pending.map((other) => (other === before ? after : other)) });
}

/** What was uploaded was held against a copy that is not the same bit for bit. */
export function copyCompared(transition: Transition, event: Extract<CoordinatorEvent, { type: 'copyCompared' }>): void {
  const { pending } = transition.state;
  const about = pending.find(({ step, epoch }) => step === event.step && epoch === event.epoch);
  if (about !== undefined) replace(transition, about, withVerdict(transition, about, event));
}

/** stored: it is the newest one now. contested: nobody knows whose state of a shard is right, and it does not count. */
type Settled = 'open' | 'stored' | 'contested';

/** The newest one of which every shard is there, and a copy of each agrees. `isWaived`: who is silent is not waited for. */
export function settleCheckpoint(transition: Transition, isWaived = false): [Settled, PendingCheckpoint | null] {
  const { pending } = transition.state;
  const whole = pending.findLast(
    (one) => !one.isOwnWhole && uploadsMissing(one).length === 0 && (isWaived || !isAwaited(transition, one)),
  );
  if (whole === undefined) return ['open', null];
  if (contested(whole).length > 0) {
    change(transition, { pending: pending.filter((other) => other !== whole) });
    log(
      transition,
      'warn',
      `Checkpoint ${whole.step} does not count: ${contested(whole)[0]} is not the same at its keepers.`,
    );
    return ['contested', whole];
  }
  store(transition, whole);
  return ['stored', whole];
}

/** With several groups this is one's part of it: what all have stands once every part is in. */
function store(transition: Transition, whole: PendingCheckpoint): void {
  const { step, lossScale, hashes, plan } = whole;
  const { state } = transition;
  const known = new Map(Object.entries(hashes));
  transition.effects.push({
    type: 'storeCheckpoint',
    step,
    generation: state.generation,
    shards: plan.state.flatMap(({ block, shards }) =>
      shards.map(({ range }) => ({ block, range, hash: got(known, shardKey(block, range)) })),
    ),
    lossScale,
    ...undoable([state]),
  });
  if (state.config.own !== undefined) {
    replace(transition, whole, { ...whole, isOwnWhole: true });
    return;
  }
  log(transition, 'info', `Checkpoint ${step} is stored.`);
  checkpointStored(transition, step, lossScale);
}

/** Of all groups. */
export function undoable(all: readonly CoordinatorState[]): { undoableFrom?: number } {
  const from = Math.min(
    ...all.map(({ audits, config }) => (audits && config.audit ? undoableFrom(audits, config.audit.share) : Infinity)),
  );
  return from < Infinity ? { undoableFrom: from } : {};
}

/** It is the newest one from now on. */
export function checkpointStored(transition: Transition, step: number, lossScale: LossScale | null): void {
  const { state } = transition;
  change(transition, {
    newestCheckpointStep: step,
    savedLossScale: lossScale,
    pending: state.pending.filter((other) => other.step > step),
    unsaved: state.unsaved.filter((other) => other.step >= step),
  });
}

/** Back to the newest checkpoint: what was committed since never happened. Uploads under way are forgotten. */
export function rollBack(transition: Transition, reason: string): void {
  const { state } = transition;
  change(transition, { pending: [] });
  const { newestCheckpointStep: toStep, committedSteps: atStep } = state;
  if (toStep >= atStep) return;
  const lost = new Map<PeerId, number>();
  for (const { ledger } of state.unsaved) {
    for (const { peer, tokens } of ledger) lost.set(peer, (lost.get(peer) ?? 0) + tokens);
  }
  const isEvaluated = (state.evaluatedSteps ?? 0) <= toStep;
  change(transition, {
    committedSteps: toStep,
    lastCommit: null,
    generation: state.generation + 1,
    lossScale: state.savedLossScale,
    loss: null,
    evaluatedSteps: state.evaluatedSteps === null ? null : Math.min(state.evaluatedSteps, toStep),
    ...(isEvaluated ? {} : { evaluationLoss: null }),
    donors: state.donors.map((donor) => ({ ...donor, tokens: donor.tokens - (lost.get(donor.peer) ?? 0) })),
    unsaved: [],
  });
  transition.effects.push({ type: 'rollBack', toStep, atStep, reason });
  log(transition, 'warn', `Back from step ${atStep} to step ${toStep}: ${reason}.`);
}
