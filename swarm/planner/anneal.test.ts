import { describe, expect, it } from 'vitest';
import { invariant, seededRandom } from '../base.ts';
import { annealed } from './anneal.ts';
import { clusterCosts } from './clusterCosts.ts';
import { type Estimated, estimate } from './estimate.ts';
import { SMALL_BATCH, SMALL_MODEL, smallCluster } from './smallClusters.ts';
import { canonicalOrder } from './starts.ts';

const TRIES = 500;

function cooled(seed: number): { readonly start: Estimated; readonly found: readonly Estimated[] } {
  const cluster = smallCluster(seededRandom(seed), 12);
  const costs = clusterCosts({ model: SMALL_MODEL, batch: SMALL_BATCH, cluster });
  const order = canonicalOrder(costs);
  const [first = 0, second = 0] = order.toSorted(
    (a, b) => (costs.peers[b]?.memoryBytes ?? 0) - (costs.peers[a]?.memoryBytes ?? 0),
  );
  const start = estimate(costs, [[first], [second]], SMALL_BATCH.samples, '1f1b');
  invariant(start !== null && start.missingBytes === 0, `seed ${seed}: a start that fits`);
  const cooling = annealed(costs, start, order, TRIES, seededRandom(1));
  let step = cooling.next();
  while (!step.done) step = cooling.next();
  return { start, found: step.value };
}

describe('annealing', () => {
  it('finds better guesses, the best first, one of each number of stages, each peer in one place', () => {
    for (const seed of [1, 2, 3]) {
      const { start, found } = cooled(seed);
      const [best] = found;
      expect(best?.seconds, `seed ${seed}`).toBeLessThan(start.seconds);
      expect(found.map(({ seconds }) => seconds)).toEqual(found.map(({ seconds }) => seconds).sort((a, b) => a - b));
      expect(new Set(found.map(({ draft }) => draft.groups.length)).size).toBe(found.length);
      for (const { draft } of found) {
        const places = draft.groups.flat();
        expect(new Set(places).size, `seed ${seed}`).toBe(places.length);
        expect(draft.layers.reduce((sum, count) => sum + count, 0)).toBe(SMALL_MODEL.layers);
      }
    }
  });

  it('finds the same again with the same seed', () => {
    expect(cooled(2).found).toEqual(cooled(2).found);
  });
});
