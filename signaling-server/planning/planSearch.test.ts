import { expect, test } from 'vitest';
import { modelFromConfig } from '../../swarm/families.ts';
import { peers, problems } from '../../swarm/plan.ts';
import type { ClusterProblem } from '../../swarm/planner/clusterCosts.ts';
import { planAtOnce, planInSlices } from './planSearch.ts';

const model = modelFromConfig({
  model_type: 'gpt2',
  n_layer: 4,
  n_head: 2,
  n_embd: 32,
  n_positions: 64,
  vocab_size: 64,
});
if (!model.ok) throw new Error(model.reason);

/** Peer i computes a layer in (i + 1) hundredths of a second. */
function problem(count: number, memoryBytes = 1e9): ClusterProblem {
  const cluster = {
    peers: Array.from({ length: count }, (_, index) => ({
      ...{ id: `p${count - index}`, memoryBytes, uploadBytesPerSecond: null, downloadBytesPerSecond: null },
      measured: { forwardSecondsPerLayer: [(count - index) / 100], backwardSecondsPerLayer: [(count - index) / 50] },
    })),
    links: { default: { latencySeconds: 0.001, bytesPerSecond: 1e8 }, regions: [], pairs: [] },
  };
  if (!model.ok) throw new Error(model.reason);
  return { model: model.value, batch: { samples: 8, sequence: 64 }, cluster };
}

const still = (): number => 0;

test('[AP2] a plan that is needed at once is a valid one, found by a clock that stands still as well', () => {
  const found = planAtOnce(problem(3), still);
  if (!found.ok) throw new Error(found.reason);
  expect(problems(problem(3).model, { samples: 8 }, found.value.plan)).toEqual([]);
});

test('[AP2] among many donors a plan that is needed at once has the fastest', () => {
  const found = planAtOnce(problem(40), still);
  if (!found.ok) throw new Error(found.reason);
  for (const peer of peers(found.value.plan)) expect(Number(peer.slice(1))).toBeLessThanOrEqual(24);
});

test('[CL10] where the fastest do not hold the model all are asked, and a refusal says what is missing', () => {
  expect(planAtOnce(problem(26, 50_000), still)).toMatchObject({ ok: false, reason: expect.stringMatching(/bytes/) });
});

test('[AP2] in slices others have their turn, and late is the end of it', async () => {
  let turns = 0;
  let ms = 0;
  const found = await planInSlices(
    problem(6),
    () => ms++,
    async () => void turns++,
  );
  expect(found.ok).toBe(true);
  expect(turns).toBeGreaterThan(10);
  expect(ms).toBeLessThan(20_000);
});
