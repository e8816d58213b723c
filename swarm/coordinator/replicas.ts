/**
 * Which replicas have what they should keep. One counts as long as it added what its primary did, at every committed step;
 * one that reports later than the commit may still show it. Rules RE in SPEC.md.
 */
import type { PeerId } from '../base.ts';
import type { ReportMessage } from '../messages/messages.ts';
import { type Behind, keeperKey, type PlanInForce, shardKey } from './state.ts';
import { wordsOf } from './tally.ts';

/** A replica that owes the reports of so many committed steps keeps nothing any more. */
export const BEHIND_LIMIT = 3;

/** After the commit of a step: replicas that had not what their primary had, and those that have not said so yet. */
export function replicasAfter(
  { plan, stale, behind }: PlanInForce,
  step: number,
  reports: ReadonlyMap<PeerId, ReportMessage>,
): Copies {
  const [lost, waiting]: [string[], Behind[]] = [[], [...behind]];
  for (const { block, shards } of plan.state) {
    for (const { peer, range, replicas } of shards) {
      const said = wordsOf(reports, block, range);
      const digest = said(peer)?.digest ?? null;
      for (const replica of replicas) {
        const keeper = keeperKey(replica, shardKey(block, range));
        const word = said(replica);
        if (word === undefined) waiting.push({ keeper, step, digest });
        else if (word.digest !== digest) lost.push(keeper);
      }
    }
  }
  const owed = (keeper: string): number => waiting.filter((one) => one.keeper === keeper).length;
  lost.push(...waiting.flatMap(({ keeper }) => (owed(keeper) < BEHIND_LIMIT ? [] : keeper)));
  return withStale({ stale, behind: waiting }, lost);
}

type Copies = Pick<PlanInForce, 'stale' | 'behind'>;

/** These keepers have what they kept no more, and owe nothing. */
export function withStale({ stale, behind }: Copies, more: readonly string[]): Copies {
  const all = new Set([...stale, ...more]);
  return { stale: [...all], behind: behind.filter(({ keeper }) => !all.has(keeper)) };
}

/** A report of a step that is committed already: what its replicas received is compared all the same. */
export function reportedLate(inForce: PlanInForce, peer: PeerId, { step, shards }: ReportMessage): PlanInForce {
  const lost: string[] = [];
  const behind = inForce.behind.filter((owed) => {
    const word = shards.find(({ block, range }) => keeperKey(peer, shardKey(block, range)) === owed.keeper);
    if (owed.step !== step || word === undefined) return true;
    if (word.digest !== owed.digest) lost.push(owed.keeper);
    return false;
  });
  return { ...inForce, ...withStale({ ...inForce, behind }, lost) };
}

/** Under another epoch of the same plan nobody hears of the steps of this one any more. */
export const leftBehind = (copies: Copies): Copies =>
  withStale(
    copies,
    copies.behind.map(({ keeper }) => keeper),
  );
