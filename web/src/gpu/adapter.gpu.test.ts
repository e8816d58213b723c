/** Adapters on Dawn: stages with what stands and what is trained, against the float64 trainer's curve and the reference's gradients. */
import { beforeAll, expect, test } from 'vitest';
import { dawnDevice } from '../../../shaders/testing/dawn.ts';
import { type AdapterCase, openAdapterCase } from '../../../signaling-server/testing/adapterCase.ts';
import { closeAll, openStages, piece, type Talk } from '../../../signaling-server/testing/answerStages.ts';
import { at, got, type Range } from '../../../swarm/base.ts';
import { PIECE_ROWS, type StageSize, stageBuffers } from '../../../swarm/memory/memory.ts';
import { type BlockName, block, blocksOfStage, standingOfStage } from '../../../swarm/model/model.ts';
import { generate } from '../../../swarm/reference/generate.ts';
import { lossAndGradients, referenceTensors, referenceTrainer } from '../../../swarm/reference/trainer.ts';
import { NO_TARGET, type WindowRows } from '../../../swarm/run/data.ts';
import { gpuOf } from './engine.ts';
import { createStage, type GpuStage } from './stage.ts';

let dawn: Awaited<ReturnType<typeof dawnDevice>>;
beforeAll(async () => {
  dawn = await dawnDevice();
});

const tokensOf = (windows: readonly WindowRows[]) => {
  const firstRows = windows.flatMap((window) => [...(window.firstRows ?? [])]);
  return {
    ids: Uint32Array.from(windows.flatMap(({ ids }) => [...ids])),
    targets: Uint32Array.from(windows.flatMap(({ targets }) => [...targets])),
    firstRows: firstRows.length === 0 ? null : Uint32Array.from(firstRows),
  };
};

const countOf = (windows: readonly WindowRows[]): number =>
  windows.reduce((sum, { targets }) => sum + targets.filter((target) => target !== NO_TARGET).length, 0);

/** Loss of a step that goes through the stages in micro-batches of these sizes, a mean over so many rows or pairs. */
async function lossOf(
  stages: readonly GpuStage[],
  windows: readonly WindowRows[],
  sizes: readonly number[],
  counted: number,
) {
  for (const stage of stages) stage.begin(0, 1, false, counted);
  const read = async (reading: ReturnType<GpuStage['readOutput']>) => (await reading).take((words) => words.slice());
  let loss = 0;
  let first = 0;
  for (const [microBatch, samples] of sizes.entries()) {
    const tokens = tokensOf(windows.slice(first, first + samples));
    first += samples;
    let words: Float32Array<ArrayBuffer> | null = null;
    for (const stage of stages) {
      const input = words && { encoding: 'f32' as const, words };
      stage.forward({ microBatch, samples, input, tokens, evaluation: false, encoding: 'f32' });
      words = stage === stages.at(-1) ? null : await read(stage.readOutput(microBatch));
    }
    const losses = await read(at(stages, stages.length - 1).readLoss(microBatch));
    loss += losses.reduce((sum, one) => sum + one, 0) / counted;
    for (const stage of stages.toReversed()) {
      if (stage.launchesOf(microBatch).recompute.length > 0) stage.recompute(microBatch);
      stage.backward(microBatch, words && { encoding: 'f32', words }, 'f32');
      words = stage === stages[0] ? null : await read(stage.readInputGradient(microBatch));
      stage.free(microBatch);
    }
  }
  return loss;
}

interface Way {
  readonly name: string;
  readonly how: string;
  readonly steps: number;
  /** How what stands is kept. */
  readonly base?: 'f16' | 'int8';
  /** Its windows are taken for those of pairs: what comes of it the reference knows alone. */
  readonly beta?: number;
  readonly stages: readonly (Pick<StageSize, 'layers'> & Partial<StageSize>)[];
}

const WAYS: readonly Way[] = [
  {
    ...{ name: 'lora-tiny', how: 'two stages, one of which computes layers again', steps: 12 },
    stages: [{ layers: [0, 1] }, { layers: [1, 3], recompute: [1, 2] }],
  },
  {
    ...{ name: 'lora-tiny', how: 'ends of layers by runs of rows', steps: 1 },
    stages: [{ layers: [0, 3], recompute: [0, 2], runBytes: 1 }],
  },
  {
    ...{ name: 'lora-gpt2', how: 'a tied head in runs, in another stage than its table', steps: 2 },
    stages: [
      { layers: [0, 2], recompute: [1] },
      { layers: [2, 5], logitsBytes: 1 },
    ],
  },
  {
    ...{ name: 'lora-gpt2', how: 'a base of halves, some of whose tensors have no whole words', base: 'f16', steps: 1 },
    stages: [{ layers: [0, 2] }, { layers: [2, 5] }],
  },
  {
    ...{ name: 'lora-tiny', how: 'a base of codes, where rows are whole blocks', base: 'int8', steps: 1 },
    stages: [{ layers: [0, 3] }],
  },
  { name: 'lora-muon', how: 'one part of three, and one of two', steps: 2, stages: [{ layers: [0, 3] }] },
  {
    ...{ name: 'preference-tiny', how: 'pairs, whose reference has no adapter', steps: 3 },
    stages: [{ layers: [0, 1] }, { layers: [1, 3], recompute: [1, 2], runBytes: 1, logitsBytes: 1 }],
  },
  {
    ...{ name: 'lora-gpt2', how: 'pairs, and an adapter in the head', steps: 1, beta: 0.5 },
    stages: [{ layers: [0, 2] }, { layers: [2, 5], logitsBytes: 1 }],
  },
];

