/** Every layout, epilogue, family and case of the matrix product against its CPU reference, on Dawn's software adapter. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { AdapterFamily, Dims, Kernel } from '../kernel/kernel.ts';
import { PipelineCache } from '../kernel/launch.ts';
import { caseArrays, compareKernel, compareOutputs, runKernel } from '../kernel/verify.ts';
import { dawnDevice } from '../testing/dawn.ts';
import { LARGE_CASE, type MatmulForm, matmul } from './matmul.ts';
import type { Epilogue, Layout } from './product.ts';
import { GPU_CANDIDATES, GPU_TILES, type GpuShape } from './tiles.ts';

/** `npm test -- --long`: every shape and case. */
const IS_LONG = process.env.SHOAL_LONG === '1';
const EPILOGUES: readonly Epilogue[] = [
  {},
  { bias: true },
  { bias: true, gelu: true },
  { bias: true, residual: true },
  { residual: true },
  { geluBackward: true },
  { accumulate: true },
];
/** A weight gradient has no activation. */
const GRADIENT_EPILOGUES: readonly Epilogue[] = [
  {},
  { accumulate: true },
  { biasGradient: true },
  { accumulate: true, biasGradient: true },
];
const LAYOUTS: readonly Layout[] = ['NN', 'NT', 'TN'];
/** Products in slices, which only GPUs make. */
const SLICED: readonly MatmulForm[] = [
  { layout: 'TN', slices: true },
  { layout: 'TN', epilogue: { biasGradient: true }, slices: true },
  { layout: 'NN', slices: true },
  { layout: 'NN', slices: true, ofWider: true },
];
/** Of tables in pieces. */
const OF_WIDER: readonly MatmulForm[] = [
  { layout: 'NT', ofWider: true },
  { layout: 'NN', ofWider: true },
  { layout: 'NN', epilogue: { accumulate: true }, ofWider: true },
  { layout: 'TN', epilogue: { accumulate: true }, ofWider: true },
];
/** Of answers. */
const FEW_ROWS: readonly MatmulForm[] = (['NN', 'NT'] as const).flatMap((layout) =>
  EPILOGUES.filter(({ geluBackward, accumulate }) => !geluBackward && !accumulate).map((epilogue) => ({
    ...{ layout, epilogue },
    fewRows: true,
  })),
);
const FORMS = LAYOUTS.flatMap((layout) =>
  (layout === 'TN' ? GRADIENT_EPILOGUES : EPILOGUES).map((epilogue) => ({ layout, epilogue })),
);
const FAMILIES: readonly AdapterFamily[] = ['software', 'gpu'];

/**
 * The text for GPUs takes a software adapter a second to compile, and its epilogues are one function of an element that
 * no tile or tail changes: the plain product runs every case, an epilogue one of vec4 rows and one of scalar rows.
 */
function casesOf(kernel: Kernel, family: AdapterFamily, epilogue: Epilogue): readonly Dims[] {
  if (family === 'software') return kernel.cases;
  return Object.keys(epilogue).length === 0 ? [...kernel.cases, LARGE_CASE] : kernel.cases.slice(1, 3);
}

/**
 * Every shape of tile that the tables have, or that is tried, shallow since a software adapter compiles the deep ones for seconds: rows of vec4s and of scalars
 * with tails on every side, and tiles that fit.
 */
const SHALLOW = new Map(
  (IS_LONG ? GPU_CANDIDATES : Object.values(GPU_TILES).flat())
    .map(({ rows, columns, ownRows, ownColumns, ...ways }: GpuShape) => {
      const { prefetch, direct } = ways;
      return { rows, columns, depth: 4, ownRows, ownColumns, ...(prefetch && { prefetch }), ...(direct && { direct }) };
    })
    .map((gpu) => [JSON.stringify(gpu), gpu]),
);
const TRIED = [...SHALLOW.values()].flatMap((gpu) =>
  LAYOUTS.map((layout) => ({ layout, gpu, how: gpu.prefetch ? ', loaded ahead' : gpu.direct ? ', direct' : '' })),
);
const TRIED_CASES: readonly Dims[] = [
  { M: 37, N: 132, K: 42 },
  ...(IS_LONG
    ? [
        { M: 5, N: 37, K: 257 },
        { M: 128, N: 256, K: 8 },
      ]
    : []),
];

