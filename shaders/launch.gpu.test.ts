/** Launching and comparing kernels, with one that doubles its input. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { Kernel } from './kernel.ts';
import { compileVariant, createLaunch, encodeLaunch, PipelineCache, updateDims } from './launch.ts';
import { dawnDevice } from './testing/dawn.ts';
import { compareKernel, compareOutputs } from './verify.ts';

const code = (body: string): string => `struct Dims { count: u32, factor: f32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(1) @binding(0) var<uniform> dims: Dims;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3u) { if (id.x < dims.count) { ${body} } }`;

const kernel = (name: string, body: string): Kernel => ({
  name,
  tensors: [
    { name: 'x', access: 'read', type: 'f32' },
    { name: 'y', access: 'readWrite', type: 'f32' },
  ],
  dims: [
    { name: 'count', type: 'u32' },
    { name: 'factor', type: 'f32' },
  ],
  sizes: ({ count = 0 }) => ({ x: count, y: count }),
  variant: () => ({
    key: name,
    code: code(body),
    entryPoint: 'main',
    subgroups: false,
    workgroups: ({ count = 0 }) => [Math.ceil(count / 64), 1, 1],
  }),
  cpu({ x, y }, { factor = 0 }) {
    for (let i = 0; i < x.length; i++) y[i] = x[i] * factor;
  },
  cases: [],
  tolerance: { absolute: 0, relative: 1e-6 },
  cost: () => ({ flops: 0, bytes: 0 }),
});

const scale = kernel('scale', 'y[id.x] = dims.factor * x[id.x];');
const found = await dawnDevice();

describe.skipIf(!found.ok)(`launches${found.ok ? '' : ` (skipped: ${found.reason})`}`, () => {
  let device: GPUDevice;
  beforeAll(() => {
    if (found.ok) device = found.value.device;
  });

  it('finds a right kernel right at every size', async () => {
    for (const count of [1, 64, 65]) {
      const { excess, where } = await compareKernel(device, 'gpu', scale, { count, factor: 3 });
      expect(excess, where).toBeLessThanOrEqual(0);
    }
  });

  it('says where a wrong kernel is wrong', async () => {
    const wrong = kernel('wrong', 'y[id.x] = dims.factor * x[id.x] + select(0.0, 1.0, id.x == 70u);');
    const { excess, where } = await compareKernel(device, 'gpu', wrong, { count: 80, factor: 2 });
    expect(excess).toBeCloseTo(1, 3);
    expect(where).toMatch(/^y\[70\] is /);
  });

  it('names the kernel and the place when WGSL does not compile', async () => {
    const broken = kernel('broken', 'y[id.x] = nothing;');
    await expect(compileVariant(device, broken, broken.variant('gpu', {}))).rejects.toThrow(/broken.*nothing/s);
  });

  it('compiles a key once', async () => {
    const pipelines = new PipelineCache(device);
    const variant = scale.variant('gpu', {});
    await pipelines.precompile([
      [scale, variant],
      [scale, variant],
    ]);
    expect(pipelines.size).toBe(1);
    expect(pipelines.get(scale, variant)).toBe(pipelines.get(scale, variant));
  });

  it('encodes a launch again with other dims, allocating nothing', async () => {
    const variant = scale.variant('gpu', {});
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
    const buffer = (label: string): GPUBuffer => device.createBuffer({ label, size: 16, usage });
    const [x, y] = [buffer('x'), buffer('y')];
    const readback = device.createBuffer({ size: 16, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
    device.queue.writeBuffer(x, 0, new Float32Array([1, 2, 3, 4]));
    const pipeline = await compileVariant(device, scale, variant);
    const buffers = { x: { buffer: x }, y: { buffer: y } };
    const launch = createLaunch({ device, pipeline, kernel: scale, variant, buffers, dims: { count: 4, factor: 2 } });
    updateDims(device, launch, { count: 4, factor: 10 });
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    encodeLaunch(pass, launch);
    pass.end();
    encoder.copyBufferToBuffer(y, 0, readback, 0, 16);
    device.queue.submit([encoder.finish()]);
    await readback.mapAsync(GPUMapMode.READ);
    expect([...new Float32Array(readback.getMappedRange())]).toEqual([10, 20, 30, 40]);
  });

  it('refuses a dispatch of more than 65,535 workgroups and a missing buffer', async () => {
    const variant = scale.variant('gpu', {});
    const pipeline = await compileVariant(device, scale, variant);
    const request = { device, pipeline, kernel: scale, variant, buffers: {} };
    expect(() => createLaunch({ ...request, dims: { count: 64 * 65_536, factor: 1 } })).toThrow(/65536×1×1/);
    expect(() => createLaunch({ ...request, dims: { count: 1, factor: 1 } })).toThrow(/a buffer for x/);
  });
});

it('counts a NaN, or an output left out, as infinitely wrong', () => {
  const cpu = { x: new Float32Array(1), y: new Float32Array([1, 2]) };
  const gpu = { y: new Float32Array([1, Number.NaN]) };
  expect(compareOutputs(scale, gpu, cpu).excess).toBe(Number.POSITIVE_INFINITY);
  expect(() => compareOutputs(scale, {}, cpu)).toThrow(/wrote no y/);
});
