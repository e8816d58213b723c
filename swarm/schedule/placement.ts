/**
 * Where stages stand: a pipeline's owner table, and nothing else. Straight (stage s on peer s), looped (stage s on peer
 * s mod p) and bidirectional (Chimera: some micro-batches go up the peers while others go down) differ only in who owns
 * what, so that builders, checker, simulator and executor need not know which one they run.
 */
import { arrayOf, evenRanges, type PeerId } from '../base.ts';
import { pipelineOf, seatOf } from '../plan/ownerTable.ts';
import type { Member, Plan } from '../plan/plan.ts';

/** A plan of one layer a stage and one sample a micro-batch, without state: what a schedule needs of a plan. */
function planOf(stages: readonly (readonly [peer: PeerId, microBatches: readonly number[]][])[], count: number): Plan {
  return {
    stages: stages.map((members, stage) => ({
      layers: [stage, stage + 1],
      members: members.map(
        ([peer, microBatches]): Member => ({ peer, microBatches, samples: microBatches.length, recompute: [] }),
      ),
    })),
    microBatches: evenRanges(count, count).map((samples, id) => ({ id, samples })),
    state: [],
    // Whoever asks for a placement names its builder too.
    schedule: 'gpipe',
  };
}

const upTo = (count: number): number[] => arrayOf(count, (index) => index);

/** Each peer has `chunks` stages: stage s is on peer s mod p. With one chunk: the straight pipeline. */
export function loopedPlan(peers: readonly PeerId[], microBatches: number, chunks: number): Plan {
  const ids = upTo(microBatches);
  const stages = upTo(chunks).flatMap(() => peers.map((peer): [PeerId, readonly number[]][] => [[peer, ids]]));
  return planOf(stages, microBatches);
}

/** Chimera's placement: 2·`pairs` pipelines over the same peers. */
export function bidirectionalPlan(peers: readonly PeerId[], microBatches: number, pairs: number): Plan {
  const p = peers.length;
  const pipelines = upTo(2 * pairs).map((pipeline) => ({
    microBatches: upTo(microBatches).filter((id) => pipelineOf(p, pairs, id) === pipeline),
    seat: (stage: number): number => seatOf(p, pairs, pipeline, stage),
  }));
  const stages = upTo(p).map((stage) =>
    pipelines.flatMap(({ seat, microBatches: ids }): [PeerId, readonly number[]][] => {
      const peer = peers[seat(stage)];
      return peer === undefined ? [] : [[peer, ids]];
    }),
  );
  return planOf(stages, microBatches);
}
