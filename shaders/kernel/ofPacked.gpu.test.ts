import { beforeAll, expect, test } from 'vitest';
import { embedTokens } from '../embedding/embedTokens.ts';
import { matmul } from '../family/matmul.ts';
import { rmsNormForward } from '../norm/rmsNormForward.ts';
import { dawnDevice } from '../testing/dawn.ts';
import type { Kernel } from './kernel.ts';
import { ofPacked } from './ofPacked.ts';
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

const BOTH = KERNELS.flatMap(([kernel, name]) =>
  (['f16', 'int8'] as const).map((as) => ({ title: `${kernel.name} of ${as}`, kernel, name, as })),
);

test.each(BOTH)('$title', async ({ kernel, name, as }) => {
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  const { device, family } = dawn.value;
  for (const dims of kernel.cases.slice(0, 3)) {
    const { excess, where } = await compareKernel(device, family, ofPacked(kernel, [[name, as]]), dims);
    expect(excess, `${JSON.stringify(dims)} ${where}`).toBeLessThanOrEqual(0);
  }
});
