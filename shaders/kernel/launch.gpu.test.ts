/** Launching and comparing kernels, with one that doubles its input. */
import { describe, expect, it } from 'vitest';
import { dawnDevice } from '../testing/dawn.ts';
import { type Kernel, kernel } from './kernel.ts';
import { compileKernel, createLaunch, encodeLaunch, PipelineCache, updateDims } from './launch.ts';
import { f32, read, readWrite, u32 } from './slots.ts';
import { compareKernel, compareOutputs } from './verify.ts';

const made = (name: string, statement: string): Kernel<'x' | 'y', 'count' | 'factor'> =>
  kernel({
    name,
    tensors: [read('x'), readWrite('y')],
    dims: [u32('count'), f32('factor')],
    sizes: ({ count }) => ({ x: count, y: count }),
    source: (_family) => ({
      key: name,
      body: () => `fn run(group: vec3u, groups: vec3u, local: u32) {
  let i = 64u * group.x + local;
  if (i < dims.count) { ${statement} }
}
`,
      width: 1,
      workgroupSize: 64,
      workgroups: ({ count }) => [Math.ceil(count / 64), 1, 1],
    }),
    cpu({ x, y }, { factor }) {
      x.forEach((value, i) => {
        y[i] = value * factor;
      });
    },
    cases: [{ count: 1, factor: 1 }],
    tolerance: { absolute: 0, relative: 1e-6 },
    cost: () => ({ flops: 0, bytes: 0 }),
  });

const DIMS = { count: 4, factor: 2 };
const WHOLE = { family: 'gpu', inBoxes: false } as const;
const scale = made('scale', 'store_y(i, dims.factor * load_x(i));');
const immediates = await dawnDevice();
const uniforms = await dawnDevice('software', [], 'guaranteed');

describe.each([
  ['immediates', immediates],
  ['a uniform', uniforms],
] as const)('launches whose dims are %s', (_way, found) => {
  if (!found.ok) return it.skip(`skipped: ${found.reason}`);
  const { device } = found.value;

  it('finds a right kernel right at every size', async () => {
    for (const count of [1, 64, 65]) {
      const { excess, where } = await compareKernel(device, 'gpu', scale, { count, factor: 3 });
      expect(excess, where).toBeLessThanOrEqual(0);
    }
  });

  it('says where a wrong kernel is wrong', async () => {
    const wrong = made('wrong', 'store_y(i, dims.factor * load_x(i) + select(0.0, 1.0, i == 70u));');
    const { excess, where } = await compareKernel(device, 'gpu', wrong, { count: 80, factor: 2 });
    expect(excess).toBeCloseTo(1, 3);
    expect(where).toMatch(/^y\[70\] is /);
  });

  it('names the kernel and the place when WGSL does not compile', async () => {
    const broken = made('broken', 'store_y(i, nothing);');
    await expect(compileKernel(device, broken, DIMS, WHOLE)).rejects.toThrow(/broken.*nothing/s);
  });

  it('compiles a key once', async () => {
    const pipelines = new PipelineCache(device);
    await pipelines.precompile(
      [
        [scale, DIMS],
        [scale, { count: 9, factor: 3 }],
      ],
      'gpu',
    );
    expect(pipelines.size).toBe(1);
    expect(pipelines.get(scale, DIMS, WHOLE)).toBe(pipelines.get(scale, DIMS, WHOLE));
  });

  it('encodes a launch again with other dims, allocating nothing', async () => {
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
    const buffer = (label: string): GPUBuffer => device.createBuffer({ label, size: 16, usage });
    const [x, y] = [buffer('x'), buffer('y')];
    const readback = device.createBuffer({ size: 16, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
    device.queue.writeBuffer(x, 0, new Float32Array([1, 2, 3, 4]));
    const pipeline = await compileKernel(device, scale, DIMS, WHOLE);
    const buffers = { x: { buffer: x }, y: { buffer: y } };
    const launch = createLaunch({ device, pipeline, kernel: scale, variant: WHOLE, buffers, dims: DIMS });
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
    const pipeline = await compileKernel(device, scale, DIMS, WHOLE);
    const request = { device, pipeline, kernel: scale, variant: WHOLE, buffers: {} };
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
