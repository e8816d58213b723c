/**
 * The product on matrix units, which no adapter of a test machine has to have. So it is tried in three ways: its text by
 * Tint, on Dawn's null adapter, which offers every feature and runs nothing; its numbers with the unit's four functions
 * written out in plain WGSL; and as it stands where the adapter has a unit.
 */
import { beforeAll, describe, expect, test } from 'vitest';
import { forDevice } from '../forDevice.ts';
import type { Dims, Kernel } from '../kernel/kernel.ts';
import { PipelineCache } from '../kernel/launch.ts';
import { compareKernel } from '../kernel/verify.ts';
import { type DawnDevice, dawnDevice, nullDevice } from '../testing/dawn.ts';
import { matmul, onMatrixUnit } from './matmul.ts';
import { type MatrixTraits, type MatrixUnit, matrixUnits } from './matrixUnit.ts';
import type { Epilogue, Layout } from './product.ts';

const FORMS: readonly { readonly layout: Layout; readonly epilogue: Epilogue }[] = [
  { layout: 'NN', epilogue: {} },
  { layout: 'NT', epilogue: {} },
  { layout: 'TN', epilogue: {} },
  { layout: 'NN', epilogue: { bias: true, gelu: true } },
  { layout: 'NN', epilogue: { bias: true, residual: true } },
  { layout: 'NT', epilogue: { geluBackward: true } },
  { layout: 'NT', epilogue: { accumulate: true } },
  { layout: 'TN', epilogue: { accumulate: true, biasGradient: true } },
];
/** As many of them have no epilogue. */
const PLAIN = 3;
const SLICED = matmul({ layout: 'TN', epilogue: { biasGradient: true }, slices: true });
const PRODUCTS = [...FORMS.map((form) => matmul(form)), SLICED];

/**
 * Of the product's own: rows of four and single ones, remainders of every tile. A text takes a software adapter a second
 * to compile, and an epilogue is one function of an element, which no tile or tail changes.
 */
const casesOf = ({ cases }: Kernel, index: number): readonly Dims[] => cases.slice(index < PLAIN ? 1 : 2, 3);
/** The larger tile, which the table gives to larger products only. */
const LARGE = FORMS.slice(0, PLAIN).map((form) => matmul({ ...form, tried: { matrix: { side: 64, depthBytes: 64 } } }));

// Asked for once a file: the cases below are listed before any device is there.
const found = await dawnDevice();

describe('the text', () => {
  const units: readonly MatrixUnit[] = [
    { component: 'f32', m: 8, n: 8, k: 8, lanes: 32 },
    { component: 'f16', m: 16, n: 16, k: 16, lanes: 32 },
    { component: 'f16', m: 8, n: 16, k: 16, lanes: 64 },
  ];
  test.each(units)('for $component $m×$n×$k, $lanes lanes is what Tint takes', async (unit) => {
    const device = await nullDevice();
    if (!device.ok) throw new Error(device.reason);
    const pipelines = new PipelineCache(device.value);
    const kernels = PRODUCTS.map((product) => forDevice({ units: [unit] }, unit.component, product));
    await pipelines.precompile(
      kernels.flatMap((kernel, index) => casesOf(kernel, index).map((dims) => [kernel, dims] as const)),
      'gpu',
    );
    expect(pipelines.size).toBeGreaterThan(kernels.length);
  });
});

/**
 * One invocation is a subgroup, and the first four multiply. An operand is where it lies in its strip, which no one changes before it is multiplied; a
 * result is a place in private memory, which begins as zeros.
 */
function writtenOut(body: string, { m, n, k }: MatrixUnit): string {
  let results = 0;
  const text = body
    .replaceAll(/^alias.*$/gm, '')
    .replace(', subgroup: u32) {', ') {\n  let subgroup = local;')
    .replaceAll('Result()', () => `${m * n * results++}u`)
    .replaceAll(/subgroupMatrixLoad<\w+, \w+>\(&\w+, /g, 'vec2u(')
    .replaceAll('subgroupMatrixStore<row_major>(&matrices, ', 'store(')
    .replaceAll('subgroupMatrixMultiplyAccumulate', 'multiplyAccumulate');
  return `${text}
var<private> results: array<f32, ${m * n * results}>;
// A lies by columns, B by rows: x is the first element, y the stride.
fn multiplyAccumulate(a: vec2u, b: vec2u, result: u32) -> u32 {
  for (var i = 0u; i < ${m * n}u; i++) {
    var v = 0.0;
    for (var k = 0u; k < ${k}u; k++) { v += aStrip[a.x + k * a.y + i / ${n}u] * bStrip[b.x + k * b.y + i % ${n}u]; }
    results[result + i] += v;
  }
  return result;
}
fn store(offset: u32, result: u32, stride: u32) {
  for (var i = 0u; i < ${m * n}u; i++) { matrices[offset + i / ${n}u * stride + i % ${n}u] = results[result + i]; }
}
`;
}

/** A software adapter's too, which no run uses. */
function everyUnit({ info, device }: DawnDevice): MatrixUnit[] {
  const { subgroupMaxSize = 0, subgroupMatrixConfigs = [] }: MatrixTraits = info;
  return matrixUnits({ subgroupMaxSize, subgroupMatrixConfigs }, device.features);
}

function onWrittenOutUnit(product: Kernel, unit: MatrixUnit): Kernel {
  const kernel = onMatrixUnit(product, unit);
  return {
    ...kernel,
    source: (family, dims) => {
      const source = kernel.source(family, dims);
      const body = () => writtenOut(source.body(), unit);
      return { ...source, key: `${source.key} written out`, directives: [], takesSubgroup: false, body };
    },
  };
}

describe.skipIf(!found.ok)(
  `the numbers on ${found.ok ? found.value.description : `no device: ${found.reason}`}`,
  () => {
    let pipelines: PipelineCache;
    beforeAll(() => {
      if (found.ok) pipelines = new PipelineCache(found.value.device);
    });

    const compare = async (kernel: Kernel, cases: readonly Dims[]): Promise<void> => {
      if (!found.ok) return;
      for (const dims of cases) {
        const { excess, where } = await compareKernel(found.value.device, 'gpu', kernel, dims, { pipelines });
        expect(excess, `${JSON.stringify(dims)}: ${where}`).toBeLessThanOrEqual(0);
      }
    };

    const square: MatrixUnit = { component: 'f32', m: 8, n: 8, k: 8, lanes: 32 };
    test.each(PRODUCTS.map((product, index) => ({ name: product.name, product, index })))(
      '$name by a written-out unit of 8×8×8',
      ({ product, index }) => compare(onWrittenOutUnit(product, square), casesOf(product, index)),
    );

    const wide: MatrixUnit = { component: 'f32', m: 8, n: 16, k: 16, lanes: 32 };
    test.each(LARGE.map((product) => ({ name: product.name, product })))(
      '$name in large tiles by a written-out unit of 8×16×16',
      ({ product }) => compare(onWrittenOutUnit(product, wide), product.cases.slice(4, 5)),
    );

    const units = found.ok ? everyUnit(found.value) : [];
    test.skipIf(units.length === 0)(
      `by the adapter’s own unit${units.length > 0 ? '' : ' (skipped: it has none)'}`,
      async () => {
        for (const unit of units) {
          for (const [index, product] of [...PRODUCTS, ...LARGE].entries()) {
            await compare(forDevice({ units: [unit] }, unit.component, product), casesOf(product, index));
          }
        }
      },
      // A software adapter with a unit takes some seconds for each text.
      300_000,
    );
  },
);
