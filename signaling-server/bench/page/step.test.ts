/** What a step is refused for before anything is allocated. The devices are stubs: none of them is worked with. */
import { expect, test } from 'vitest';
import type { OpenDevice } from '../../../web/src/gpu/device.ts';
import { benchStep, type StepBench } from './step.ts';

const GIGABYTE = 1e9;
const BENCH: StepBench = {
  ...{ family: 'gpt2', layers: 1, width: 4, heads: 2, sequence: 3, batch: 2, vocabulary: 5 },
  ...{ steps: 1, learningRate: 1e-3, clip: true, profile: false, compute: 'f32', memoryBytes: GIGABYTE, tokens: null },
};

const stub = (isSoftware: boolean): OpenDevice => ({
  device: { features: new Set() } as unknown as GPUDevice,
  family: 'software',
  units: [],
  profile: { vendor: '', architecture: '', description: '', software: isSoftware, browser: '' },
});

const reasonOf = async (change: Partial<StepBench>): Promise<string | null> => {
  const result = await benchStep(stub(true), { ...BENCH, ...change }, null);
  return result.ok ? null : result.reason;
};

test('halves and a profile, where the adapter has neither', async () => {
  expect(await reasonOf({ compute: 'f16' })).toBe('this adapter has no shader-f16: only f32 can be measured here');
  expect(await reasonOf({ profile: true })).toBe('this adapter has no timestamp queries: there is no profile of it');
});

test('a step that takes more memory than the machine of a software adapter has', async () => {
  const words = 'of memory, and this machine has 1 GB';
  // Values, gradients and two moments of a table of 1e8 tokens, four floats each, and the logits of six positions.
  expect(await reasonOf({ vocabulary: 1e8 })).toMatch(new RegExp(`^a step of this model takes 8\\.8\\d GB ${words}$`));
  expect(await reasonOf({ batch: 2 ** 50 })).toContain(words);
  expect(await reasonOf({ sequence: 1e9 })).toContain(words);
});
