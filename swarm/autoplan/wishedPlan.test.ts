import { expect, test } from 'vitest';
import { invariant } from '../base.ts';
import { modelFromConfig } from '../model/families.ts';
import { parseCluster } from '../planner/cluster.ts';
import { planCluster } from '../planner/clusterPlan.ts';
import { replicaWish } from '../planner/replicas.ts';
import { wishedPlan } from './wishedPlan.ts';

/** Two equal peers, so far apart that a step is shortest with one of them alone. */
function problemOf(memoryBytes: number) {
  const sizes = { n_layer: 4, n_head: 4, n_embd: 128, n_positions: 64, vocab_size: 64 };
  const model = modelFromConfig({ model_type: 'gpt2', ...sizes });
  const peers = ['north', 'south'].map((id) => ({ id, memoryBytes, flopsPerSecond: 1e12 }));
  const links = { default: { latencySeconds: 0.5, bytesPerSecond: 1e4 } };
  const cluster = parseCluster({ peers, links }, 'c.json');
  invariant(model.ok && cluster.ok, 'a problem');
  const batch = { samples: 4, sequence: 32 };
  return { model: model.value, batch, cluster: cluster.value, replicas: replicaWish(undefined) };
}

test('a fixed order is judged as it is asked for: everyone has a part, however far away', () => {
  const searched = planCluster(problemOf(1e9), ({ work }) => work < 500);
  invariant(searched.ok, 'a plan');
  expect(searched.value.plan.stages.length).toBe(1);
  for (const schedule of ['gpipe', '1f1b'] as const) {
    const wished = wishedPlan(problemOf(1e9), { schedule });
    invariant(wished.ok, 'a plan');
    const { plan, predicted, idle } = wished.value;
    expect([plan.schedule, plan.stages.length, idle]).toEqual([schedule, 2, []]);
    expect(predicted.stepSeconds).toBeGreaterThan(searched.value.predicted.stepSeconds);
    expect(predicted.peers.every(({ busySeconds, memoryBytes }) => busySeconds > 0 && memoryBytes > 0)).toBe(true);
  }
});

test('what such a plan lacks is told by the names of peers', () => {
  const refused = wishedPlan(problemOf(100_000), { schedule: 'gpipe' });
  expect(refused).toMatchObject({
    ok: false,
    reason: expect.stringMatching(/of memory is missing\. (north|south) gives/),
  });
});
