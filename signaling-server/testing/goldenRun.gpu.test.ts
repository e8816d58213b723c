/** The whole stage, on Dawn, against the float64 trainer: loss and gradient norm of every step, then every weight. */
import { beforeAll, describe, expect, test } from 'vitest';
import { type DawnDevice, dawnDevice } from '../../shaders/testing/dawn.ts';
import { at, invariant, type Range } from '../../swarm/base.ts';
import { block } from '../../swarm/model/model.ts';
import { LOGITS_BYTES, RUN_BYTES } from '../../swarm/model/program.ts';
import { gpuEngine, gpuOf } from '../../web/src/gpu/engine.ts';
import { GpuStage } from '../../web/src/gpu/stage.ts';
import { Solo } from '../../web/src/testing/solo.ts';
import { openWeights } from '../weights/weights.ts';
import { goldenFolder, openGoldenCase } from './goldenCase.ts';

/** So little that logits are made, and the ends of layers done, 64 rows at a time. */
const FEW_BYTES = 1;
const FEW_ROWS = 64;

/** Times that a forward of micro-batch 0 makes logits and their loss. */
function lossesOf(solo: Solo): number {
  const [stage] = solo.role.stages.values();
  invariant(stage instanceof GpuStage, 'a stage on a GPU');
  return stage.launchesOf(0).forward.filter(({ kernel }) => kernel.name === 'crossEntropy').length;
}

/** Times that a backward of micro-batch 0 works on the end of a gated layer. */
function gatedOf(solo: Solo): number {
  const [stage] = solo.role.stages.values();
  invariant(stage instanceof GpuStage, 'a stage on a GPU');
  return stage.launchesOf(0).backward.filter(({ kernel }) => /Glu\.backward$/.test(kernel.name)).length;
}

let dawn: Awaited<ReturnType<typeof dawnDevice>>;
beforeAll(async () => {
  dawn = await dawnDevice();
});

describe('a stage trains as the float64 trainer does', () => {
  const cases = [
    ['gpt2-tiny', 1, [], LOGITS_BYTES],
    ['gpt2-tiny', 3, [0, 1, 2, 3], LOGITS_BYTES],
    ['gpt2-tiny', 1, [0, 2], LOGITS_BYTES, FEW_BYTES],
    ['llama-tiny', 3, [0, 1], LOGITS_BYTES, FEW_BYTES],
    ['odd-gpt2', 2, [1, 4], LOGITS_BYTES],
    ['odd-gpt2', 1, [], FEW_BYTES],
    ['untied-gpt2', 1, [], LOGITS_BYTES],
    ['llama-tiny', 1, [], LOGITS_BYTES],
    ['llama-tiny', 3, [], FEW_BYTES],
    ['odd-llama', 2, [0], LOGITS_BYTES],
    ['tied-llama', 1, [], FEW_BYTES],
    ['padded-llama', 2, [0], LOGITS_BYTES],
    ['qwen3-tiny', 1, [], LOGITS_BYTES],
    ['gemma3-tiny', 2, [0, 1], LOGITS_BYTES, FEW_BYTES],
    ['muon-tiny', 2, [], LOGITS_BYTES],
  ] as const;
  test.each(cases)(
    '[ST1] %s in %i micro-batches, layers %j computed again, at most %i bytes of logits',
    async (name, microBatches, recompute, logitsBytes, runBytes: number = RUN_BYTES) => {
      if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
      const device: DawnDevice = dawn.value;
      const { run, model, weights, expected, readState: read, tokens } = await openGoldenCase(name);
      const engine = gpuEngine(gpuOf(device), model, run.train);
      const solo = await Solo.open({
        engine: { ...engine, stage: (size, ...rest) => engine.stage({ ...size, logitsBytes, runBytes }, ...rest) },
        model,
        train: run.train,
        microBatches,
        recompute,
        read,
        tokens,
      });
      for (const [step, wanted] of expected.entries()) {
        const { loss, gradientNorm } = await solo.step(step);
        expect(Math.abs(loss / wanted.loss - 1), `loss of step ${step}`).toBeLessThan(2e-6);
        expect(Math.abs(gradientNorm / wanted.gradientNorm - 1), `norm of step ${step}`).toBeLessThan(5e-5);
      }
      const rows = Math.ceil(run.train.globalBatchSize / microBatches) * run.train.sequenceLength;
      expect(lossesOf(solo)).toBe(logitsBytes === FEW_BYTES ? Math.ceil(rows / FEW_ROWS) : 1);
      const runs = runBytes === FEW_BYTES ? Math.ceil(rows / FEW_ROWS) : 1;
      expect(gatedOf(solo)).toBe(run.model.model_type !== 'gpt2' ? model.layers * runs : 0);
      const final = await openWeights(new URL('final.safetensors', goldenFolder(name)).pathname, model);
      if (!final.ok) throw new Error(final.reason);
      for (const { name: blockName, elements } of model.blocks) {
        const wanted = await final.value.readBlock(blockName, 0, elements);
        const reading = await solo.role.shards.readValues(blockName, [0, elements]);
        const actual = await reading.take((values) => values.slice());
        for (const tensor of block(model, blockName).tensors) {
          // The key third of c_attn.bias has an exact gradient of 0: Adam makes steps of its rounding noise.
          const keys: Range = tensor.name.endsWith('c_attn.bias')
            ? [tensor.elements / 3, (tensor.elements * 2) / 3]
            : [0, 0];
          let worst = 0;
          for (let i = 0; i < tensor.elements; i++) {
            if (keys[0] <= i && i < keys[1]) continue;
            worst = Math.max(worst, Math.abs(at(actual, tensor.offset + i) - at(wanted, tensor.offset + i)));
          }
          expect(worst, tensor.name).toBeLessThan(3e-4);
        }
      }
      await final.value.close();
      solo.close();
      await weights.close();
    },
  );
});