async function stagesOf({ model, run, standing }: AdapterCase, { stages }: Way, sizes: readonly number[]) {
  if (!dawn.ok) return [];
  const { globalBatchSize: globalBatch, sequenceLength: sequence } = run.train;
  // Of the token table two pieces are bound, one after the other.
  const gpu = gpuOf({ ...dawn.value, bindingBytes: 4 * PIECE_ROWS * model.width });
  return Promise.all(
    stages.map(async (own) => {
      const size = { samples: Math.max(...sizes), sequence, slots: 1, ...own };
      const stage = await createStage(gpu, model, { size, sizes: [...new Set(sizes)], globalBatch });
      expect(stage.bytes).toBe(stageBuffers(model, size).reduce((sum, { bytes }) => sum + bytes, 0));
      for (const { block: name, ranges } of standingOfStage(model, own.layers))
        for (const range of ranges) stage.writeStanding(name, range, got(standing, name).subarray(...range));
      return stage;
    }),
  );
}

/** Windows of an even number of rows, taken for pairs. */
function asPairs({ model, run, windows, ...rest }: AdapterCase, beta: number): AdapterCase {
  const sequenceLength = 2 * Math.floor(run.train.sequenceLength / 2);
  const cut = (rows: Uint32Array) => rows.subarray(0, sequenceLength);
  return {
    ...{ ...rest, model: { ...model, beta }, run: { ...run, train: { ...run.train, sequenceLength } } },
    windows: (step) =>
      windows(step).map(({ ids, targets, firstRows }) => ({
        ...{ ids: cut(ids), targets: cut(targets), firstRows: firstRows && cut(firstRows) },
      })),
  };
}

/** How far a loss may be from that of the base as it was. */
const CURVE = { f32: 2e-6, f16: 1e-3, int8: 3e-2 } as const;

/** The trained blocks of a stage. */
const trainedIn = ({ model }: AdapterCase, layers: Range) =>
  blocksOfStage(model, layers).map(({ block: name }) => block(model, name));

test.each(WAYS)('$name: $how', async (way) => {
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  const own = await openAdapterCase(way.name, way.base);
  const golden = way.beta === undefined ? own : asPairs(own, way.beta);
  const { model, run, trained, standing, windows, expected } = golden;
  const others = run.train.globalBatchSize - 1;
  const sizes = [1, Math.ceil(others / 2), Math.floor(others / 2)];
  const stages = await stagesOf(golden, way, sizes);
  const base = referenceTensors({ blocks: model.standing ?? [] }, (own) => got(standing, own));
  const tensors = referenceTensors(model, (own) => got(trained, own));
  const trainer = referenceTrainer(model, tensors, run.train, base);
  for (let number = 0; number < way.steps; number++) {
    for (const [index, { layers }] of way.stages.entries())
      for (const { name, tensors: specs, elements } of trainedIn(golden, layers)) {
        const values = new Float32Array(elements);
        for (const spec of specs) values.set(got(tensors, spec.name), spec.offset);
        at(stages, index).writeValues(name, [0, elements], values);
      }
    const counted = model.beta === undefined ? countOf(windows(number)) : run.train.globalBatchSize;
    const loss = await lossOf(stages, windows(number), sizes, counted);
    const right = lossAndGradients(model, new Map([...base, ...tensors]), windows(number));
    expect(Math.abs(loss / right.loss - 1)).toBeLessThan(2e-6);
    if (way.beta === undefined)
      expect(Math.abs(loss / at(expected, number).loss - 1)).toBeLessThan(CURVE[way.base ?? 'f32']);
    const { gradients } = right;
    let squares = 0;
    for (const [index, { layers }] of way.stages.entries())
      for (const { name, tensors: specs, elements } of trainedIn(golden, layers)) {
        const made = await (await at(stages, index).readGradient(name, [[0, elements]])).take((words) => words.slice());
        for (const spec of specs) {
          const exact = got(gradients, spec.name);
          const mine = made.subarray(spec.offset, spec.offset + spec.elements);
          const off = Math.hypot(...mine.map((value, i) => value - at(exact, i)));
          expect(off / Math.hypot(...exact), spec.name).toBeLessThan(2e-5);
          squares += mine.reduce((sum, value) => sum + value ** 2, 0);
        }
      }
    if (!way.base && way.beta === undefined)
      expect(Math.abs(Math.sqrt(squares) / at(expected, number).gradientNorm - 1)).toBeLessThan(5e-5);
    trainer.step(windows(number));
  }
  for (const stage of stages) stage.close();
});

test.each(['lora-gpt2', 'lora-muon'])('%s: answers are those of what stands and the adapter', async (name) => {
  if (!dawn.ok) return console.warn(`skipped: ${dawn.reason}`);
  const { model, run, trained, standing } = await openAdapterCase(name);
  const weights = {
    readBlock: async (own: BlockName, from: number, to: number) => got(trained, own).slice(from, to),
  };
  const layers: readonly Range[] = [
    [0, 1],
    [1, model.layers],
  ];
  const stages = await openStages(dawn.value, { model, run, weights, standing }, layers, 9);
  const talk: Talk = { name: 'talk', ids: [3, 14, 15, 92, 65], read: 0 };
  while (talk.ids.length < 12) await piece(stages, [[talk, Math.min(4, talk.ids.length - talk.read)]]);
  closeAll(stages);
  const tensors = new Map([
    ...referenceTensors({ blocks: model.standing ?? [] }, (own) => got(standing, own)),
    ...referenceTensors(model, (own) => got(trained, own)),
  ]);
  const greedy = { count: 7, atFull: 'slide', temperature: 0, seed: 0 } as const;
  expect(talk.ids.slice(5)).toEqual(generate(model, tensors, [3, 14, 15, 92, 65], greedy));
});
