/**
 * One donor in a run that asks for f16 trains the golden cases: with halves, on an adapter that has them (llvmpipe, or a
 * GPU), its losses are within 1e-2 of the float64 trainer's; without, it computes in f32 as ever, and the loss scale
 * leaves no trace.
 */
import { expect, test } from 'vitest';
import { dawnDevice } from '../../shaders/testing/dawn.ts';
import { predictedBytes } from '../../swarm/memory/memory.ts';
import { canHalve } from '../../web/src/gpu/device.ts';
import { gpuEngine, gpuOf } from '../../web/src/gpu/engine.ts';
import { Solo } from '../../web/src/testing/solo.ts';
import { openGoldenCase } from './goldenCase.ts';

const dawn = await dawnDevice('halves');
const gpu = dawn.ok ? gpuOf(dawn.value) : null;
const hasHalves = gpu !== null && canHalve(gpu.device, gpu.family);
/** Of losses and of norms. */
const [LOSSES, NORMS] = hasHalves ? [1e-2, 5e-2] : [2e-6, 5e-5];

test.each([
  ['gpt2-tiny', 1],
  ['llama-tiny', 2],
] as const)('[MP1] [MP2] [MP3] %s in %i micro-batches where the run asks for f16', async (name, microBatches) => {
  if (!dawn.ok || !gpu) return console.warn(`skipped: ${dawn.ok ? 'no device' : dawn.reason}`);
  if (!hasHalves) console.warn(`${dawn.value.description} has no shader-f16: in f32`);
  const { run, model, weights, expected, readState: read, tokens } = await openGoldenCase(name);
  const { train } = run;
  const engine = gpuEngine(gpu, model, train, 'f32', 'f16');
  expect(engine.compute).toBe(hasHalves ? 'f16' : 'f32');
  // With halves the first attempts at step 0 overflow: no logit's gradient has room for a scale like this.
  const lossScale = { scale: 2 ** 24, sound: 0 };
  const solo = await Solo.open({ engine, model, train, lossScale, microBatches, read, tokens });
  const { plan, peer } = solo.role;
  expect(solo.bytes).toBe(predictedBytes(model, plan, peer, train.sequenceLength, 'f32', engine.compute));
  let worst = 0;
  // Without halves it is the golden run of every other test: a few steps show that the scale leaves no trace.
  for (const [step, wanted] of expected.slice(0, hasHalves ? expected.length : 3).entries()) {
    const { loss, gradientNorm } = await solo.step(step);
    worst = Math.max(worst, Math.abs(loss / wanted.loss - 1));
    expect(Math.abs(loss / wanted.loss - 1), `loss of step ${step}`).toBeLessThan(LOSSES);
    expect(Math.abs(gradientNorm / wanted.gradientNorm - 1), `norm of step ${step}`).toBeLessThan(NORMS);
  }
  expect(solo.lossScale < lossScale.scale).toBe(hasHalves);
  // Halves leave a trace.
  expect(worst > 1e-6).toBe(hasHalves);
  solo.close();
  await weights.close();
});
