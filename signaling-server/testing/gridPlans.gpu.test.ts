/**
 * The random plans of the grid on Dawn, their peers in one process: the golden curve, and memory to the byte as predicted.
 * Some in CI, all forty in the long lane, where tabs have two of them (`e2e/fidelityGrid.spec.ts`).
 */
import { beforeAll, expect, test } from 'vitest';
import { dawnDevice } from '../../shaders/testing/dawn.ts';
import { arrayOf, at, invariant } from '../../swarm/base.ts';
import { hostBytes, predictedBytes } from '../../swarm/memory/memory.ts';
import { GRID_PLANS, gridPlan, isLayered, WAYS, waysOf } from '../../swarm/testing/gridPlans.ts';
import { roleBytes } from '../../web/src/executor/role.ts';
import { gpuEngine, gpuOf } from '../../web/src/gpu/engine.ts';
import { OneProcess } from '../../web/src/testing/oneProcess.ts';
import { openGoldenCase } from './goldenCase.ts';

const STEPS = 2;

let dawn: Awaited<ReturnType<typeof dawnDevice>>;
beforeAll(async () => {
  dawn = await dawnDevice();
});

const random = ['gpt2-tiny', 'llama-tiny'].flatMap((name, place) =>
  arrayOf(GRID_PLANS, (index) => [name, index + GRID_PLANS * place] as const),
);
/** These have all that saves memory at once. */
const SOME = [6, 19, 29, 30];
/** These gather each block once a pass, one or two at a time, and compute some layers twice. */
const LAYERED = [15, 23];
const chosen = random.filter(([, seed]) => process.env.SHOAL_LONG === '1' || [...SOME, ...LAYERED].includes(seed));

test.each(chosen)('[ST1] [PL40] %s, random plan %i', async (name, seed) => {
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  const { model, run, expected, readState: read, tokens, weights } = await openGoldenCase(name);
  const { train } = run;
  const plan = gridPlan(model, train.globalBatchSize, seed);
  if (SOME.includes(seed)) expect(waysOf(plan)).toEqual([...WAYS]);
  if (LAYERED.includes(seed)) expect(isLayered(plan)).toBe(true);
  const engine = gpuEngine(gpuOf(dawn.value), model, train);
  const swarm = await OneProcess.open({ engine, model, train, plan, read, tokens });
  invariant(swarm.roles.length > 0, 'a plan has peers');
  for (const role of swarm.roles) {
    expect(roleBytes(role), role.peer).toBe(predictedBytes(model, plan, role.peer, train.sequenceLength));
    expect(role.shards.hostBytes, role.peer).toBe(hostBytes(plan, role.peer, undefined));
  }
  for (let step = 0; step < STEPS; step++) {
    const wanted = at(expected, step);
    const { loss, gradientNorm } = await swarm.step(step);
    expect(Math.abs(loss / wanted.loss - 1), `loss of step ${step}`).toBeLessThan(2e-6);
    expect(Math.abs(gradientNorm / wanted.gradientNorm - 1), `norm of step ${step}`).toBeLessThan(5e-5);
  }
  swarm.close();
  await weights.close();
});
