/**
 * What becomes of a matrix unit that computes wrong, on Dawn. No adapter here has a unit: at these sizes one workgroup makes
 * a whole product in either form, so a plain product's text stands in for the unit's, as it is or a thousandth too large.
 */
import { beforeAll, expect, test } from 'vitest';
import type { MatrixUnit } from '../../../shaders/family/matrixUnit.ts';
import type { Dims, Kernel, Source } from '../../../shaders/kernel/kernel.ts';
import { PipelineCache } from '../../../shaders/kernel/launch.ts';
import type { Variant } from '../../../shaders/kernel/text.ts';
import { dawnDevice } from '../../../shaders/testing/dawn.ts';
import { modelFromConfig } from '../../../swarm/model/families.ts';
import type { Gpu } from './device.ts';
import { examine } from './examination.ts';
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

function modelOf() {
  const model = modelFromConfig(CONFIG);
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

function examined(kept: Map<string, string>) {
  return examine({
    gpu,
    adapter: { vendor: 'v', architecture: 'a', description: '', software: false, browser: 'dawn' },
    model: modelOf(),
    step: STEP,
    wire: 'f32',
    compute: 'f32',
    memory: { recall: async (key) => kept.get(key) ?? null, remember: async (key, value) => void kept.set(key, value) },
    now: () => 0, // no check ends early
  });
}

const skipped = found.ok ? '' : ` (skipped: ${found.reason})`;

test.skipIf(!found.ok)(`a unit that multiplies right is used, and remembered${skipped}`, async () => {
  products = 'right';
  const kept = new Map<string, string>();
  const verdict = await examined(kept);
  expect(verdict).toEqual({ ok: true, value: { checkedKernels: expect.any(Number) } });
  expect(verdict.ok && verdict.value.checkedKernels).toBeGreaterThan(15);
  expect(gpu.units).toEqual([UNIT, HALVES]);
  expect(await examined(kept)).toEqual({ ok: true, value: { checkedKernels: 0 } });
  expect(gpu.units).toEqual([UNIT, HALVES]);
});

test.skipIf(!found.ok)(`one that multiplies wrong is left out, at every visit${skipped}`, async () => {
  products = 'wrong on the unit';
  const kept = new Map<string, string>();
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
  const kept = new Map<string, string>();
  expect(await examined(kept)).toEqual({
    ok: false,
    reason: expect.stringMatching(/^kernel matmul.* does not compile/),
  });
});
