/** What the search is measured by, against every plan of small clusters tried one by one. */

import { expect, test } from 'vitest';
import { arrayOf, seededRandom, total } from '../base.ts';
import { type ClusterCosts, clusterCosts } from '../planner/clusterCosts.ts';
import { memoryOf, planOf } from '../planner/draft.ts';
import { forecast } from '../planner/forecast.ts';
import type { CutSketch } from '../planner/layout.ts';
import { WORK_ORDERS } from '../planner/moves.ts';
import { leastStepSeconds } from './exhaustive.ts';
import { SMALL_BATCH, SMALL_MODEL, smallCluster } from './smallClusters.ts';

/** Every peer in a stage from 0 on or in none, the stages in every order, without regard to how long any of it takes. */
function* everyDraft(costs: ClusterCosts): Generator<CutSketch> {
  const [peers, most] = [costs.peers.length, costs.model.layers];
  for (let stages = 1; stages <= Math.min(peers, most); stages++)
    for (let code = 0; code < (stages + 1) ** peers; code++) {
      const stageOf = costs.peers.map((_, place) => (Math.floor(code / (stages + 1) ** place) % (stages + 1)) - 1);
      const groups = arrayOf(stages, (stage) => stageOf.flatMap((own, place) => (own === stage ? [place] : [])));
      if (groups.some((group) => group.length === 0)) continue;
      for (let cut = 0; cut < most ** stages; cut++) {
        const layers = groups.map((_, stage) => (Math.floor(cut / most ** stage) % most) + 1);
        if (total(layers) !== most) continue;
        for (const microBatches of [1, 2, 4, 8])
          for (const order of WORK_ORDERS) yield { groups, layers, microBatches, ...order };
      }
    }
}

function stepSeconds(costs: ClusterCosts, draft: CutSketch): number {
  const drafted = planOf(costs, draft);
  if (drafted === null || drafted.missingBytes > 0) return Infinity;
  const memory = memoryOf(costs, drafted.plan);
  const isHeld = costs.peers.every(({ id, memoryBytes }) => (memory.get(id) ?? 0) <= memoryBytes);
  return isHeld ? forecast(costs, drafted.plan).stepSeconds : Infinity;
}

test('branch and bound leaves out no better plan: 8 clusters of two and three peers, every plan', () => {
  for (let seed = 1; seed <= 8; seed++) {
    const cluster = smallCluster(seededRandom(seed), 2 + (seed % 2));
    const costs = clusterCosts({ model: SMALL_MODEL, batch: SMALL_BATCH, cluster });
    let best = Infinity;
    for (const draft of everyDraft(costs)) best = Math.min(best, stepSeconds(costs, draft));
    expect(leastStepSeconds(costs, Infinity) / best, `seed ${seed}`).toBeCloseTo(1, 9);
  }
});

test('what is no better than the bound is not found', () => {
  const cluster = smallCluster(seededRandom(1), 3);
  const costs = clusterCosts({ model: SMALL_MODEL, batch: SMALL_BATCH, cluster });
  const best = leastStepSeconds(costs, Infinity);
  expect(leastStepSeconds(costs, best / 2)).toBe(best / 2);
});
