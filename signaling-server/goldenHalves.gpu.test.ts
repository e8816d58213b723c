/**
 * One donor that computes with halves trains the golden cases: its losses are within 1e-2 of the float64 trainer's. On an
 * adapter with shader-f16 (llvmpipe, or a GPU).
 */
import { expect, test } from 'vitest';
import { dawnDevice } from '../shaders/dawn.ts';
import { Solo } from '../web/src/executor/solo.ts';
import { gpuEngine, gpuOf } from '../web/src/gpu/engine.ts';
import { openGoldenCase } from './goldenCase.ts';

const dawn = await dawnDevice();
const reason = dawn.ok ? `${dawn.value.description} has no shader-f16` : dawn.reason;
const hasHalves = dawn.ok && dawn.value.device.features.has('shader-f16');

test.each([
  ['gpt2-tiny', 1],
  ['llama-tiny', 2],
] as const)('[MP1] %s with halves in %i micro-batches', async (name, microBatches) => {
  if (!dawn.ok || !hasHalves) return console.warn(`skipped: ${reason}`);
  const { run, model, weights, expected, readState: read, tokens } = await openGoldenCase(name);
  const engine = gpuEngine(gpuOf(dawn.value), model, run.train, 'f32', 'f16');
  expect(engine.compute).toBe('f16');
  const solo = await Solo.open({ engine, model, train: run.train, microBatches, read, tokens });
  let worst = 0;
  for (const [step, wanted] of expected.entries()) {
    const { loss, gradientNorm } = await solo.step(step);
    worst = Math.max(worst, Math.abs(loss / wanted.loss - 1));
    expect(Math.abs(loss / wanted.loss - 1), `loss of step ${step}`).toBeLessThan(1e-2);
    expect(Math.abs(gradientNorm / wanted.gradientNorm - 1), `norm of step ${step}`).toBeLessThan(5e-2);
  }
  // Halves, not floats: they leave a trace.
  expect(worst).toBeGreaterThan(1e-6);
  solo.close();
  await weights.close();
});
