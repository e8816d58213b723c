import { beforeAll, expect, test } from 'vitest';
import { embedTokens } from '../embedding/embedTokens.ts';
import { matmul } from '../family/matmul.ts';
import { rmsNormForward } from '../norm/rmsNormForward.ts';
import { dawnDevice } from '../testing/dawn.ts';
import type { Kernel } from './kernel.ts';
import { ofPackedHalves } from './ofPackedHalves.ts';
import { compareKernel } from './verify.ts';

let dawn: Awaited<ReturnType<typeof dawnDevice>>;
beforeAll(async () => {
  dawn = await dawnDevice();
});

const KERNELS: readonly (readonly [Kernel, string])[] = [
  [matmul({ layout: 'NN' }), 'b'],
  [matmul({ layout: 'NT' }), 'b'],
  [matmul({ layout: 'NT', fewRows: true }), 'b'],
  [embedTokens, 'token_VC'],
  [rmsNormForward, 'weight_C'],
];

test.each(KERNELS)('$name reads halves, two a word, alone and by fours', async (kernel, name) => {
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  const { device, family } = dawn.value;
  for (const dims of kernel.cases) {
    const { excess, where } = await compareKernel(device, family, ofPackedHalves(kernel, [name]), dims);
    expect(excess, `${JSON.stringify(dims)} ${where}`).toBeLessThanOrEqual(0);
  }
});
