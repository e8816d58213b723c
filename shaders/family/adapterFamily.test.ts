import { expect, it } from 'vitest';
import { adapterFamily } from './adapterFamily.ts';

const subgroups = new Set(['subgroups']);

it('gives the software family to SwiftShader with its subgroups of four', () => {
  const swiftshader = { architecture: 'swiftshader', subgroupMinSize: 4, subgroupMaxSize: 4 };
  expect(adapterFamily(swiftshader, subgroups)).toBe('software');
  expect(adapterFamily({ isFallbackAdapter: true, subgroupMinSize: 4, subgroupMaxSize: 4 }, subgroups)).toBe(
    'software',
  );
});

it('gives the gpu family to everything else', () => {
  expect(adapterFamily({ isFallbackAdapter: true, subgroupMinSize: 8, subgroupMaxSize: 8 }, subgroups)).toBe('gpu');
  expect(adapterFamily({ architecture: 'bifrost', subgroupMinSize: 4, subgroupMaxSize: 4 }, subgroups)).toBe('gpu');
  expect(adapterFamily({ architecture: 'swiftshader', subgroupMinSize: 4, subgroupMaxSize: 4 }, new Set())).toBe('gpu');
  expect(adapterFamily({}, subgroups)).toBe('gpu');
});
