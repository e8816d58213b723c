/**
 * Checkpoints on their way: a commit asks for one, the primaries upload their shards while training goes on, and the
 * one whose last shard came in is the newest from then on. A checkpoint is keyed by (epoch, step), so an upload of an
 * abandoned plan can never complete another one's.
 */
import { got, type PeerId } from '../base.ts';
import type { PeerMessage } from '../messages/messages.ts';
import { STATE_BYTES_PER_ELEMENT } from '../plan/handover.ts';
import { allowedFor, longestUploadMs, withSeen } from './deadlines.ts';
import type { StoredShard } from './events.ts';
import { type PendingCheckpoint, type PlanInForce, planInForce, shardKey, unsavedLimit } from './state.ts';
import { change, donorOf, log, type Transition } from './transition.ts';

/** Older ones are given up: they lack a shard of a donor that has left. */
export const PENDING_CHECKPOINTS = 3;

type UploadedMessage = Extract<PeerMessage, { type: 'uploaded' }>;

/** Call after the commit: the checkpoint is that of `committedSteps`. */
export function expectCheckpoint(transition: Transition, { epoch, plan }: PlanInForce): void {
  const { committedSteps: step, lossScale, pending } = transition.state;
  const expected = { step, epoch, plan, lossScale, hashes: {}, askedAt: transition.now };
  change(transition, { pending: [...pending, expected].slice(-PENDING_CHECKPOINTS) });
}

const shardsOf = ({ plan }: PendingCheckpoint): { key: string; peer: PeerId; shard: Omit<StoredShard, 'hash'> }[] =>
  plan.state.flatMap(({ block, shards }) =>
    shards.map(({ peer, range }) => ({ key: shardKey(block, range), peer, shard: { block, range } })),
  );

/** Primaries whose shards of it are not all in. */
export const uploadsMissing = (pending: PendingCheckpoint): PeerId[] => [
  ...new Set(shardsOf(pending).flatMap(({ key, peer }) => (Object.hasOwn(pending.hashes, key) ? [] : peer))),
];

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

/** As many steps are unsaved as may be, and this one can still become whole: the next step waits for it. */
export function awaitedCheckpoint(transition: Transition): PendingCheckpoint | undefined {
  const { config, committedSteps, newestCheckpointStep, pending } = transition.state;
  if (committedSteps - newestCheckpointStep < unsavedLimit(config)) return undefined;
  return pending.find((checkpoint) => canBecomeWhole(transition, checkpoint));
}

/** Until when its uploads of a checkpoint may come on, whatever it sends. */
function latestUpload({ plan, askedAt }: PendingCheckpoint, peer: PeerId, allowed: number): number {
  const own = plan.state.flatMap(({ shards }) => shards.filter((shard) => shard.peer === peer));
  const elements = own.reduce((sum, { range: [from, to] }) => sum + to - from, 0);
  return askedAt + allowed + longestUploadMs(elements * STATE_BYTES_PER_ELEMENT);
}

/** New pieces of a shard came in, fast enough: whoever waits for this checkpoint goes on waiting. */
export function uploading(transition: Transition, peer: PeerId): void {
  const { phase, pending, seen } = transition.state;
  const waits = phase.name === 'saving' || (phase.name === 'holding' && phase.awaits === 'checkpoint');
  if (!waits) return;
  const allowed = allowedFor('upload', seen);
  const latest = pending.flatMap((checkpoint) =>
    uploadsMissing(checkpoint).includes(peer) ? latestUpload(checkpoint, peer, allowed) : [],
  );
  const deadline = Math.max(phase.deadline, Math.min(transition.now + allowed, Math.max(...latest)));
  change(transition, { phase: { ...phase, deadline } });
}

/** wrong: no checkpoint that was ever asked of this peer. old: it is not needed any more. whole: it was the last shard. */
type UploadOutcome = 'wrong' | 'old' | 'open' | 'whole';

export function takeUpload(transition: Transition, peer: PeerId, message: UploadedMessage): UploadOutcome {
  const { state } = transition;
  const pending = state.pending.find(({ step, epoch }) => step === message.step && epoch === message.epoch);
  if (pending === undefined) {
    // After a roll-back fewer steps are committed than were when it was asked for.
    const mayBeAhead = message.epoch < state.epoch || planInForce(state) === null;
    const isAhead = message.step > state.committedSteps && !mayBeAhead;
    return message.epoch > state.epoch || isAhead ? 'wrong' : 'old';
  }
  const shards = shardsOf(pending);
  const own = new Set(shards.flatMap((shard) => (shard.peer === peer ? shard.key : [])));
  const uploaded = message.shards.map(({ block, range, hash }) => [shardKey(block, range), hash] as const);
  if (uploaded.length === 0 || uploaded.some(([key]) => !own.has(key))) return 'wrong';
  // One time of each peer and checkpoint: it says what is usual.
  const isFirst = ![...own].some((key) => Object.hasOwn(pending.hashes, key));
  if (isFirst) change(transition, { seen: withSeen(state.seen, 'upload', transition.now - pending.askedAt) });
  // A shard that came before stays as it was: its upload was answered.
  const hashes = new Map([...uploaded, ...Object.entries(pending.hashes)]);
  if (hashes.size < shards.length) {
    const more = { ...pending, hashes: Object.fromEntries(hashes) };
    change(transition, { pending: state.pending.map((other) => (other === pending ? more : other)) });
    return 'open';
  }
  const { step, lossScale } = pending;
  transition.effects.push({
    type: 'storeCheckpoint',
    step,
    generation: state.generation,
    shards: shards.map(({ key, shard }) => ({ ...shard, hash: got(hashes, key) })),
    lossScale,
  });
  log(transition, 'info', `Checkpoint ${step} is stored.`);
  change(transition, {
    newestCheckpointStep: step,
    savedLossScale: lossScale,
    pending: state.pending.filter((other) => other.step > step),
    unsaved: state.unsaved.filter((other) => other.step >= step),
  });
  return 'whole';
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
  change(transition, {
    committedSteps: toStep,
    lastCommit: null,
    generation: state.generation + 1,
    lossScale: state.savedLossScale,
    norms: state.norms.filter(({ step }) => step < toStep),
    evaluatedSteps: state.evaluatedSteps === null ? null : Math.min(state.evaluatedSteps, toStep),
    donors: state.donors.map((donor) => ({ ...donor, tokens: donor.tokens - (lost.get(donor.peer) ?? 0) })),
    unsaved: [],
  });
  transition.effects.push({ type: 'rollBack', toStep, atStep, reason });
  log(transition, 'warn', `Back from step ${atStep} to step ${toStep}: ${reason}.`);
}
