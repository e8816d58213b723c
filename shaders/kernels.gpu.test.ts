/**
 * Every kernel of the table, in both adapter families, against its CPU reference on a software adapter (Dawn for Node).
 * Neither family's variants of these kernels use subgroups, so any adapter runs both.
 */
import { beforeAll, describe, expect, test } from 'vitest';
import { at, below, seededRandom } from '../swarm/base.ts';
import { inStepsOf } from './attention/attention.ts';
import type { AdapterFamily, Dims, Kernel } from './kernel/kernel.ts';
import { PipelineCache } from './kernel/launch.ts';
import { textKey } from './kernel/text.ts';
import { caseArrays, caseTable, compareKernel, runKernel } from './kernel/verify.ts';
import { kernels } from './kernels.ts';
import { crossEntropy } from './loss/crossEntropy.ts';
import { crossEntropyLoss } from './loss/crossEntropyLoss.ts';
import { type DawnDevice, dawnDevice } from './testing/dawn.ts';
import { sumSquares } from './update/sumSquares.ts';

// The matrix product has tests of its own, for every layout and epilogue: matmul.gpu.test.ts.
const others = kernels.filter(({ name }) => !name.startsWith('matmul'));

/** `npm test -- --long`: GPUs' texts of attention, which a software adapter takes seconds for, in every case. */
const IS_LONG = process.env.SHOAL_LONG === '1';
const FEW = 3;
const ON_GPU = { family: 'gpu', inBoxes: false } as const;

const normOf = (x: ArrayLike<number>): number => Math.hypot(...Array.from(x));

const found = await dawnDevice();
const skipped = found.ok ? '' : ` (skipped: ${found.reason})`;

