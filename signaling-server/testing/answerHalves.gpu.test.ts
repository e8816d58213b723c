/**
 * Stages that keep halves answer as those that keep floats do: what they draw is likeliest to within what halves round off,
 * and the stream that goes from stage to stage loses nothing.
 */
import { expect, test } from 'vitest';
import { dawnDevice } from '../../shaders/testing/dawn.ts';
import { arrayOf, at, seededRandom } from '../../swarm/base.ts';
import { plainProducts } from '../../swarm/reference/products.ts';
import { referenceTensors } from '../../swarm/reference/trainer.ts';
import { Transformer } from '../../swarm/reference/transformer.ts';
import { canHalve } from '../../web/src/gpu/device.ts';
import { gpuOf } from '../../web/src/gpu/engine.ts';
import { closeAll, evenly, openStages, piece, type Talk } from './answerStages.ts';
import { type GoldenCase, openGoldenCase } from './goldenCase.ts';

const dawn = await dawnDevice('halves');
const gpu = dawn.ok ? gpuOf(dawn.value) : null;
const hasHalves = gpu !== null && canHalve(gpu.device, gpu.family);
const PROMPT = 11;
const TOKENS = 6;

async function answered(golden: GoldenCase, count: number): Promise<number[]> {
  if (!dawn.ok) return [];
  const { model } = golden;
  const stages = await openStages(dawn.value, golden, evenly(model.layers, count), 9, 'f16');
  const random = seededRandom(4);
  const ids = arrayOf(PROMPT, () => Math.floor(random() * model.vocabulary));
  const talk: Talk = { name: 'talk', ids, read: 0 };
  while (talk.ids.length < PROMPT + TOKENS) await piece(stages, [[talk, Math.min(4, talk.ids.length - talk.read)]]);
  closeAll(stages);
  return talk.ids;
}

const unlessHalves = hasHalves ? '' : ' (skipped: no adapter here has shader-f16; Mesa 25 brings llvmpipe with it)';
test.skipIf(!hasHalves).each(['gpt2-tiny', 'llama-tiny', 'odd-gpt2', 'odd-llama'])(
  `%s${unlessHalves}`,
  async (name) => {
    const golden = await openGoldenCase(name);
    const { model, weights } = golden;
    const ids = await answered(golden, 1);
    expect(await answered(golden, 2)).toEqual(ids);
    const blocks = new Map<string, Float32Array>();
    for (const { name: block, elements } of model.blocks)
      blocks.set(block, await weights.readBlock(block, 0, elements));
    const tensors = referenceTensors(model, (block) => blocks.get(block) ?? new Float32Array());
    const size = { sequences: 1, positions: 1, context: model.positions };
    const reference = new Transformer(model, tensors, plainProducts, size);
    for (const [place, id] of ids.slice(0, -1).entries()) {
      const logits = Array.from(reference.next(id));
      if (place < PROMPT - 1) continue;
      const spread = Math.max(...logits) - Math.min(...logits);
      expect(Math.max(...logits) - at(logits, at(ids, place + 1))).toBeLessThan(2e-2 * spread);
    }
    await weights.close();
  },
);
