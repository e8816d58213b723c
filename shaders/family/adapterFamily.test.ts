import { expect, it } from 'vitest';
import { adapterFamily, gpuClassOf } from './adapterFamily.ts';

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

it('tells a CPU that runs the kernels for GPUs by the adapter’s word that it is a fallback', () => {
  // As Dawn and Firefox describe llvmpipe.
  expect(gpuClassOf({ vendor: 'mesa', architecture: 'software', isFallbackAdapter: true })).toBe('cpu');
  expect(
    gpuClassOf({ vendor: '', architecture: '', subgroupMinSize: 4, subgroupMaxSize: 128, isFallbackAdapter: true }),
  ).toBe('cpu');
  expect(gpuClassOf({ vendor: 'google', architecture: 'swiftshader', isFallbackAdapter: true })).toBe('usual');
  expect(gpuClassOf({ vendor: 'nvidia', architecture: 'hopper', isFallbackAdapter: false })).toBe('wide');
  expect(gpuClassOf({ vendor: 'arm' })).toBe('narrow');
  expect(gpuClassOf({})).toBe('usual');
});
