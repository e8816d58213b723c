import { expect, test } from 'vitest';
import { modelFromConfig } from '../../swarm/model/families.ts';
import type { Model } from '../../swarm/model/model.ts';
import { peers, problems } from '../../swarm/plan/plan.ts';
import type { ClusterProblem } from '../../swarm/planner/clusterCosts.ts';
import { planAtOnce, planInSlices } from './planSearch.ts';

function modelOf(layers: number): Model {
  const sizes = { n_layer: layers, n_head: 2, n_embd: 32, n_positions: 64, vocab_size: 64 };
  const model = modelFromConfig({ model_type: 'gpt2', ...sizes });
  if (!model.ok) throw new Error(model.reason);
  return model.value;
}

/** Peer i computes a layer in (i + 1) hundredths of a second. */
function problem(count: number, memoryBytes = 1e9, layers = 4): ClusterProblem {
  const cluster = {
    peers: Array.from({ length: count }, (_, index) => ({
      ...{ id: `p${count - index}`, memoryBytes, uploadBytesPerSecond: null, downloadBytesPerSecond: null },
      measured: { forwardSecondsPerLayer: [(count - index) / 100], backwardSecondsPerLayer: [(count - index) / 50] },
    })),
    links: { default: { latencySeconds: 0.001, bytesPerSecond: 1e8 }, regions: [], pairs: [] },
  };
  return { model: modelOf(layers), batch: { samples: 8, sequence: 64 }, cluster };
}

const still = (): number => 0;

test('[AP23] a plan that is needed at once is a valid one, found by a clock that stands still as well', () => {
  const found = planAtOnce(problem(3), still);
  if (!found.ok) throw new Error(found.reason);
  expect(problems(problem(3).model, { samples: 8 }, found.value.plan)).toEqual([]);
});

/** Milliseconds a look: as on a machine that is busy with other things. */
test.each([
  ['8 donors', 8, 10],
  ['8 donors, slowly', 8, 100],
  ['40 donors', 40, 10],
])('[AP23] a plan that is needed at once keeps to the clock, the first one too: %s', (_, count, lookMs) => {
  let ms = 0;
  const clock = () => {
    ms += lookMs;
    return ms;
  };
  const found = planAtOnce(problem(count, 1e9, 12), clock);
  expect(found.ok).toBe(true);
  expect(ms).toBeLessThanOrEqual(800);
});

test('[AP23] among many donors a plan that is needed at once has the fastest', () => {
  const found = planAtOnce(problem(40), still);
  if (!found.ok) throw new Error(found.reason);
  for (const peer of peers(found.value.plan)) expect(Number(peer.slice(1))).toBeLessThanOrEqual(24);
});

test('[CL10] where the fastest do not hold the model all are asked, and a refusal says what is missing', () => {
  expect(planAtOnce(problem(26, 50_000), still)).toMatchObject({ ok: false, reason: expect.stringMatching(/bytes/) });
});

test('[CL10] what would fit is looked for as long as there is time, at once and in slices', async () => {
  const tight = problem(2, 1_400_000, 12);
  let ms = 0;
  const late = planAtOnce(tight, () => {
    ms += 1_000;
    return ms;
  });
  expect(late).toMatchObject({
    ok: false,
    reason: expect.stringMatching(/bytes of memory are missing [^.]*(?:\.\d[^.]*)?$/),
  });
  const said = { ok: false, reason: expect.stringMatching(/What would fit: \d+ of its 12 layers; .*more like p2/) };
  expect(planAtOnce(tight, still)).toMatchObject(said);
  let turns = 0;
  const found = await planInSlices(
    tight,
    () => ms++,
    async () => void turns++,
  );
  expect(found).toMatchObject(said);
  expect(turns).toBeGreaterThan(0);
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
