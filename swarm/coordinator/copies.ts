/**
 * What a shard's keepers have, against what one of them uploads for a checkpoint: the primary, or the replica that the plan
 * names. A checkpoint counts when of each shard primary and a replica have the same. Bit for bit it is on adapters of one
 * class; else sums decide, which adapters' rounding does not move by so much. Where the two have not the same nobody knows
 * whose is right, until one of them differs from a third one. Rules RE in SPEC.md.
 */
import type { PeerId } from '../base.ts';
import type { CopyWord } from '../messages/checkpointWords.ts';
import type { AdapterProfile } from '../messages/profile.ts';
import { keepersOf } from '../plan/plan.ts';
import { uploaderOf } from '../plan/uploader.ts';
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

/** Uploaders of which a copy is not known to be current: nothing of what they keep is uploaded by them. */
export function excusedIn({ plan, lacking }: Pick<PlanInForce, 'plan' | 'lacking'>): PeerId[] {
  const without = new Set(lacking.map(({ keeper }) => keeper));
  const excused = plan.state.flatMap(({ block, shards }) =>
    shards.flatMap(({ uploader, range }) =>
      uploader !== undefined && without.has(keeperKey(uploader, shardKey(block, range))) ? uploader : [],
    ),
  );
  return [...new Set(excused)];
}

/** Of keepers whose state is current, but for who uploads it. */
export function expectedCopies(
  { plan, lacking }: Pick<PlanInForce, 'plan' | 'lacking'>,
  excused: readonly PeerId[],
): ExpectedCopy[] {
  const without = new Set(lacking.map(({ keeper }) => keeper));
  return plan.state.flatMap(({ block, shards }) =>
    shards.flatMap((shard) => {
      const [key, uploader] = [shardKey(block, shard.range), uploaderOf(shard, excused)];
      return keepersOf(shard).flatMap((keeper): ExpectedCopy[] =>
        keeper === uploader || without.has(keeperKey(keeper, key))
          ? []
          : [{ key, primary: shard.peer, uploader, keeper, said: null, verdict: 'open' }],
      );
    }),
  );
}

/** What came first counts. */
export function withCopies(pending: PendingCheckpoint, keeper: PeerId, words: readonly CopyWord[]): PendingCheckpoint {
  const said = new Map(words.map((word) => [shardKey(word.block, word.range), word]));
  const copies = pending.copies.map((copy) =>
    copy.keeper === keeper && copy.said === null ? { ...copy, said: said.get(copy.key) ?? null } : copy,
  );
  return { ...pending, copies };
}

/** Those of which both are there; what is not the same bit for bit is compared by the shell. */
export function judged(transition: Transition, pending: PendingCheckpoint): PendingCheckpoint {
  const copies = pending.copies.map((copy): ExpectedCopy => {
    const { key, keeper, said, verdict } = copy;
    const uploadedHash = Object.hasOwn(pending.hashes, key) ? pending.hashes[key] : undefined;
    if (verdict !== 'open' || said === null || uploadedHash === undefined) return copy;
    if (said.hash === uploadedHash) return { ...copy, verdict: 'same' };
    const { epoch, step } = pending;
    const { islands } = pending.plan;
    const of = islands ? { epoch, islands } : { epoch };
    transition.effects.push({ type: 'compareCopy', ...of, step, key, keeper, uploadedHash, copy: said });
    return { ...copy, verdict: 'comparing' };
  });
  return { ...pending, copies };
}

export function withVerdict(
  transition: Transition,
  pending: PendingCheckpoint,
  { key, keeper, isNear }: Extract<CoordinatorEvent, { type: 'copyCompared' }>,
): PendingCheckpoint {
  const copies = pending.copies.map((copy): ExpectedCopy => {
    if (copy.key !== key || copy.keeper !== keeper || copy.verdict !== 'comparing') return copy;
    if (isNear && areOneClass(donorOf(transition, copy.uploader)?.adapter, donorOf(transition, keeper)?.adapter))
      log(
        transition,
        'warn',
        `${copy.uploader} and ${keeper} have not the same bits of ${key}, though their adapters are of one class.`,
      );
    return { ...copy, verdict: isNear ? 'same' : 'differs' };
  });
  return { ...pending, copies };
}

