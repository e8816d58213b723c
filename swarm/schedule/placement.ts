/**
 * Where stages stand: a pipeline's owner table, and nothing else. Straight (stage s on peer s), looped (stage s on peer
 * s mod p) and bidirectional (Chimera: some micro-batches go up the peers while others go down) differ only in who owns
 * what, so that builders, checker, simulator and executor need not know which one they run.
 */
import { evenRanges, type PeerId } from '../base.ts';
import { ownedCrews } from '../plan/ownerTable.ts';
import type { Plan } from '../plan/plan.ts';

/** A plan of one layer a stage and one sample a micro-batch, without state: what a schedule needs of a plan. */
function placed(
  peers: readonly PeerId[],
  count: number,
  stages: number,
  table: Parameters<typeof ownedCrews>[3],
): Plan {
  const microBatches = evenRanges(count, count).map((samples, id) => ({ id, samples }));
  return {
    stages: ownedCrews(peers, stages, microBatches, table).map((crew, stage) => ({
      layers: [stage, stage + 1],
      members: crew.map(({ peer, carried }) => ({
        peer,
        microBatches: carried.map(({ id }) => id),
        samples: carried.length,
        recompute: [],
      })),
    })),
    microBatches,
    state: [],
    // Whoever asks for a placement names its builder too.
    schedule: 'gpipe',
  };
}

/** Each peer has `chunks` stages: stage s is on peer s mod p. With one chunk: the straight pipeline. */
export const loopedPlan = (peers: readonly PeerId[], microBatches: number, chunks: number): Plan =>
  placed(peers, microBatches, chunks * peers.length, {});

/** Chimera's placement: 2·`pairs` pipelines over the same peers. */
export const bidirectionalPlan = (peers: readonly PeerId[], microBatches: number, pairs: number): Plan =>
  placed(peers, microBatches, peers.length, { schedule: 'chimera', pairs });
