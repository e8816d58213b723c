/**
 * Every schedule on Dawn against the float64 trainer, with 1, 2 and 4 peers in one process: what stages of one peer hand to
 * each other stays on the GPU, chimera's two copies of a stage add up their gradients, and memory is what was predicted.
 */
import { beforeAll, describe, expect, test } from 'vitest';
import { dawnDevice } from '../../shaders/testing/dawn.ts';
import { arrayOf, at, invariant, type PeerId, peerId } from '../../swarm/base.ts';
import { predictedBytes } from '../../swarm/memory/memory.ts';
import type { Plan } from '../../swarm/plan/plan.ts';
import { equalSplit, type SplitOptions } from '../../swarm/planner/equalSplit.ts';
import { recomputing } from '../../swarm/schedule/recompute.ts';
import { stepTraffic } from '../../swarm/ways/stepTraffic.ts';
import { roleBytes } from '../../web/src/executor/role.ts';
import type { Gpu } from '../../web/src/gpu/device.ts';
import { gpuEngine, gpuOf } from '../../web/src/gpu/engine.ts';
import { OneProcess } from '../../web/src/testing/oneProcess.ts';
import { openGoldenCase } from './goldenCase.ts';

const STEPS = process.env.SHOAL_LONG === '1' ? 12 : 3;

let dawn: Awaited<ReturnType<typeof dawnDevice>>;
let gpu: Gpu | null = null;
beforeAll(async () => {
  dawn = await dawnDevice();
  if (dawn.ok) gpu = gpuOf(dawn.value);
});

const peers = (count: number): PeerId[] => arrayOf(count, (index) => peerId(`d${index}`));

async function train(name: string, planOf: (model: Parameters<typeof equalSplit>[0], samples: number) => Plan) {
  invariant(gpu, 'a device');
  const golden = await openGoldenCase(name);
  const { model, run, expected, readState: read, tokens } = golden;
  const plan = planOf(model, run.train.globalBatchSize);
  const engine = gpuEngine(gpu, model, run.train);
  const swarm = await OneProcess.open({ engine, model, train: run.train, plan, read, tokens });
  const { sequenceLength: sequence } = run.train;
  for (const role of swarm.roles)
    expect(roleBytes(role), role.peer).toBe(predictedBytes(model, plan, role.peer, sequence));
  for (let step = 0; step < STEPS; step++) {
    const wanted = at(expected, step);
    if (step === 1) {
      // Nothing of it is left for a step: it has the same stages and slots.
      const heldOut = await swarm.evaluate(step);
      expect(Math.abs(heldOut / wanted.loss - 1), `held-out loss before step ${step}`).toBeLessThan(2e-6);
    }
    const { loss, gradientNorm, bytes } = await swarm.step(step);
    expect(Math.abs(loss / wanted.loss - 1), `loss of step ${step}`).toBeLessThan(2e-6);
    expect(Math.abs(gradientNorm / wanted.gradientNorm - 1), `norm of step ${step}`).toBeLessThan(5e-5);
    const { slice, values, activation, gradient } = stepTraffic(model, plan, { sequence, wire: 'f32' });
    expect(bytes).toBe(slice + values + activation + gradient);
  }
  swarm.close();
  await golden.weights.close();
}

describe('trains as the float64 trainer does', () => {
  const cases: readonly (readonly [name: string, donors: number, options: SplitOptions])[] = [
    ['gpt2-tiny', 1, { schedule: 'interleaved', chunks: 4 }],
    ['gpt2-tiny', 2, { schedule: 'interleaved', chunks: 2 }],
    ['gpt2-tiny', 4, { schedule: 'chimera', pairs: 1 }],
    ['odd-gpt2', 2, { schedule: 'breadth-first', chunks: 2 }],
    ['llama-tiny', 2, { schedule: 'chimera', pairs: 1 }],
    ['llama-tiny', 1, { schedule: 'breadth-first', chunks: 2 }],
    ['odd-llama', 2, { schedule: '1f1b', warmup: 'overlap' }],
    ['gpt2-tiny', 4, { schedule: 'eager', warmup: 'overlap' }],
    ['odd-gpt2', 2, { schedule: 'eager' }],
    ['gpt2-tiny', 4, { schedule: 'varuna' }],
    ['odd-llama', 2, { schedule: 'varuna' }],
  ];
  test.each(cases)('[PL11] [ST1] %s on %i peers: %j', async (name, donors, options) => {
    if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
    await train(name, (model, samples) => equalSplit(model, samples, peers(donors), options));
  });

  test('of one peer with neighbouring stages in 1f1b, where slots are used again', async () => {
    if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
    await train('gpt2-tiny', (model, samples) => {
      const options = { schedule: 'interleaved', chunks: 4, microBatches: samples } as const;
      return { ...equalSplit(model, samples, peers(1), options), schedule: '1f1b' };
    });
  });

  test('[SC26] [SC40] varuna with several stages a peer and few places past the bound', async () => {
    if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
    await train('llama-tiny', (model, samples) => {
      const plan = equalSplit(model, samples, peers(2), { schedule: 'interleaved', chunks: 2 });
      return recomputing({ ...plan, schedule: 'varuna', maxInFlight: 3 }, [0, 1, 2]);
    });
  });

  test('[SC15] eager with several stages a peer, which are computed again', async () => {
    if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
    await train('llama-tiny', (model, samples) => {
      const plan = equalSplit(model, samples, peers(2), { schedule: 'interleaved', chunks: 2 });
      return recomputing({ ...plan, schedule: 'eager' }, [0, 2]);
    });
  });
});
