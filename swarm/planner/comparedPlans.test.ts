import { expect, it } from 'vitest';
import type { Result } from '../base.ts';
import { steadyCase } from '../testing/steadyClusters.ts';
import type { ClusterProblem } from './clusterCosts.ts';
import { type ClusterPlan, planCluster } from './clusterPlan.ts';
import { comparedPlans } from './comparedPlans.ts';

/** So few that two searches apart differ by a lot. */
const DRAFTS = 200;
const SEEDS = process.env.SHOAL_LONG === '1' ? 500 : 3;

const step = (found: Result<ClusterPlan>): number =>
  found.ok ? found.value.predicted.stepSeconds : Number.POSITIVE_INFINITY;

it.each(Array.from({ length: SEEDS }, (_, index) => index + 1))(
  'beside each other, no cluster is slower for a peer, memory or a faster link more: seed %i',
  { timeout: 120_000 },
  async (seed) => {
    const known = new Map<ClusterProblem, Result<ClusterPlan>>();
    const search = (problem: ClusterProblem): Result<ClusterPlan> => {
      const found =
        known.get(problem) ??
        planCluster(
          problem,
          ({ work }) => work < DRAFTS,
          () => [],
        );
      known.set(problem, found);
      return found;
    };
    const { problem, richer } = steadyCase(seed);
    for (const { name, problem: more } of richer) {
      const added = await comparedPlans(problem, more, search);
      expect(step(added.after), name).toBeLessThanOrEqual(step(added.before));
      const removed = await comparedPlans(more, problem, search);
      expect(step(removed.before), `without ${name}`).toBeLessThanOrEqual(step(removed.after));
    }
  },
);