describe.skipIf(!found.ok)(`kernels against their CPU references${skipped}`, () => {
  let dawn: DawnDevice;
  let pipelines: PipelineCache;
  beforeAll(() => {
    if (!found.ok) return;
    dawn = found.value;
    pipelines = new PipelineCache(dawn.device);
  });

  const families: readonly AdapterFamily[] = ['software', 'gpu'];
  const isTried = (family: AdapterFamily, { name, cases }: Kernel, dims: Dims): boolean =>
    IS_LONG || family === 'software' || !name.startsWith('attention') || cases.indexOf(dims) < FEW;
  const table = families.flatMap((family) =>
    caseTable(others)
      .filter(({ kernel, dims }) => isTried(family, kernel, dims))
      .map((row) => ({ ...row, family, title: `${family} ${row.title}` })),
  );
  test.each(table)('$title', async ({ family, kernel, dims }) => {
    const comparison = await compareKernel(dawn.device, family, kernel, dims, { pipelines });
    expect(comparison.excess, comparison.where).toBeLessThanOrEqual(0);
  });

  const attention = others.filter(({ name }) => name.startsWith('attention'));
  // Heads of one team and of two, a strip that is short, tiles that are.
  const widths = (IS_LONG ? [64, 80] : [80]).flatMap((D) => attention.map((kernel) => ({ kernel, D })));
  test.each(widths)('$kernel.name with all steps written out, heads of $D: the same bits', async ({ kernel, D }) => {
    const dims = { B: 1, T: 70, H: 2, K: 1, D, scale: D ** -0.5 };
    const arrays = caseArrays(kernel, dims);
    const whole = inStepsOf(kernel, 'wide');
    expect(textKey(whole, dims, ON_GPU)).not.toBe(textKey(kernel, dims, ON_GPU));
    const [some, all] = [kernel, whole].map((one) => runKernel(dawn.device, 'gpu', one, dims, arrays, pipelines));
    expect(await all).toEqual(await some);
  });

  const losses = [crossEntropy, crossEntropyLoss];
  test.each(
    families.flatMap((family) =>
      losses.map((kernel) => ({ family, kernel, V: 7 })).concat(losses.map((kernel) => ({ family, kernel, V: 1024 }))),
    ),
  )(
    '$family $kernel.name of $V, targets ever more certain: never less than 0, as the closed form',
    async ({ family, kernel, V }) => {
      const N = 64;
      const leads = Array.from({ length: N }, (_, n) => n);
      const logits_NV = Float32Array.from({ length: N * V }, (_, i) => (i % V === 3 ? Math.floor(i / V) - 20 : -20));
      const arrays = { ...{ logits_NV, targets_N: new Uint32Array(N).fill(3) }, loss_N: new Float32Array(N) };
      const { loss_N } = await runKernel(dawn.device, family, kernel, { N, V, scale: 1 }, arrays, pipelines);
      for (const lead of leads) {
        // One logit is `lead` above V − 1 equal ones.
        const exact = Math.log1p((V - 1) * Math.exp(-lead));
        expect(loss_N[lead], `lead ${lead}`).toBeGreaterThanOrEqual(0);
        const error = Math.abs((loss_N[lead] ?? Number.NaN) / exact - 1);
        expect(error, `lead ${lead}`).toBeLessThan(2e-6 + lead * 2 ** -23);
      }
    },
  );

  const rowsOfLoss = [1e-2, 1e-4, 1e-6, 1e-8].flatMap((loss) => [7, 1024, 5001].map((V) => ({ loss, V })));
  test.each(families.flatMap((family) => rowsOfLoss.map((row) => ({ family, ...row }))))(
    '$family: a loss of $loss among $V and its gradient have the digits of the logits',
    async ({ family, loss, V }) => {
      const N = 5;
      const random = seededRandom(V);
      const logits_NV = Float32Array.from({ length: N * V }, () => 4 * random());
      const targets_N = Uint32Array.from({ length: N }, () => below(random, V));
      for (const [n, target] of targets_N.entries()) {
        const others = logits_NV.slice(n * V, (n + 1) * V).filter((_, v) => v !== target);
        const sum = others.reduce((total, logit) => total + Math.exp(logit), 0);
        logits_NV[n * V + target] = Math.log(sum / Math.expm1(loss));
      }
      const arrays = { logits_NV, targets_N, loss_N: new Float32Array(N) };
      const wanted = { logits_NV: Float64Array.from(logits_NV), loss_N: new Float64Array(N) };
      const dims = { N, V, scale: 0.25 };
      for (const [n, target] of targets_N.entries()) {
        // By the formula alone, the target taken off: log(1 + others) and others / (1 + others).
        const row = logits_NV.subarray(n * V, (n + 1) * V);
        const powers = Array.from(row, (logit, v) => (v === target ? 0 : Math.exp(logit - at(row, target))));
        const others = powers.reduce((total, power) => total + power, 0);
        wanted.loss_N[n] = Math.log1p(others);
        for (const [v, power] of powers.entries())
          wanted.logits_NV[n * V + v] = ((v === target ? -others : power) / (1 + others)) * dims.scale;
      }
      const evaluated = await runKernel(dawn.device, family, crossEntropyLoss, dims, arrays, pipelines);
      const trained = await runKernel(dawn.device, family, crossEntropy, dims, arrays, pipelines);
      expect(Math.abs(normOf(trained.logits_NV) / normOf(wanted.logits_NV) - 1)).toBeLessThan(5e-6);
      for (const { loss_N } of [evaluated, trained])
        for (const [n, exact] of wanted.loss_N.entries())
          expect(Math.abs(at(loss_N, n) / exact - 1)).toBeLessThan(5e-6);
    },
  );

  test.each(families)('[CO13] %s: a logit that is not finite leaves no loss that is', async (family) => {
    const rows = [
      [9, Number.NaN],
      [Number.NaN, 9],
      [Number.POSITIVE_INFINITY, 9],
      [9, Number.POSITIVE_INFINITY],
    ];
    const [N, V] = [rows.length, 8];
    const logits_NV = Float32Array.from(rows.flatMap((row) => [...row, ...Array(V - 2).fill(0)]));
    const arrays = { logits_NV, targets_N: new Uint32Array(N), loss_N: new Float32Array(N) };
    for (const kernel of losses) {
      const { loss_N } = await runKernel(dawn.device, family, kernel, { N, V, scale: 1 }, arrays, pipelines);
      expect(Array.from(loss_N, Number.isFinite), kernel.name).toEqual(rows.map(() => false));
    }
  });

  test.each(families)('%s: the norm of two million elements is good to 1e-6', async (family) => {
    const dims = { n: 2_000_003, accumulate: 0 };
    const arrays = caseArrays(sumSquares, dims);
    const { partials } = await runKernel(dawn.device, family, sumSquares, dims, arrays, pipelines);
    const total = Array.from(partials).reduce((sum, partial) => sum + partial, 0);
    const exact = Array.from(arrays.x).reduce((sum, x) => sum + x * x, 0);
    expect(Math.abs(Math.sqrt(total / exact) - 1)).toBeLessThan(1e-6);
  });
});