/** They say the same of themselves: what they compute is the same, bit for bit. */
const areOneClass = (one: AdapterProfile | undefined, other: AdapterProfile | undefined): boolean =>
  one !== undefined && other !== undefined && JSON.stringify(one) === JSON.stringify(other);

/** What a replica uploaded its primary has to agree with: no other copy stands for that. */
const isPrimarys = ({ primary, keeper }: ExpectedCopy): boolean => keeper === primary;
const decides = (copy: ExpectedCopy): boolean => copy.uploader === copy.primary || isPrimarys(copy);

const agreedIn = (copies: readonly ExpectedCopy[]): Set<string> =>
  new Set(copies.flatMap((copy) => (copy.verdict === 'same' && decides(copy) ? copy.key : [])));

/** Primaries whose word on what a replica uploads is missing: without it nothing of that counts. */
export const primariesAwaited = ({ copies }: Pick<PendingCheckpoint, 'copies'>): PeerId[] =>
  copies.flatMap((copy) => (isPrimarys(copy) && copy.said === null ? copy.keeper : []));

/** The server is adding up what a replica uploaded, against its primary's word. */
export const isPrimaryCompared = ({ copies }: Pick<PendingCheckpoint, 'copies'>): boolean =>
  copies.some((copy) => isPrimarys(copy) && copy.verdict === 'comparing');

/** A shard's copy is to agree yet, and may: those who have it are there, under the same epoch. */
export function isAwaited({ state }: Transition, { epoch, copies }: PendingCheckpoint): boolean {
  const here = new Set(state.donors.map(({ peer }) => peer));
  const agreed = agreedIn(copies);
  return copies.some(({ key, keeper, verdict }) => {
    if (agreed.has(key) || verdict === 'same' || verdict === 'differs') return false;
    return verdict === 'comparing' || (here.has(keeper) && planInForce(state)?.epoch === epoch);
  });
}

/** Shards with which no copy agrees, though one was compared. */
export function contested({ copies }: PendingCheckpoint): string[] {
  const agreed = agreedIn(copies);
  return copies.flatMap(({ key, verdict }) => (verdict === 'differs' && !agreed.has(key) ? key : []));
}

/** Two who have not the same of a shard, in the order of its keepers. */
export interface Difference {
  readonly key: string;
  readonly senior: PeerId;
  readonly junior: PeerId;
}

/**
 * Who has not the same as whom. Who has the same as the uploader differs, too, from whoever does; a replica is held against
 * its primary where both were compared, else against who uploaded.
 */
export function differencesIn({ plan, copies }: Pick<PendingCheckpoint, 'plan' | 'copies'>): Difference[] {
  const differing = new Set(copies.flatMap(({ key, verdict }) => (verdict === 'differs' ? key : [])));
  return plan.state.flatMap(({ block, shards }) =>
    shards.flatMap((shard) => {
      const key = shardKey(block, shard.range);
      if (!differing.has(key)) return [];
      const own = copies.filter((copy) => copy.key === key);
      const uploader = own[0]?.uploader;
      const having = (of: ExpectedCopy['verdict']) =>
        own.flatMap(({ keeper, verdict }) => (verdict === of ? keeper : []));
      const [same, others] = [having('same'), having('differs')];
      if (uploader === undefined) return [];
      const keepers = keepersOf(shard);
      const between = (one: PeerId, other: PeerId): Difference => {
        const [senior = one, junior = other] = keepers.filter((peer) => peer === one || peer === other);
        return { key, senior, junior };
      };
      const holding = [uploader, ...same];
      const isApart = others.includes(shard.peer);
      const about = holding.includes(shard.peer) ? shard.peer : uploader;
      return [
        ...(isApart ? holding.map((peer) => between(shard.peer, peer)) : []),
        ...others.flatMap((peer) => (peer === shard.peer ? [] : between(about, peer))),
      ];
    }),
  );
}
