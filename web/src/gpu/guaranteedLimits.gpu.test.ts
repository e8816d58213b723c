/** Stages on a device with only the limits that WebGPU guarantees, as a phone has them: each trains, or is refused by name. */
import { beforeAll, expect, test } from 'vitest';
import type { AdapterFamily } from '../../../shaders/kernel/kernel.ts';
import { dawnDevice } from '../../../shaders/testing/dawn.ts';
import { at, invariant, seededRandom } from '../../../swarm/base.ts';
import { NoRoom } from '../../../swarm/memory/bufferSpec.ts';
import { profileSchema } from '../../../swarm/messages/profile.ts';
import { modelFromConfig } from '../../../swarm/model/families.ts';
import type { Model } from '../../../swarm/model/model.ts';
import { deviceLimitsOf } from './admission.ts';
import type { Gpu } from './device.ts';
import { gpuOf } from './engine.ts';
import { createStage } from './stage.ts';

const BINDING_BYTES = 134_217_728;

let dawn: Awaited<ReturnType<typeof dawnDevice>>;
beforeAll(async () => {
  dawn = await dawnDevice('software', [], 'guaranteed');
});

/** `family`: whose texts it gets; a phone's GPU gets those for GPUs, in the tiles of few registers. */
function guaranteed(family?: AdapterFamily): Gpu | null {
  if (dawn.ok) return gpuOf({ device: dawn.value.device, family: family ?? dawn.value.family, gpuClass: 'narrow' });
  console.warn(`skipped: ${dawn.reason}`);
  return null;
}

function gpt2(config: Readonly<Record<string, number>>): Model {
  const parsed = modelFromConfig({ model_type: 'gpt2', ...config });
  invariant(parsed.ok, 'a valid model');
  return parsed.value;
}

const planOf = (layers: readonly [number, number], sequence: number) => ({
  size: { layers, samples: 1, sequence, slots: 1 },
  ...{ globalBatch: 1, sizes: [1] },
});

test('[KE45] the device has the limits that a phone has, and says them as a donor does', () => {
  if (!guaranteed() || !dawn.ok) return;
  const said = deviceLimitsOf(dawn.value.device.limits);
  expect(said).toEqual({
    ...{ bufferBytes: 2 * BINDING_BYTES, bindingBytes: BINDING_BYTES, storageBuffers: 8 },
    ...{ workgroupBytes: 16_384, invocations: 256 },
  });
  expect(profileSchema.shape.deviceLimits.parse(said)).toEqual(said);
});

// On a software adapter four heads share the lanes of an invocation: one alone would take three times as long. It compiles
// a GPU's texts for a minute.
const CASES = [
  ['software', 1, 64, 70],
  ['software', 1, 80, 70],
  ['software', 1, 128, 70],
  ['software', 4, 8, 4_096],
  ...(process.env.SHOAL_LONG === '1'
    ? ([
        ['gpu', 1, 64, 70],
        ['gpu', 1, 80, 70],
        ['gpu', 1, 128, 70],
        ['gpu', 1, 8, 4_096],
      ] as const)
    : []),
] as const;

test.each(CASES)(
  'texts for %s: one sample, %i heads %i wide, %i positions: the loss falls along its gradient as that says',
  async (family, heads, width, sequence) => {
    if (dawn.ok && family === 'software' && dawn.value.family !== family)
      return console.warn('skipped: needs subgroups of four');
    const gpu = guaranteed(family);
    if (!gpu) return;
    const model = gpt2({
      ...{ n_layer: 1, n_head: heads, n_embd: heads * width, n_positions: sequence, vocab_size: 40 },
    });
    const stage = await createStage(gpu, model, planOf([0, 1], sequence));
    const random = seededRandom(1);
    const values = model.blocks.map(({ elements }) =>
      Float32Array.from({ length: elements }, () => random() / 2 - 0.25),
    );
    const ids = Uint32Array.from({ length: sequence }, (_, index) => (index * 7) % 40);
    const work = { microBatch: 0, samples: 1, input: null, tokens: { ids, targets: ids, firstRows: null } };
    const lossAt = async (directions: readonly Float32Array[], by: number, evaluation = true): Promise<number> => {
      model.blocks.forEach(({ name, elements }, block) => {
        const direction = directions[block];
        const moved = at(values, block).map((value, index) => value + by * (direction?.[index] ?? 0));
        stage.writeValues(name, [0, elements], moved);
      });
      stage.forward({ ...work, evaluation });
      const rows = await (await stage.readLoss(0)).take((losses: Float32Array) => losses.slice());
      if (evaluation) stage.free(0);
      return rows.reduce((sum, loss) => sum + loss, 0);
    };
    stage.begin();
    const first = await lossAt([], 0, false);
    expect(first).toBeGreaterThan(0);
    stage.backward(0, null);
    const gradients = await Promise.all(
      model.blocks.map(async ({ name, elements }) =>
        (await stage.readGradient(name, [[0, elements]])).take((sums: Float32Array) => sums.slice()),
      ),
    );
    stage.free(0);
    const norm = Math.sqrt(gradients.reduce((sum, part) => part.reduce((so, value) => so + value * value, sum), 0));
    const directions = gradients.map((part) => part.map((value) => value / norm));
    const step = 0.01;
    const rise = (await lossAt(directions, step)) - (await lossAt(directions, -step));
    // The losses are summed over the rows, the gradient is of their mean.
    expect(Math.abs(rise / (2 * step * sequence) / norm - 1)).toBeLessThan(0.005);
    stage.close();
  },
);

test('GPT-2’s token table is bound in pieces; one past a buffer is refused by name, a layer of that model fits', async () => {
  const gpu = guaranteed();
  if (!gpu) return;
  const wide = (n_embd: number) => gpt2({ n_layer: 3, n_head: 12, n_embd, n_positions: 32, vocab_size: 50_257 });
  const stage = await createStage(gpu, { ...wide(768), layers: 1 }, planOf([0, 1], 32));
  const ids = Uint32Array.from({ length: 32 }, (_, index) => 1_617 * index);
  stage.begin();
  stage.forward({
    microBatch: 0,
    samples: 1,
    input: null,
    tokens: { ids, targets: ids, firstRows: null },
    evaluation: true,
  });
  const losses = await (await stage.readLoss(0)).take((rows: Float32Array) => rows.slice());
  // All values are zero.
  for (const loss of losses) expect(loss).toBeCloseTo(Math.log(50_257), 4);
  stage.close();
  const refused: unknown = await createStage(gpu, wide(1536), planOf([0, 1], 32)).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(NoRoom);
  expect(String(refused)).toMatch(
    /layers 0-1: values\/embedding needs a buffer of 308\d{6} bytes, and this GPU allows at most 268435456$/,
  );
  (await createStage(gpu, wide(1536), planOf([1, 2], 32))).close();
});
