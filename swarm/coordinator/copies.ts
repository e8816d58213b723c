/**
 * What replicas have, against what their primaries upload for a checkpoint: one counts when of each shard a copy agrees.
 * Bit for bit it does on adapters of one class; else sums decide, which adapters' rounding does not move by so much. Where
 * a primary's and its copy's state do not agree nobody knows whose is right, until one of them differs from a third one.
 * Rules RE in SPEC.md.
 */
import type { PeerId } from '../base.ts';
import type { CopyWord } from '../messages/messages.ts';
import type { AdapterProfile } from '../messages/profile.ts';
import type { CoordinatorEvent } from './events.ts';
import {
  type ExpectedCopy,
  keeperKey,
  type PendingCheckpoint,
  type PlanInForce,
  planInForce,
  shardKey,
} from './state.ts';
import { donorOf, log, type Transition } from './transition.ts';

/** Of replicas that are current. */
export function expectedCopies({ plan, lacking }: Pick<PlanInForce, 'plan' | 'lacking'>): ExpectedCopy[] {
  const without = new Set(lacking.map(({ keeper }) => keeper));
  return plan.state.flatMap(({ block, shards }) =>
    shards.flatMap(({ peer: primary, range, replicas }) => {
      const key = shardKey(block, range);
      const current = replicas.filter((replica) => !without.has(keeperKey(replica, key)));
      return current.map((replica): ExpectedCopy => ({ key, primary, replica, said: null, verdict: 'open' }));
    }),
  );
}

/** What came first counts. */
export function withCopies(pending: PendingCheckpoint, replica: PeerId, words: readonly CopyWord[]): PendingCheckpoint {
  const said = new Map(words.map((word) => [shardKey(word.block, word.range), word]));
  const copies = pending.copies.map((copy) =>
    copy.replica === replica && copy.said === null ? { ...copy, said: said.get(copy.key) ?? null } : copy,
  );
  return { ...pending, copies };
}

/** Those of which both are there; what is not the same bit for bit is compared by the shell. */
export function judged(transition: Transition, pending: PendingCheckpoint): PendingCheckpoint {
  const copies = pending.copies.map((copy): ExpectedCopy => {
    const { key, replica, said, verdict } = copy;
    const primaryHash = Object.hasOwn(pending.hashes, key) ? pending.hashes[key] : undefined;
    if (verdict !== 'open' || said === null || primaryHash === undefined) return copy;
    if (said.hash === primaryHash) return { ...copy, verdict: 'same' };
    const { epoch, step } = pending;
    const { islands } = pending.plan;
    const of = islands ? { epoch, islands } : { epoch };
    transition.effects.push({ type: 'compareCopy', ...of, step, key, replica, primaryHash, copy: said });
    return { ...copy, verdict: 'comparing' };
  });
  return { ...pending, copies };
}

export function withVerdict(
  transition: Transition,
  pending: PendingCheckpoint,
  { key, replica, isNear }: Extract<CoordinatorEvent, { type: 'copyCompared' }>,
): PendingCheckpoint {
  const copies = pending.copies.map((copy): ExpectedCopy => {
    if (copy.key !== key || copy.replica !== replica || copy.verdict !== 'comparing') return copy;
    if (isNear && areOneClass(donorOf(transition, copy.primary)?.adapter, donorOf(transition, replica)?.adapter))
      log(
        transition,
        'warn',
        `${copy.primary} and ${replica} have not the same bits of ${key}, though their adapters are of one class.`,
      );
    return { ...copy, verdict: isNear ? 'same' : 'differs' };
  });
  return { ...pending, copies };
}

/** They say the same of themselves: what they compute is the same, bit for bit. */
const areOneClass = (one: AdapterProfile | undefined, other: AdapterProfile | undefined): boolean =>
  one !== undefined && other !== undefined && JSON.stringify(one) === JSON.stringify(other);

/** A shard's copy is to agree yet, and may: those who have it are there, under the same epoch. */
export function isAwaited({ state }: Transition, { epoch, copies }: PendingCheckpoint): boolean {
  const here = new Set(state.donors.map(({ peer }) => peer));
  const agreed = new Set(copies.flatMap(({ key, verdict }) => (verdict === 'same' ? key : [])));
  return copies.some(({ key, replica, verdict }) => {
    if (agreed.has(key) || verdict === 'same' || verdict === 'differs') return false;
    return verdict === 'comparing' || (here.has(replica) && planInForce(state)?.epoch === epoch);
  });
}

/** Shards with which no copy agrees, though one was compared. */
export function contested({ copies }: PendingCheckpoint): string[] {
  const agreed = new Set(copies.flatMap(({ key, verdict }) => (verdict === 'same' ? key : [])));
  return copies.flatMap(({ key, verdict }) => (verdict === 'differs' && !agreed.has(key) ? key : []));
}
