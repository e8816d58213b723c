/**
 * What becomes of a matrix unit that computes wrong, on Dawn. No adapter here has a unit: at these sizes one workgroup makes
 * a whole product in either form, so a plain product's text stands in for the unit's, as it is or a thousandth too large.
 */
import { beforeAll, describe, expect, test } from 'vitest';
import type { MatrixUnit } from '../../../shaders/family/matrixUnit.ts';
import type { Dims, Kernel, Source } from '../../../shaders/kernel/kernel.ts';
import { PipelineCache } from '../../../shaders/kernel/launch.ts';
import type { Variant } from '../../../shaders/kernel/text.ts';
import { dawnDevice } from '../../../shaders/testing/dawn.ts';
import { modelFromConfig } from '../../../swarm/model/families.ts';
import type { Gpu } from './device.ts';
import { type Examinee, examine } from './examination.ts';
import { kernelCases } from './kernelCheck.ts';

const UNIT: MatrixUnit = { component: 'f32', m: 8, n: 8, k: 8, lanes: 32 };
const HALVES: MatrixUnit = { ...UNIT, component: 'f16' };
const CONFIG = {
  model_type: 'llama',
  num_hidden_layers: 1,
  num_attention_heads: 1,
  num_key_value_heads: 1,
  hidden_size: 8,
  intermediate_size: 8,
  max_position_embeddings: 8,
  vocab_size: 8,
};

const STEP = { sequence: 8, samples: 1 };

let products: 'right' | 'wrong on the unit' | 'wrong everywhere';

/** The plain source for each key of one for the unit. */
const standIns = new Map<string, Source>();

/** A driver that makes of products what it likes. */
class Driver extends PipelineCache {
  override get(kernel: Kernel, dims: Dims, variant: Variant): Promise<GPUComputePipeline> {
    const own = kernel.source('gpu', dims);
    const made = (source: Source) => super.get({ ...kernel, source: () => source }, dims, variant);
    if (!kernel.name.startsWith('matmul')) return made(own);
    if (products === 'wrong everywhere') return made({ ...own, key: 'none', body: () => '' });
    const standIn = standIns.get(own.key);
    if (products === 'right' || !standIn || !kernel.name.startsWith('matmul.TN')) return made(standIn ?? own);
    const body = () => standIn.body().replace('var v = sum;', 'var v = 1.001 * sum;');
    return made({ ...standIn, key: `${standIn.key} wrong`, body });
  }
}

function modelOf(inner = 8) {
  const model = modelFromConfig({ ...CONFIG, intermediate_size: inner });
  if (!model.ok) throw new Error(model.reason);
  return model.value;
}

const found = await dawnDevice();
let gpu: Gpu;
beforeAll(() => {
  if (!found.ok) return;
  const { device } = found.value;
  const offeredUnits = [UNIT, HALVES];
  const bindingBytes = device.limits.maxStorageBufferBindingSize;
  gpu = { device, family: 'gpu', offeredUnits, units: offeredUnits, bindingBytes, pipelines: new Driver(device) };
  const sources = (units: readonly MatrixUnit[]) =>
    kernelCases({ ...gpu, units }, modelOf(), STEP, 'f32').map(({ kernel, dims }) => kernel.source('gpu', dims));
  const plain = sources([]);
  for (const [index, { key }] of sources(offeredUnits).entries()) {
    const standIn = plain[index];
    if (standIn && standIn.key !== key) standIns.set(key, standIn);
  }
});

const ADAPTER = { vendor: 'v', architecture: 'a', description: '', software: false, browser: 'dawn' };
const DAY_MS = 86_400_000;

/** What a browser keeps. */
interface Kept {
  text: string | null;
}

function examined(kept: Kept, visit: Partial<Examinee> = {}) {
  return examine({
    ...{ gpu, adapter: ADAPTER, model: modelOf(), step: STEP, wire: 'f32', compute: 'f32' },
    memory: {
      recall: async () => kept.text,
      remember: async (checks) => {
        kept.text = checks;
      },
    },
    now: () => 0, // no check ends early
    wallMs: () => 100 * DAY_MS,
    ...visit,
  });
}

/** Of a GPU without units. */
async function countOf(kept: Kept, visit: Partial<Examinee> = {}): Promise<number> {
  const verdict = await examined(kept, { gpu: { ...gpu, offeredUnits: [], units: [] }, ...visit });
  if (!verdict.ok) throw new Error(verdict.reason);
  return verdict.value.checkedKernels;
}

