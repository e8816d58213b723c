/**
 * What a step adds up to: which reports it needs, and the sums over all of them. Every sum has
 * a fixed order (micro-batch ids, then blocks and shards as the plan lists them), never that of arrival.
 */
import { at, countIn, type PeerId } from '../base.ts';
import type { EvaluatedMessage, ReportMessage } from '../messages/messages.ts';
import type { Model } from '../model/model.ts';
import { keepersOf, type Plan, peers } from '../plan/plan.ts';
import { comparedShards, onlySent } from '../ways/compared.ts';
import type { Passage } from '../ways/passage.ts';
import { differInSquares } from './bounds.ts';
import { fillingPeers } from './filling.ts';
import { areSame, staleOf, wordsOf } from './replicas.ts';
import { type Duties, keeperKey, type PlanInForce, shardKey } from './state.ts';

/** torch.nn.utils.clip_grad_norm_ adds it too: a norm of 0 divides nothing by 0. */
const CLIP_EPSILON = 1e-6;

/** How many each peer sends or gets. */
function commitsOf(committed: readonly Passage[]): ReadonlyMap<PeerId, number> {
  const counts = new Map<PeerId, number>();
  for (const { from, to } of committed) for (const peer of [from, to]) counts.set(peer, (counts.get(peer) ?? 0) + 1);
  return counts;
}

/** `committed`: what members commit to; absent: nothing. */
export function dutiesOf(model: Model, plan: Plan, committed?: readonly Passage[]): Duties[] {
  const last = at(plan.stages, plan.stages.length - 1).members;
  const shards = plan.state.flatMap(({ block, shards }) =>
    shards.map(({ peer, replicas, range }) => ({ peer, replicas, key: shardKey(block, range) })),
  );
  const compared = comparedShards(model, plan);
  const commits = committed && commitsOf(committed);
  return peers(plan).map((peer) => ({
    peer,
    losses: last.flatMap((member) => (member.peer === peer ? member.microBatches : [])).toSorted((a, b) => a - b),
    primary: shards.flatMap((shard) => (shard.peer === peer ? shard.key : [])),
    replica: shards.flatMap((shard) => (shard.replicas.includes(peer) ? shard.key : [])),
    replicated: Object.fromEntries(
      compared.flatMap(({ block, shard, slices }) =>
        keepersOf(shard).includes(peer) ? [[shardKey(block, shard.range), slices.length] as const] : [],
      ),
    ),
    sends: onlySent(compared, peer).length,
    ...(commits && { commits: commits.get(peer) ?? 0 }),
  }));
}

export type Tally =
  | { readonly outcome: 'open' }
  /** No replica of these shards, by their keys, received what the primary received. */
  | { readonly outcome: 'unequal'; readonly shards: readonly string[] }
  | { readonly outcome: 'notFinite'; readonly what: 'loss' | 'gradient norm' }
  | {
      readonly outcome: 'whole';
      readonly loss: number;
      readonly gradientNorm: number;
      readonly bytesDirect: number;
      readonly bytesRelayed: number;
      /** These replicas added what their primary did, and have another sum of its squares than rounding explains. */
      readonly differing: readonly DifferentSquares[];
    };

export interface DifferentSquares {
  /** Of the shard, by `shardKey`. */
  readonly key: string;
  readonly replica: PeerId;
}

/** Peers without whom no step can be committed. A shard needs one of its replicas besides. */
export const reportersOf = (duties: readonly Duties[]): PeerId[] =>
  duties.flatMap(({ peer, losses, primary }) => (losses.length > 0 || primary.length > 0 ? peer : []));

/** Every report has no `reportProblem` (bounds.ts). `targets`: those that count. Gradients come multiplied with `lossScale`. */
export function tally(
  { plan, duties, lacking, filling }: Pick<PlanInForce, 'plan' | 'duties' | 'lacking' | 'filling'>,
  reports: ReadonlyMap<PeerId, ReportMessage>,
  targets: number,
  lossScale = 1,
): Tally {
  if (reportersOf(duties).some((peer) => !reports.has(peer))) return { outcome: 'open' };
  if (fillingPeers({ filling }).some((peer) => !reports.has(peer))) return { outcome: 'open' };
  let sumSquares = 0;
  let isOpen = false;
  const differing: DifferentSquares[] = [];
  const unequal: string[] = [];
  const stale = staleOf(lacking);
  for (const { block, shards } of plan.state) {
    for (const { peer, range, replicas } of shards) {
      const key = shardKey(block, range);
      const said = wordsOf(reports, key);
      const own = said(peer);
      sumSquares += Number(own?.sumSquares); // 'NaN' and 'Infinity' become what they say
      const current = replicas.filter((replica) => !stale.includes(keeperKey(replica, key)));
      const isCaughtUp = (replica: PeerId) => lacking.every(({ keeper }) => keeper !== keeperKey(replica, key));
      const agrees = (replica: PeerId) => areSame(said(replica), own);
      if (current.length > 0 && !current.some((replica) => agrees(replica) && isCaughtUp(replica))) {
        if (current.every((replica) => reports.has(replica) && !agrees(replica))) unequal.push(key);
        else isOpen = true;
      }
      for (const replica of current) {
        const word = said(replica);
        if (word && own && agrees(replica) && differInSquares(own.sumSquares, word.sumSquares, countIn(range)))
          differing.push({ key, replica });
      }
    }
  }
  if (unequal.length > 0) return { outcome: 'unequal', shards: unequal };
  if (isOpen) return { outcome: 'open' };
  const loss = sumLosses([...reports.values()]) / targets;
  const gradientNorm = Math.sqrt(sumSquares) / lossScale;
  if (!Number.isFinite(loss)) return { outcome: 'notFinite', what: 'loss' };
  if (!Number.isFinite(gradientNorm)) return { outcome: 'notFinite', what: 'gradient norm' };
  let bytesDirect = 0;
  let bytesRelayed = 0;
  for (const report of reports.values()) {
    bytesDirect += report.bytesDirect;
    bytesRelayed += report.bytesRelayed;
  }
  return { outcome: 'whole', loss, gradientNorm, bytesDirect, bytesRelayed, differing };
}

/** The peers that know an evaluation's losses. */
export const evaluatorsOf = ({ stages }: Plan): PeerId[] =>
  at(stages, stages.length - 1).members.map(({ peer }) => peer);

/** In the order of the micro-batch ids; NaN where one of them was not finite. */
export function sumLosses(messages: readonly (ReportMessage | EvaluatedMessage)[]): number {
  return messages
    .flatMap(({ losses }) => losses)
    .toSorted((a, b) => a.microBatch - b.microBatch)
    .reduce((sum, { lossSum }) => sum + (lossSum ?? Number.NaN), 0);
}

export const clipScale = (gradientNorm: number, limit: number | null): number =>
  limit === null ? 1 : Math.min(1, limit / (gradientNorm + CLIP_EPSILON));
