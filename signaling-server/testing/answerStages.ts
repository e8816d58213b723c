/** Stages that answer on one device, as their donors would have them, and pieces that go through all of them. */
import type { DawnDevice } from '../../shaders/testing/dawn.ts';
import { Pages } from '../../swarm/answers/pages.ts';
import { arrayOf, at, got, invariant, type Range } from '../../swarm/base.ts';
import { type BlockName, blocksOfStage, standingOfStage } from '../../swarm/model/model.ts';
import type { Compute } from '../../swarm/precision.ts';
import type { AnswerRow } from '../../web/src/executor/engine.ts';
import { GpuAnswerStage } from '../../web/src/gpu/answerStage.ts';
import { gpuOf } from '../../web/src/gpu/engine.ts';
import { createStage, type GpuStage } from '../../web/src/gpu/stage.ts';
import type { GoldenCase } from './goldenCase.ts';

export const ROWS = 20;
const DRAWS = 6;

interface Answering {
  readonly stage: GpuStage;
  readonly answers: GpuAnswerStage;
  readonly pages: Pages;
}

/** Of `standing`: what stands, where an adapter alone is trained. */
type Answered = Pick<GoldenCase, 'model' | 'run'> & {
  readonly weights: Pick<GoldenCase['weights'], 'readBlock'>;
  readonly standing?: ReadonlyMap<BlockName, Float32Array>;
};

/** A stage for each range of layers, with the run's initial weights. */
export async function openStages(
  { device, ...dawn }: DawnDevice,
  { model, weights, standing, run }: Answered,
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
      for (const { block, ranges } of standingOfStage(model, own))
        for (const range of ranges)
          stage.writeStanding(block, range, got(standing ?? new Map(), block).subarray(...range));
      const answers = await GpuAnswerStage.create(gpu, model, stage, {
        ...{ layers: own, rows: ROWS, draws: DRAWS, pages, compute },
      });
      return { stage, answers, pages: new Pages(pages) };
    }),
  );
}

export interface Talk {
  readonly name: string;
  readonly ids: number[];
  /** Of `ids`, that the stages have read. */
  read: number;
}

/** One piece through all stages: so many rows of each conversation; the newest token of who has nothing left to be read. */
export async function piece(stages: readonly Answering[], talks: readonly (readonly [Talk, number])[]): Promise<void> {
  let stream: Float32Array<ArrayBuffer> | null = null;
  for (const [index, { answers, pages }] of stages.entries()) {
    const rows = talks.flatMap(([talk, count]): AnswerRow[] => {
      const own = pages.extend(talk.name, count, new Set(talks.map(([{ name }]) => name)));
      invariant(own, 'there is room');
      return arrayOf(count, (i) => {
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
  invariant(tokens.length === drawing.length, 'each that asks has a token');
  for (const [i, [talk]] of drawing.entries()) talk.ids.push(at(tokens, i));
}

export function closeAll(stages: readonly Answering[]): void {
  for (const { stage, answers } of stages) {
    answers.close();
    stage.close();
  }
}

/** The layers in so many stages, as equal as can be. */
export function evenly(layers: number, count: number): Range[] {
  const end = (stage: number): number => Math.round((stage * layers) / count);
  return arrayOf(count, (stage): Range => [end(stage), end(stage + 1)]);
}
