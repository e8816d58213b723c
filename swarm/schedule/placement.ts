/**
 * Where stages stand: a pipeline's owner table, and nothing else. Straight (stage s on peer s), looped (stage s on peer
 * s mod p) and bidirectional (Chimera: some micro-batches go up the peers while others go down) differ only in who owns
 * what, so that builders, checker, simulator and executor need not know which one they run.
 */
import { evenRanges, type PeerId } from '../base.ts';
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

const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index);

/** Each peer has `chunks` stages: stage s is on peer s mod p. With one chunk: the straight pipeline. */
export function loopedPlan(peers: readonly PeerId[], microBatches: number, chunks: number): Plan {
  const ids = upTo(microBatches);
  const stages = upTo(chunks).flatMap(() => peers.map((peer): [PeerId, readonly number[]][] => [[peer, ids]]));
  return planOf(stages, microBatches);
}

/**
 * Chimera's placement (Li and Hoefler 2021): 2f pipelines over the same p peers. Pipeline 2k has stage s on peer
 * (k·p/f + s) mod p, pipeline 2k+1 on (k·p/f + p − 1 − s) mod p. Each block of p micro-batches gives every pipeline
 * p/2f of them, in order.
 */
export function bidirectionalPlan(peers: readonly PeerId[], microBatches: number, pairs: number): Plan {
  const p = peers.length;
  const pipelines = upTo(2 * pairs).map((pipeline) => ({
    microBatches: upTo(microBatches).filter((id) => Math.floor(((id % p) * 2 * pairs) / p) === pipeline),
    seat: (stage: number): number => {
      const first = (Math.floor(pipeline / 2) * p) / pairs;
      return (first + (pipeline % 2 === 0 ? stage : p - 1 - stage)) % p;
    },
  }));
  const stages = upTo(p).map((stage) =>
    pipelines.flatMap(({ seat, microBatches: ids }): [PeerId, readonly number[]][] => {
      const peer = peers[seat(stage)];
      return peer === undefined ? [] : [[peer, ids]];
    }),
  );
  return planOf(stages, microBatches);
}
