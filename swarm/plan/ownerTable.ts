/**
 * The owner tables that two schedules ask for. interleaved: each peer has v stages, stage s being peer s mod p's. chimera
 * (Li and Hoefler 2021): 2f pipelines over the same p peers; pipeline 2k has stage s on peer (k·p/f + s) mod p, pipeline
 * 2k + 1 on (k·p/f + p − 1 − s) mod p, and each block of p micro-batches gives every pipeline p/2f of them, in order. The
 * other schedules run on any table. See SPEC.md, SC13 and SC14.
 */
import { arrayOf, at, type PeerId } from '../base.ts';

/** What of a plan says who owns what. */
interface Owners {
  readonly stages: readonly {
    readonly members: readonly { readonly peer: PeerId; readonly microBatches: readonly number[] }[];
  }[];
  readonly microBatches: readonly { readonly id: number }[];
}

/** Why there is no such pipeline, in words, or null. */
export const interleavedMisfit = (peerCount: number, microBatches: number): string | null =>
  microBatches % peerCount === 0
    ? null
    : `interleaved needs microBatches to be a multiple of the ${peerCount} peers, not ${microBatches}`;

/** Why there is no such pipeline, in words, or null. */
export function chimeraMisfit(peerCount: number, microBatches: number, pairs: number): string | null {
  if (peerCount % 2 !== 0) return `chimera needs an even number of peers, not ${peerCount}`;
  if ((peerCount / 2) % pairs !== 0)
    return `chimera needs pairs to divide half of the ${peerCount} peers, not ${pairs}`;
  if (microBatches % peerCount !== 0)
    return `chimera needs microBatches to be a multiple of the ${peerCount} peers, not ${microBatches}`;
  return null;
}

/** Which of chimera's pipelines carries the micro-batch of this place among all. */
export const pipelineOf = (peerCount: number, pairs: number, place: number): number =>
  Math.floor(((place % peerCount) * 2 * pairs) / peerCount);

/** Who, as a number, has a stage in one of chimera's pipelines. */
function seatOf(peerCount: number, pairs: number, pipeline: number, stage: number): number {
  const first = (Math.floor(pipeline / 2) * peerCount) / pairs;
  return (first + (pipeline % 2 === 0 ? stage : peerCount - 1 - stage)) % peerCount;
}

export const DEFAULT_PAIRS = 1;

/** Who has each stage, with which micro-batches: of chimera, or of a schedule that loops over the peers. */
export const ownedCrews = <Batch>(
  peers: readonly PeerId[],
  stages: number,
  microBatches: readonly Batch[],
  { schedule, pairs = DEFAULT_PAIRS }: { readonly schedule?: string; readonly pairs?: number },
): { readonly peer: PeerId; readonly carried: readonly Batch[] }[][] =>
  arrayOf(stages, (stage) => {
    const count = peers.length;
    if (schedule !== 'chimera') return [{ peer: at(peers, stage % count), carried: microBatches }];
    return arrayOf(2 * pairs, (pipeline) => ({
      peer: at(peers, seatOf(count, pairs, pipeline, stage)),
      carried: microBatches.filter((_, place) => pipelineOf(count, pairs, place) === pipeline),
    }));
  });

/** Why interleaved cannot run on this table, in words, or null. */
export function interleavedProblem({ stages, microBatches }: Owners): string | null {
  const order = stages.map(({ members }) => members[0]?.peer);
  const count = new Set(order).size;
  const isLooped =
    stages.length % count === 0 &&
    stages.every(({ members }, stage) => members.length === 1 && order[stage] === order[stage % count]);
  if (!isLooped) return `interleaved needs stage s to be of peer s mod p alone: these ${stages.length} stages are not`;
  return interleavedMisfit(count, microBatches.length);
}

/** Why chimera cannot run on this table, in words, or null. */
export function chimeraProblem({ stages, microBatches }: Owners): string | null {
  const count = stages.length;
  const pairs = (stages[0]?.members.length ?? 0) / 2;
  if (!Number.isInteger(pairs) || pairs < 1)
    return 'chimera needs two members in each stage for each pair of pipelines';
  const misfit = chimeraMisfit(count, microBatches.length, pairs);
  if (misfit !== null) return misfit;
  const owners = stages.map(
    ({ members }) => new Map(members.flatMap(({ peer, microBatches: ids }) => ids.map((id) => [id, peer] as const))),
  );
  const ids = microBatches.map(({ id }) => id).toSorted((a, b) => a - b);
  // The first pipeline shows who is which peer.
  const seats = owners.map((owner) => owner.get(ids[0] ?? 0));
  const isBoth =
    new Set(seats).size === count &&
    owners.every((owner, stage) =>
      ids.every((id, place) => owner.get(id) === seats[seatOf(count, pairs, pipelineOf(count, pairs, place), stage)]),
    );
  return isBoth ? null : `chimera needs ${2 * pairs} pipelines over the same peers: these stages have other owners`;
}
