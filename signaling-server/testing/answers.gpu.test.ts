/**
 * Stages that answer, on Dawn, against the CPU reference of the whole model: the same tokens, whatever the pieces a prompt is
 * cut into, however many stages the layers lie in and whoever else is answered in the same pieces.
 */
import { beforeAll, describe, expect, test } from 'vitest';
import { dawnDevice } from '../../shaders/testing/dawn.ts';
import { arrayOf, at, seededRandom } from '../../swarm/base.ts';
import { generate } from '../../swarm/reference/generate.ts';
import { referenceTensors } from '../../swarm/reference/trainer.ts';
import { closeAll, evenly, openStages, piece, ROWS, type Talk } from './answerStages.ts';
import { openGoldenCase } from './goldenCase.ts';

let dawn: Awaited<ReturnType<typeof dawnDevice>>;
beforeAll(async () => {
  dawn = await dawnDevice();
});

describe('stages that answer', () => {
  const cases = [
    ['gpt2-tiny', 1],
    ['gpt2-tiny', 2],
    ['gpt2-tiny', 4],
    ['llama-tiny', 1],
    ['llama-tiny', 2],
    ['odd-gpt2', 2],
    ['untied-gpt2', 1],
    ['odd-llama', 2],
    ['tied-llama', 2],
    ['qwen3-tiny', 2],
    ['gemma3-tiny', 2],
  ] as const;
  test.each(cases)('%s in %i stages: the tokens of the reference', async (name, count) => {
    if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
    const golden = await openGoldenCase(name);
    const { model, weights } = golden;
    const blocks = new Map<string, Float32Array>();
    for (const { name: block, elements } of model.blocks)
      blocks.set(block, await weights.readBlock(block, 0, elements));
    const tensors = referenceTensors(model, (block) => blocks.get(block) ?? new Float32Array());
    const stages = await openStages(
      dawn.value,
      golden,
      evenly(model.layers, count),
      1 + 3 * Math.ceil(model.positions / 16),
    );
    const random = seededRandom(count);
    const below = (limit: number): number => Math.floor(random() * limit);
    const prompts = [1, Math.min(7, model.positions - 4), Math.floor(model.positions / 2)].map((length) =>
      arrayOf(length, () => below(model.vocabulary)),
    );
    const talks = prompts.map((ids, i): Talk => ({ name: `talk ${i}`, ids: [...ids], read: 0 }));
    const wanted = prompts.map((ids) => {
      const most = Math.min(12, model.positions - ids.length);
      return [...ids, ...generate(model, tensors, ids, { count: most, temperature: 0, seed: 0, atFull: 'end' })];
    });
    const left = (): Talk[] => talks.filter(({ ids }, i) => ids.length < at(wanted, i).length);
    while (left().length > 0) {
      let room = ROWS;
      const taken = left().flatMap((talk): [Talk, number][] => {
        const rows = Math.min(room, talk.ids.length - talk.read, 1 + below(9));
        room -= rows;
        return rows > 0 ? [[talk, rows]] : [];
      });
      await piece(stages, taken);
    }
    closeAll(stages);
    expect(talks.map(({ ids }) => ids)).toEqual(wanted);
  });
});
