/** Where a dispatch's dims are, and what they are: without a GPU. */
import { expect, test } from 'vitest';
import { invariant } from '../../swarm/base.ts';
import { kernels } from '../kernels.ts';
import { adamw } from '../update/adamw.ts';
import { allowImmediates, boxDims, dimSlots, dimsPlace, packDims } from './dims.ts';
import { textOf } from './text.ts';

const browser = (...features: string[]) => ({ wgslLanguageFeatures: new Set(features) });
const IMMEDIATES = 'immediate_address_space';

function placeOn(gpu: Parameters<typeof allowImmediates>[1], maxImmediateSize: number | undefined, inBoxes = false) {
  const device = { limits: { maxImmediateSize } } as unknown as GPUDevice;
  allowImmediates(device, gpu);
  return dimsPlace(device, adamw, inBoxes);
}

test('dims are immediates where the browser knows them and its device has the guaranteed 64 bytes, else a uniform', () => {
  expect(placeOn(browser(IMMEDIATES), 64)).toBe('immediate');
  expect(placeOn(browser('subgroup_id'), 64)).toBe('uniform');
  expect(placeOn({}, 64)).toBe('uniform');
  expect(placeOn(browser(IMMEDIATES), undefined)).toBe('uniform');
  expect(placeOn(browser(IMMEDIATES), 48)).toBe('uniform');
});

test('dims of more than 64 bytes are a uniform everywhere: AdamW’s twelve, and six of a box', () => {
  expect(dimSlots(adamw, true)).toHaveLength(18);
  expect(placeOn(browser(IMMEDIATES), 64, true)).toBe('uniform');
});

test('one line of a text depends on where its dims are', () => {
  for (const kernel of kernels) {
    const [dims] = kernel.cases;
    invariant(dims, 'a case');
    const [uniform, immediate] = (['uniform', 'immediate'] as const).map((place) =>
      textOf(kernel, dims, { family: 'gpu', inBoxes: false }, place).split('\n'),
    );
    const differs = uniform?.flatMap((line, index) =>
      line === immediate?.[index] ? [] : [[line, immediate?.[index]]],
    );
    const declared = ['@group(1) @binding(0) var<uniform> dims: Dims;', 'var<immediate> dims: Dims;'];
    expect(differs, kernel.name).toEqual(kernel.dims.length > 0 ? [declared] : []);
  }
});

test('a box’s dims say where it begins and how large the whole grid is, behind the kernel’s own', () => {
  const box = boxDims({ first: [1, 2, 3], size: [4, 5, 6] }, [7, 8, 9]);
  const own = Object.fromEntries(adamw.dims.map(({ name }, index) => [name, 100 + index]));
  expect([...new Uint32Array(packDims(adamw, true, { ...own, ...box }))]).toEqual([
    ...[100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111],
    ...[1, 2, 3, 7, 8, 9, 0, 0],
  ]);
  expect(() => packDims(adamw, true, own)).toThrow(/adamw needs the dim firstX/);
});
