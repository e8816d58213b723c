import { expect, test } from 'vitest';
import { arrayOf } from '../../swarm/base.ts';
import { modelFromConfig } from '../../swarm/model/families.ts';
import type { Model } from '../../swarm/model/model.ts';
import { peers, problems } from '../../swarm/plan/plan.ts';
import type { ClusterProblem } from '../../swarm/planner/clusterCosts.ts';
import { planAtOnce, planInSlices } from './planThread.ts';

function modelOf(layers: number): Model {
  const sizes = { n_layer: layers, n_head: 2, n_embd: 32, n_positions: 64, vocab_size: 64 };
  const model = modelFromConfig({ model_type: 'gpt2', ...sizes });
  if (!model.ok) throw new Error(model.reason);
  return model.value;
}

/** Peer i computes a layer in (i + 1) hundredths of a second. */
function problem(count: number, memoryBytes = 1e9, layers = 4): ClusterProblem {
  const cluster = {
    peers: arrayOf(count, (index) => ({
      ...{ id: `p${count - index}`, memoryBytes, uploadBytesPerSecond: null, downloadBytesPerSecond: null },
      measured: { forwardSecondsPerLayer: [(count - index) / 100], backwardSecondsPerLayer: [(count - index) / 50] },
    })),
    links: { default: { latencySeconds: 0.001, bytesPerSecond: 1e8 }, regions: [], pairs: [] },
  };
  return { model: modelOf(layers), batch: { samples: 8, sequence: 64 }, cluster };
}

test('a plan that is needed at once is a valid one', () => {
  const found = planAtOnce(problem(3));
  if (!found.ok) throw new Error(found.reason);
  expect(problems(problem(3).model, { samples: 8 }, found.value.plan)).toEqual([]);
});

test('the same donors get the same plan, whatever the machine has to do beside', async () => {
  const once = await planInSlices(problem(8), async () => {});
  const busy = await planInSlices(problem(8), () => new Promise((resolve) => setImmediate(resolve)));
  expect(busy).toEqual(once);
  expect(planAtOnce(problem(40))).toEqual(planAtOnce(problem(40)));
});

test('among many donors a plan that is needed at once has the fastest', () => {
  const found = planAtOnce(problem(40));
  if (!found.ok) throw new Error(found.reason);
  for (const peer of peers(found.value.plan)) expect(Number(peer.slice(1))).toBeLessThanOrEqual(24);
});

test('where the fastest do not hold the model all are asked, and a refusal says what is missing', () => {
  expect(planAtOnce(problem(26, 50_000))).toMatchObject({
    ok: false,
    reason: expect.stringMatching(/of memory is missing/),
  });
});

test('what would fit is said, at once and in slices', async () => {
  const tight = problem(2, 1_400_000, 12);
  const said = {
    ok: false,
    reason: expect.stringMatching(/What would help: a model of \d+ layers? instead of 12; .*more donors? like p2/),
  };
  expect(planAtOnce(tight)).toMatchObject(said);
  expect(await planInSlices(tight, async () => {})).toMatchObject(said);
});

test('in slices others have their turn', async () => {
  let turns = 0;
  const found = await planInSlices(problem(6), async () => void turns++);
  expect(found.ok).toBe(true);
  expect(turns).toBeGreaterThan(10);
});