const skipped = found.ok ? '' : ` (skipped: ${found.reason})`;

test.skipIf(!found.ok)(`a unit that multiplies right is used, and remembered${skipped}`, async () => {
  products = 'right';
  const kept = { text: null };
  const verdict = await examined(kept);
  expect(verdict).toEqual({ ok: true, value: { checkedKernels: expect.any(Number) } });
  expect(verdict.ok && verdict.value.checkedKernels).toBeGreaterThan(15);
  expect(gpu.units).toEqual([UNIT, HALVES]);
  expect(await examined(kept)).toEqual({ ok: true, value: { checkedKernels: 0 } });
  expect(gpu.units).toEqual([UNIT, HALVES]);
});

test.skipIf(!found.ok)(`one that multiplies wrong is left out, at every visit${skipped}`, async () => {
  products = 'wrong on the unit';
  const kept = { text: null };
  const wrongUnit = expect.stringMatching(/^matmul\.TN\S* is wrong in the shape .* on the GPU, .* on the CPU$/);
  const verdict = await examined(kept);
  expect(verdict).toEqual({ ok: true, value: { checkedKernels: expect.any(Number), wrongUnit } });
  expect(verdict.ok && verdict.value.checkedKernels).toBeGreaterThan(15);
  expect(gpu.units).toEqual([HALVES]); // of the other precision, which this run does not compute with
  expect(await examined(kept)).toEqual({ ok: true, value: { checkedKernels: 0, wrongUnit } });
  expect(gpu.units).toEqual([HALVES]);
});

test.skipIf(!found.ok)(`[AD2] a GPU whose plain products are wrong too is refused${skipped}`, async () => {
  products = 'wrong everywhere';
  const kept = { text: null };
  expect(await examined(kept)).toEqual({
    ok: false,
    reason: expect.stringMatching(/^kernel matmul.* does not compile/),
  });
  expect(kept.text).toBeNull();
});

describe.skipIf(!found.ok)(`what was right${skipped}`, () => {
  beforeAll(() => {
    products = 'right';
  });

  test('is compared again after seven days, by another browser and on another adapter', async () => {
    const kept: Kept = { text: null };
    const all = await countOf(kept);
    const onDay = (day: number) => ({ wallMs: () => day * DAY_MS });
    expect(await countOf(kept, onDay(106))).toBe(0);
    expect(await countOf(kept, { adapter: { ...ADAPTER, browser: 'dawn 2' } })).toBe(all);
    expect(await countOf(kept, { adapter: { ...ADAPTER, architecture: 'b' } })).toBe(all);
    expect(await countOf(kept, onDay(107))).toBe(all);
    expect(await countOf(kept, onDay(99)), 'a clock that was set back').toBe(all);
  });

  test('is not compared again for another run: what is new there is', async () => {
    const kept: Kept = { text: null };
    const all = await countOf(kept);
    const other = { model: modelOf(12) };
    const fresh = await countOf(kept, other);
    expect(fresh).toBeGreaterThan(0);
    expect(fresh).toBeLessThan(all);
    expect(await countOf(kept, other)).toBe(0);
    expect(await countOf(kept)).toBe(0);
  });

  test('is not compared again where time ended the visit before: the next one goes on', async () => {
    const all = await countOf({ text: null });
    const kept: Kept = { text: null };
    let seconds = 0;
    const counts: number[] = [];
    do counts.push(await countOf(kept, { now: () => seconds++ }));
    while (counts.at(-1) !== 0);
    expect(counts.length).toBeGreaterThan(3);
    expect(counts.reduce((sum, count) => sum + count)).toBe(all);
  });

  test('is kept for some models, of which the newest stay', async () => {
    const old = Array.from({ length: 1000 }, (_, i) => `${i.toString(16).padStart(32, '0')} 99`);
    const kept: Kept = { text: ['nonsense', ...old, 'nonsense'].join('\n') };
    const all = await countOf(kept);
    const lines = kept.text?.split('\n') ?? [];
    expect(lines).toHaveLength(400);
    expect(lines.filter((line) => line.endsWith(' 100'))).toHaveLength(all);
    expect(lines[0]).toBe(old[600 + all]);
    expect(await countOf(kept)).toBe(0);
  });
});
