/**
 * A text of one letter, learned by heart on Dawn: losses down to 5e-10 and their gradient norms, beside those of an independent
 * trainer in float64 (`oracle.py train … --double`).
 */
import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { dawnDevice } from '../../shaders/testing/dawn.ts';
import { at, got, invariant, peerId } from '../../swarm/base.ts';
import { initialValues } from '../../swarm/model/initialValues.ts';
import { equalSplit } from '../../swarm/planner/equalSplit.ts';
import { modelOf, parseRunFile } from '../../swarm/run/runFile.ts';
import { gpuEngine, gpuOf } from '../../web/src/gpu/engine.ts';
import { OneProcess } from '../../web/src/testing/oneProcess.ts';
import { goldenFolder, tokensOf, windowsOf } from './goldenCase.ts';

const STEPS = 40;
/** Relative: 40 steps of float32 have come to 4e-6. */
const BOUND = 2e-5;

test('losses down to 5e-10 and their gradient norms are those of float64', async () => {
  const dawn = await dawnDevice();
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  const folder = goldenFolder('unusual');
  const parsed = parseRunFile(JSON.parse(await readFile(new URL('run.json', folder), 'utf8')), 'unusual');
  invariant(parsed.ok, 'the run file is right');
  const { value: run } = parsed;
  const train = { ...run.train, steps: STEPS, optimizer: { ...run.train.optimizer, learningRate: 0.03 } };
  const model = modelOf(run);
  const lines = (await readFile(new URL('repeats.jsonl', folder), 'utf8')).trim().split('\n');
  const expected: readonly { loss: number; gradientNorm: number }[] = lines.map((line) => JSON.parse(line));
  const windows = windowsOf(await readFile(new URL('repeats.txt', folder)), train);
  const values = new Map(model.blocks.map(({ name }) => [name, initialValues(model, name, 1)]));
  const swarm = await OneProcess.open({
    ...{ engine: gpuEngine(gpuOf(dawn.value), model, train), model, train },
    plan: equalSplit(model, 1, ['a', 'b'].map(peerId), { stages: 2, microBatches: 1 }),
    read: async (block, kind, [from, to]) =>
      kind === 'value' ? got(values, block).slice(from, to) : new Float32Array(to - from),
    tokens: (step, samples) => tokensOf(windows(step, samples)),
  });
  for (let step = 0; step < STEPS; step++) {
    const wanted = at(expected, step);
    const done = await swarm.step(step);
    expect(Math.abs(done.loss / wanted.loss - 1), `loss of step ${step}`).toBeLessThan(BOUND);
    expect(Math.abs(done.gradientNorm / wanted.gradientNorm - 1), `norm of step ${step}`).toBeLessThan(BOUND);
  }
  swarm.close();
});
