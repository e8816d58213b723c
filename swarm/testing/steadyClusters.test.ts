import { expect, it } from 'vitest';
import type { ClusterProblem } from '../planner/clusterCosts.ts';
import { planCluster } from '../planner/clusterPlan.ts';
import { steadyCase } from './steadyClusters.ts';

/** Drafts, for the few peers of these clusters. */
const WORK = 4_000;

const stepSeconds = (problem: ClusterProblem): number => {
  const found = planCluster(problem, ({ work }) => work < WORK);
  return found.ok ? found.value.predicted.stepSeconds : Infinity;
};

it.each([6, 11])('no step is longer for a peer, memory or a faster link more: seed %i', (seed) => {
  const { problem, richer } = steadyCase(seed, 8);
  const before = stepSeconds(problem);
  expect(before).toBeLessThan(Infinity);
  for (const { name, problem: more } of richer) expect(stepSeconds(more) / before, name).toBeLessThanOrEqual(1.02);
});
