/**
 * The families of models on Dawn against the float64 trainer, in two stages whose first computes its layers again: loss
 * and norm of every step, and memory as predicted.
 */
import { beforeAll, expect, test } from 'vitest';
import { dawnDevice } from '../../shaders/testing/dawn.ts';
import { peerId } from '../../swarm/base.ts';
import { predictedBytes } from '../../swarm/memory/memory.ts';
import { equalSplit } from '../../swarm/planner/equalSplit.ts';
import { recomputing } from '../../swarm/schedule/recompute.ts';
import { roleBytes } from '../../web/src/executor/role.ts';
import { gpuEngine, gpuOf } from '../../web/src/gpu/engine.ts';
import { OneProcess } from '../../web/src/testing/oneProcess.ts';
import { openGoldenCase } from './goldenCase.ts';

let dawn: Awaited<ReturnType<typeof dawnDevice>>;
beforeAll(async () => {
  dawn = await dawnDevice();
});

test.each(['llama3-tiny', 'qwen2-tiny', 'qwen3-tiny', 'smollm3-tiny', 'gemma3-tiny'])(
  '[ST1] %s in two stages',
  async (name) => {
    if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
    const { model, run, expected, readState: read, tokens, weights } = await openGoldenCase(name);
    const { train } = run;
    const plan = recomputing(equalSplit(model, train.globalBatchSize, [peerId('a'), peerId('b')]), [0, 1]);
    const engine = gpuEngine(gpuOf(dawn.value), model, train);
    const swarm = await OneProcess.open({ engine, model, train, plan, read, tokens });
    for (const role of swarm.roles)
      expect(roleBytes(role), role.peer).toBe(predictedBytes(model, plan, role.peer, train.sequenceLength));
    for (const [step, wanted] of expected.entries()) {
      const { loss, gradientNorm } = await swarm.step(step);
      expect(Math.abs(loss / wanted.loss - 1), `loss of step ${step}`).toBeLessThan(2e-6);
      expect(Math.abs(gradientNorm / wanted.gradientNorm - 1), `norm of step ${step}`).toBeLessThan(5e-5);
    }
    swarm.close();
    await weights.close();
  },
);