// Asked for once a file: the cases below are listed before any device is there.
const found = await dawnDevice();

describe.skipIf(!found.ok)(
  `matrix product on ${found.ok ? found.value.description : `no device: ${found.reason}`}`,
  () => {
    let pipelines: PipelineCache;

    beforeAll(() => {
      if (found.ok) pipelines = new PipelineCache(found.value.device);
    });

    for (const family of FAMILIES) {
      const lacksLanes = family === 'software' && found.ok && found.value.family !== 'software';
      describe.skipIf(lacksLanes)(`${family} family${lacksLanes ? ' (needs subgroups of four)' : ''}`, () => {
        const all = FORMS.map((form) => {
          const kernel = matmul(form);
          return { kernel, cases: casesOf(kernel, family, form.epilogue) };
        });
        const parts = OF_WIDER.map((form) => {
          const kernel = matmul(form);
          return { kernel, cases: family === 'gpu' ? kernel.cases.slice(1, 4) : kernel.cases };
        });
        const wholeOf = (form: MatmulForm) => ({ kernel: matmul(form), cases: matmul(form).cases });
        const sliced = family === 'gpu' ? SLICED.map(wholeOf) : [];
        const few = FEW_ROWS.map(wholeOf);
        /** As a CPU runs them: every case of every form. */
        const direct =
          family === 'gpu'
            ? (IS_LONG ? [...FORMS, ...OF_WIDER, ...SLICED] : FORMS).map((form) =>
                wholeOf({ ...form, gpuClass: 'cpu' }),
              )
            : [];
        const listed = [
          ...[...all, ...parts, ...sliced, ...few].map((one) => ({ ...one, how: '' })),
          ...direct.map((one) => ({ ...one, how: ', direct,' })),
        ];
        it.runIf(family === 'gpu').each(TRIED)(
          '$layout in tiles of $gpu.rows×$gpu.columns, $gpu.ownRows×$gpu.ownColumns each$how: the same bits',
          async ({ layout, gpu }) => {
            if (!found.ok) return;
            const { device } = found.value;
            for (const dims of TRIED_CASES) {
              const kernel = matmul({ layout, tried: { gpu } });
              const arrays = caseArrays(kernel, dims);
              const made = await runKernel(device, family, kernel, dims, arrays, pipelines);
              const table = await runKernel(device, family, matmul({ layout }), dims, arrays, pipelines);
              expect(made.c_MN).toEqual(table.c_MN);
              kernel.cpu(arrays, dims);
              const { excess, where } = compareOutputs(kernel, made, arrays);
              expect(excess, where).toBeLessThanOrEqual(0);
            }
          },
        );
        // Bias, gelu, residual and column sums where an invocation has eight rows of eight columns.
        it.runIf(family === 'gpu').each(FORMS.filter(({ epilogue }) => Object.keys(epilogue).length > 0))(
          '$layout with $epilogue in the largest tiles',
          async ({ layout, epilogue }) => {
            if (!found.ok) return;
            const gpu = { rows: 128, columns: 128, depth: 4, ownRows: 8, ownColumns: 8 };
            const kernel = matmul({ layout, epilogue, tried: { gpu } });
            for (const dims of TRIED_CASES.slice(0, 2)) {
              const { excess, where } = await compareKernel(found.value.device, family, kernel, dims, { pipelines });
              expect(excess, where).toBeLessThanOrEqual(0);
            }
          },
        );
        for (const { kernel, cases, how } of listed) {
          it(`${kernel.name}${how} equals its reference in ${cases.length} cases`, async () => {
            if (!found.ok) return;
            const { device } = found.value;
            await pipelines.precompile(
              cases.map((dims) => [kernel, dims]),
              family,
            );
            for (const dims of cases) {
              const { excess, where } = await compareKernel(device, family, kernel, dims, { pipelines });
              expect(excess, `${JSON.stringify(dims)}: ${where}`).toBeLessThanOrEqual(0);
            }
          });
        }
      });
    }
  },
);
