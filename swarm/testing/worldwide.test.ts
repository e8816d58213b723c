import { expect, it } from 'vitest';
import { arrayOf, invariant, type Random, seededRandom, totalOf } from '../base.ts';
import { clusterCosts } from '../planner/clusterCosts.ts';
import { planCluster } from '../planner/clusterPlan.ts';
import { judgeDraft, planOf } from '../planner/draft.ts';
import { forecast } from '../planner/forecast.ts';
import type { Draft } from '../planner/layout.ts';
import { worldwideProblem } from './worldwide.ts';

function shuffled(places: readonly number[], random: Random): number[] {
  const keyed = places.map((place) => ({ place, key: random() }));
  return keyed.sort((a, b) => a.key - b.key).map(({ place }) => place);
}

it('64 peers in eight regions of the world: who shares a stage is near, and the step is half of a random placement’s', () => {
  const problem = worldwideProblem(256);
  const costs = clusterCosts(problem);
  const found = planCluster(problem, ({ work }) => work < 1_500);
  invariant(found.ok, 'a plan');
  const groups = found.value.plan.stages.map(({ members }) => members.map(({ peer }) => costs.placeOf(peer)));
  const regions = problem.cluster.links.regions;
  const mean = totalOf(regions, ({ bytesPerSecond }) => bytesPerSecond ?? 0) / regions.length;
  for (const group of groups)
    for (const one of group)
      for (const other of group)
        if (one !== other) expect(costs.linkAt(one, other).bytesPerSecond).toBeGreaterThan(mean);

  const random = seededRandom(1);
  const everyone = [...costs.peers.keys()];
  const placed = (sizes: readonly number[]): number => {
    const order = shuffled(everyone, random);
    let from = 0;
    const byChance: Draft['groups'] = sizes.map((size) => {
      from += size;
      return order.slice(from - size, from);
    });
    const { microBatches } = found.value.plan;
    const schedule = found.value.plan.schedule === 'gpipe' ? 'gpipe' : '1f1b';
    const judged = judgeDraft(costs, { groups: byChance, microBatches: microBatches.length, schedule });
    const drafted = judged && planOf(costs, judged.draft);
    return drafted && drafted.missingBytes === 0 ? forecast(costs, drafted.plan).stepSeconds : Infinity;
  };
  const [ours, eight] = [groups.map((group) => group.length), arrayOf(8, () => 8)];
  for (const sizes of [ours, ours, ours, eight, eight, eight])
    expect(placed(sizes) / found.value.predicted.stepSeconds).toBeGreaterThan(2);
}, 120_000);
