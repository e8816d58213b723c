/** A small plan in which everything occurs: lanes, a tied table, keepers that compute nothing, replicas, odd cuts. */
import { type PeerId, peerId, type Range } from '../../swarm/base.ts';
import { block, type Model } from '../../swarm/model/model.ts';
import type { BlockState, Plan } from '../../swarm/plan/plan.ts';

export const [A, B, C, KEEPER] = ['a', 'b', 'c', 'keeper'].map(peerId) as [PeerId, PeerId, PeerId, PeerId];

/** a has the first stage, b and c are lanes of the second; a fourth peer only keeps state. Shards are cut at odd places. */
export function planWith(model: Model, replicas: number): Plan {
  const cut = (name: BlockState['block'], ...shards: readonly (readonly [PeerId, ...PeerId[]])[]): BlockState => {
    const { elements } = block(model, name);
    const edge = (place: number): number =>
      place === shards.length ? elements : Math.round(((elements / shards.length) * place) / 3) * 3;
    return {
      block: name,
      shards: shards.map(([peer, ...others], place) => {
        const range: Range = [edge(place), edge(place + 1)];
        return { peer, range, replicas: others.slice(0, replicas) };
      }),
    };
  };
  const member = (peer: PeerId, ...microBatches: number[]) => {
    return { peer, microBatches, samples: 2 * microBatches.length, recompute: [] };
  };
  return {
    stages: [
      { layers: [0, 2], members: [member(A, 0, 1, 2, 3)] },
      { layers: [2, 4], members: [member(B, 0, 2), member(C, 1, 3)] },
    ],
    microBatches: [0, 1, 2, 3].map((id) => ({ id, samples: [2 * id, 2 * id + 2] })),
    state: [
      cut('embedding', [A, B, KEEPER], [KEEPER, C, A]), // tied: b and c compute with a part of it
      cut('layer.0', [A, KEEPER, B]),
      cut('layer.1', [KEEPER, A, C], [C, KEEPER, A]),
      cut('layer.2', [B, C, KEEPER], [C, B, A]),
      cut('layer.3', [A, B, C]),
      cut('head', [C, A, B]),
    ],
    schedule: '1f1b',
  };
}
