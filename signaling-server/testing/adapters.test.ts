import { expect, test } from 'vitest';
import { at, got } from '../../swarm/base.ts';
import { referenceTensors, referenceTrainer } from '../../swarm/reference/trainer.ts';
import { openAdapterCase } from './adapterCase.ts';

/** The numbers come from independent float64 trainers that add A and B by hand; of pairs they know no windows. */
test.each([
  ['lora-tiny', 12, 'final.safetensors'],
  ['lora-gpt2', 4, null],
  ['lora-muon', 4, null],
  ['preference-tiny', 8, 'final.safetensors'],
])('%s: an adapter is trained on weights that stand', async (name, steps, final) => {
  const { run, model, trained, standing, expected, windows, tensorsOf } = await openAdapterCase(name);
  const base = referenceTensors({ blocks: model.standing ?? [] }, (block) => got(standing, block));
  const tensors = referenceTensors(model, (block) => got(trained, block));
  const trainer = referenceTrainer(model, tensors, run.train, base);
  for (let step = 0; step < steps; step++) {
    const row = at(expected, step);
    const { loss, gradientNorm } = trainer.step(windows(step));
    expect(Math.abs(loss / row.loss - 1)).toBeLessThan(1e-9);
    expect(Math.abs(gradientNorm / row.gradientNorm - 1)).toBeLessThan(1e-9);
  }
  if (final === null) return;
  const ends = await tensorsOf(final);
  expect([...ends.keys()].toSorted()).toEqual([...tensors.keys()].toSorted());
  for (const [tensor, values] of ends) {
    const mine = got(trainer.tensors, tensor);
    expect(Math.max(...values.map((value, i) => Math.abs(value - at(mine, i)))), tensor).toBeLessThan(1e-6);
  }
});
