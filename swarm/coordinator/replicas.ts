/**
 * Which replicas have what they should keep. One counts as long as it added what its primary did, at every committed step;
 * one that reports later than the commit may still show it. Rules RE in SPEC.md.
 */
import type { PeerId } from '../base.ts';
import type { ReportMessage } from '../messages/messages.ts';
import { keeperKey, type Lacking, type PlanInForce, shardKey } from './state.ts';

/** A replica that owes the reports of so many committed steps keeps nothing any more. */
export const BEHIND_LIMIT = 3;

/** It missed a step, or got other slices than its primary. */
const isStale = ({ owes }: Lacking): boolean => owes.length === 0;

/** These have nothing of the shard. */
export const staleOf = (lacking: readonly Lacking[]): string[] =>
  lacking.flatMap((one) => (isStale(one) ? one.keeper : []));

/** These keepers have what they kept no more, and owe nothing. */
export const withStale = (lacking: readonly Lacking[], more: readonly string[]): Lacking[] => [
  ...lacking.filter(({ keeper }) => !more.includes(keeper)),
  ...[...new Set(more)].map((keeper): Lacking => ({ keeper, owes: [] })),
];

/** Under another epoch of the same plan nobody hears of the steps of this one any more. */
export const leftBehind = (lacking: readonly Lacking[]): Lacking[] =>
  withStale(
    [],
    lacking.map(({ keeper }) => keeper),
  );

/** What each keeper says of a shard; undefined: nothing. */
export const wordsOf = (reports: ReadonlyMap<PeerId, ReportMessage>, key: string) => (from: PeerId) =>
  reports.get(from)?.shards.find(({ block, range }) => shardKey(block, range) === key);

/** What a keeper says of a replicated shard: it has other slices where one of the digests is another one. */
interface Word {
  readonly digests: readonly string[] | null;
}

export const areSame = (one: Word | undefined, other: Word | undefined): boolean =>
  one?.digests?.length === other?.digests?.length &&
  (one?.digests ?? []).every((digest, place) => digest === other?.digests?.[place]);

/** After the commit of a step; `late`: whose reports of too many steps are missing. */
export function lackingAfter(
  { plan, lacking }: PlanInForce,
  step: number,
  reports: ReadonlyMap<PeerId, ReportMessage>,
): { readonly lacking: readonly Lacking[]; readonly late: readonly string[] } {
  const owed = new Map(lacking.map((one) => [one.keeper, one.owes]));
  const late: string[] = [];
  for (const { block, shards } of plan.state) {
    for (const { peer, range, replicas } of shards) {
      const key = shardKey(block, range);
      const said = wordsOf(reports, key);
      const own = said(peer);
      for (const replica of replicas) {
        const keeper = keeperKey(replica, key);
        const owes = owed.get(keeper);
        const word = said(replica);
        if (owes?.length === 0 || (word !== undefined && areSame(word, own))) continue;
        if (word !== undefined) owed.set(keeper, []);
        else if ((owes?.length ?? 0) + 1 < BEHIND_LIMIT)
          owed.set(keeper, [...(owes ?? []), { step, digests: own?.digests ?? null }]);
        else {
          owed.set(keeper, []);
          late.push(keeper);
        }
      }
    }
  }
  return { lacking: [...owed].map(([keeper, owes]) => ({ keeper, owes })), late };
}

/** A report of a step that is committed already: what its replicas received is compared all the same. */
export function reportedLate(inForce: PlanInForce, peer: PeerId, { step, shards }: ReportMessage): PlanInForce {
  const lacking = inForce.lacking.flatMap((one): Lacking[] => {
    const word = shards.find(({ block, range }) => keeperKey(peer, shardKey(block, range)) === one.keeper);
    const owed = one.owes.find((owes) => owes.step === step);
    if (owed === undefined || word === undefined) return [one];
    const owes = areSame(word, { digests: owed.digests }) ? one.owes.filter((other) => other !== owed) : [];
    const hasShown = areSame(word, { digests: owed.digests }) && owes.length === 0;
    return hasShown ? [] : [{ ...one, owes }];
  });
  return { ...inForce, lacking };
}
