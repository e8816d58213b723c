/**
 * Stages that answer, on Dawn, against the CPU reference of the whole model: the same tokens, whatever the pieces a prompt is
 * cut into, however many stages the layers lie in and whoever else is answered in the same pieces.
 */
import { beforeAll, describe, expect, test } from 'vitest';
import { type DawnDevice, dawnDevice } from '../../shaders/testing/dawn.ts';
import { Pages } from '../../swarm/answers/pages.ts';
import { at, invariant, type Range, seededRandom } from '../../swarm/base.ts';
import { blocksOfStage } from '../../swarm/model/model.ts';
import type { Compute } from '../../swarm/precision.ts';
import { generate } from '../../swarm/reference/generate.ts';
import { referenceTensors } from '../../swarm/reference/trainer.ts';
import type { AnswerRow } from '../../web/src/executor/engine.ts';
import { GpuAnswerStage } from '../../web/src/gpu/answerStage.ts';
import { gpuOf } from '../../web/src/gpu/engine.ts';
import { createStage, type GpuStage } from '../../web/src/gpu/stage.ts';
import { type GoldenCase, openGoldenCase } from './goldenCase.ts';

const ROWS = 20;
const DRAWS = 6;

interface Answering {
  readonly stage: GpuStage;
  readonly answers: GpuAnswerStage;
  readonly pages: Pages;
}

/** A stage for each range of layers, with the run's initial weights. */
async function openStages(
  { device, ...dawn }: DawnDevice,
  { model, weights, run }: GoldenCase,
  layers: readonly Range[],
  pages: number,
  compute: Compute = 'f32',
): Promise<Answering[]> {
  const gpu = gpuOf({ device, ...dawn });
  return Promise.all(
    layers.map(async (own): Promise<Answering> => {
      const size = { layers: own, samples: 1, sequence: run.train.sequenceLength, slots: 1, compute };
      const stage = await createStage(gpu, model, { size, sizes: [1], globalBatch: 1 });
      for (const { block, ranges } of blocksOfStage(model, own))
        for (const range of ranges) stage.writeValues(block, range, await weights.readBlock(block, ...range));
      const answers = await GpuAnswerStage.create(gpu, model, stage, {
        ...{ layers: own, rows: ROWS, draws: DRAWS, pages, compute },
      });
      return { stage, answers, pages: new Pages(pages) };
    }),
  );
}

interface Talk {
  readonly name: string;
  readonly ids: number[];
  /** Of `ids`, that the stages have read. */
  read: number;
}

/** One piece through all stages: so many rows of each conversation; the newest token of who has nothing left to be read. */
async function piece(stages: readonly Answering[], talks: readonly (readonly [Talk, number])[]): Promise<void> {
  let stream: Float32Array<ArrayBuffer> | null = null;
  for (const [index, { answers, pages }] of stages.entries()) {
    const rows = talks.flatMap(([talk, count]): AnswerRow[] => {
      const own = pages.extend(talk.name, count, new Set(talks.map(([{ name }]) => name)));
      invariant(own, 'there is room');
      return Array.from({ length: count }, (_, i) => {
        const position = talk.read + i;
        const isLast = position === talk.ids.length - 1;
        const draw = isLast ? { temperature: 0, topP: 1, seed: 0, number: 0 } : null;
        return { id: at(talk.ids, position), position, pages: own, draw };
      });
    });
    answers.run(rows, stream);
    if (index < stages.length - 1) stream = await (await answers.readOutput()).take((values) => values.slice());
  }
  const drawing = talks.filter(([talk, count]) => talk.read + count === talk.ids.length);
  const tokens = drawing.length > 0 ? await at(stages, stages.length - 1).answers.readTokens() : [];
  for (const [talk, count] of talks) talk.read += count;
  expect(tokens).toHaveLength(drawing.length);
  for (const [i, [talk]] of drawing.entries()) talk.ids.push(at(tokens, i));
}

function closeAll(stages: readonly Answering[]): void {
  for (const { stage, answers } of stages) {
    answers.close();
    stage.close();
  }
}

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
  ] as const;
  test.each(cases)('%s in %i stages: the tokens of the reference', async (name, count) => {
    if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
    const golden = await openGoldenCase(name);
    const { model, weights } = golden;
    const ends = Array.from({ length: count + 1 }, (_, i) => Math.round((i * model.layers) / count));
    const layers = Array.from({ length: count }, (_, i): Range => [at(ends, i), at(ends, i + 1)]);
    const blocks = new Map<string, Float32Array>();
    for (const { name: block, elements } of model.blocks)
      blocks.set(block, await weights.readBlock(block, 0, elements));
    const tensors = referenceTensors(model, (block) => blocks.get(block) ?? new Float32Array());
    const stages = await openStages(dawn.value, golden, layers, 1 + 3 * Math.ceil(model.positions / 16));
    const random = seededRandom(count);
    const below = (limit: number): number => Math.floor(random() * limit);
    const prompts = [1, Math.min(7, model.positions - 4), Math.floor(model.positions / 2)].map((length) =>
      Array.from({ length }, () => below(model.vocabulary)),
    );
    const talks = prompts.map((ids, i): Talk => ({ name: `talk ${i}`, ids: [...ids], read: 0 }));
    const wanted = prompts.map((ids) => {
      const most = Math.min(12, model.positions - ids.length);
      return [...ids, ...generate(model, tensors, ids, { count: most, temperature: 0, random, atFull: 'end' })];
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
