/** What a driver gets of the products and of attention: no accumulator is indexed, nothing is bounded in a loop. */
import { describe, expect, test } from 'vitest';
import { inStepsOf } from './attention/attention.ts';
import { attentionBackwardKeyValue } from './attention/attentionBackwardKeyValue.ts';
import { attentionBackwardQuery } from './attention/attentionBackwardQuery.ts';
import { attentionForward } from './attention/attentionForward.ts';
import { matmul } from './family/matmul.ts';
import type { Epilogue, Layout } from './family/product.ts';
import { GPU_CANDIDATES } from './family/tiles.ts';
import { forDevice } from './forDevice.ts';
import type { Dims, Kernel } from './kernel/kernel.ts';
import { textOf } from './kernel/text.ts';
import { dawnDevice } from './testing/dawn.ts';
import { costlyIndexing, spirvOf } from './testing/spirv.ts';

const gpu = (kernel: Kernel, dims: Dims): string => textOf(kernel, dims, { family: 'gpu', inBoxes: false });

const IS_LONG = process.env.SHOAL_LONG === '1';
/** Four steps of K written out are as good as eight: shallow texts are compiled sooner. */
const DEPTH = 4;
const PRODUCTS: readonly [Layout, Epilogue][] = [
  ['NN', { bias: true, gelu: true }],
  ['NT', { geluBackward: true }],
  ['TN', { accumulate: true, biasGradient: true }],
];
/** One shape of each way in which an invocation loads its elements, or all. */
const SHAPES = new Map(
  GPU_CANDIDATES.map((one) => ({ ...one, depth: DEPTH })).map((one) => [
    JSON.stringify(IS_LONG ? one : [one.prefetch, one.direct]),
    one,
  ]),
);
const products = [...SHAPES.values()].flatMap((shape) =>
  PRODUCTS.map(([layout, epilogue]): [string, string] => [
    `${layout} ${Object.entries(shape).flat().join(' ')}`,
    gpu(matmul({ layout, epilogue, tried: { gpu: shape } }), { M: 1024, N: 768, K: 260 }),
  ]),
);
/** Rows of scalars, which no tile divides. */
const scalars = PRODUCTS.map(([layout, epilogue]): [string, string] => [
  `${layout} of scalars`,
  gpu(matmul({ layout, epilogue }), { M: 33, N: 37, K: 29 }),
]);
const attention = [attentionForward, attentionBackwardQuery, attentionBackwardKeyValue].flatMap((kernel) =>
  (['usual', 'wide'] as const).flatMap((gpuClass) =>
    (IS_LONG ? [20, 64, 80, 128] : [80]).map((D): [string, string] => [
      `${kernel.name} ${D} ${gpuClass}`,
      gpu(inStepsOf(kernel, gpuClass), { B: 1, T: 512, H: 2, K: 2, D }),
    ]),
  ),
);
/** Of a table in pieces, read one by one; and an input's gradient in slices. */
const shallow = { gpu: { rows: 32, columns: 32, depth: 4, ownRows: 4, ownColumns: 4 } };
const ofTables: [string, string][] = [
  ['NT of wider', gpu(matmul({ layout: 'NT', ofWider: true, tried: shallow }), { M: 64, N: 37, K: 64, P: 129 })],
  [
    'NN of wider in slices',
    gpu(matmul({ layout: 'NN', slices: true, ofWider: true, tried: shallow }), {
      M: 64,
      N: 64,
      K: 129,
      S: 128,
      P: 257,
    }),
  ],
  ['TN of wider', gpu(matmul({ layout: 'TN', ofWider: true, tried: shallow }), { M: 128, N: 64, K: 32, P: 257 })],
];
/** Of halves, which SwiftShader has not. */
const device = await dawnDevice();
const hasHalves = device.ok && device.value.device.features.has('shader-f16');
const halves = PRODUCTS.map(([layout, epilogue]): [string, string] => [
  `${layout} of halves`,
  gpu(forDevice({ units: [], gpuClass: 'wide' }, 'f16', matmul({ layout, epilogue })), { M: 1024, N: 2048, K: 260 }),
]);
const texts = Object.fromEntries([...products, ...scalars, ...ofTables, ...attention, ...(hasHalves ? halves : [])]);

describe('the reader of SPIR-V', () => {
  const text = (body: string): string => `var<workgroup> strip: array<f32, 60>;
@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) i: u32) {
  ${body}
}`;
  test('sees accumulators that are indexed, and bounds in a loop', () => {
    const found = spirvOf({
      indexed: text('var s = vec4f(x[i]); for (var j = 0u; j < 4u; j++) { s[j] += x[i + j]; } x[i] = s.x + s.y;'),
      bounded: text('for (var k = 0u; k < 60u; k++) { strip[i] = x[k]; } x[i] = strip[0];'),
      called: text('for (var k = 0u; k < u32(x[0]); k++) { x[i] += strip[u32(x[k])]; }'),
      masked: text('for (var k = 0u; k < 60u; k++) { strip[i % 60u] = x[k]; } x[i] = strip[0];'),
      once: text('strip[i] = x[i]; var s = vec4f(x[i]); s.y = strip[0]; x[i] = s.x + s.y;'),
    });
    if (!found.ok) return console.warn(`skipped: ${found.reason}`);
    const costs = new Map([...found.value].map(([name, listing]) => [name, costlyIndexing(listing).length]));
    expect(costs.get('indexed')).toBeGreaterThan(0);
    expect(costs.get('bounded')).toBe(1);
    expect(costs.get('called')).toBe(1);
    expect(costs.get('masked')).toBe(0);
    expect(costs.get('once')).toBe(0);
  });
});

test('no text of a product or of attention indexes its accumulators, or bounds an index in a loop', () => {
  const found = spirvOf(texts);
  if (!found.ok) return console.warn(`skipped: ${found.reason}`);
  expect([...found.value.keys()]).toEqual(Object.keys(texts));
  const costly = Array.from(found.value, ([name, listing]) => [name, costlyIndexing(listing)] as const);
  expect(costly.filter(([, lines]) => lines.length > 0)).toEqual([]);
});
