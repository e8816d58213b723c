/**
 * A piece of an answer as kernel calls: the rows of a stage's program, forward alone, where attention reads the
 * conversations' cache and a row's position is its own. Positions are gathered to a table with a row for each row of the
 * piece, so that the kernels of training, which count rows, read the right ones.
 */
import { cachedAttention } from '../../../shaders/answer/cachedAttention.ts';
import { drawTokens } from '../../../shaders/answer/drawTokens.ts';
import { keepKeysValues } from '../../../shaders/answer/keepKeysValues.ts';
import { copyIn, copyOut } from '../../../shaders/arrays/copy.ts';
import { embedTokens } from '../../../shaders/embedding/embedTokens.ts';
import { MOST_ROWS } from '../../../shaders/family/fewRows.ts';
import type { AdapterFamily } from '../../../shaders/kernel/kernel.ts';
import { PAGE_ROWS } from '../../../swarm/answers/pages.ts';
import { invariant } from '../../../swarm/base.ts';
import {
  ANSWER_WORDS,
  type AnswerSize,
  cacheName,
  DRAWN_ROWS,
  layerOf,
  POSITION_ROWS,
  TOKENS,
} from '../../../swarm/memory/answerMemory.ts';
import { WIRE } from '../../../swarm/memory/memory.ts';
import type { BlockName, Model, Operation } from '../../../swarm/model/model.ts';
import { INPUT, type Program, type Step } from '../../../swarm/model/program.ts';
import { ELEMENT_BYTES } from '../../../swarm/precision.ts';
import type { Gpu } from './device.ts';
import { call, type KernelCall } from './kernelCall.ts';
import { forward } from './operations.ts';
import type { Places } from './places.ts';
import { type TensorHome, tensorIn } from './stageCalls.ts';

/** Rows up to which each element of a weight is read once for all: on a software adapter tiles win from three on. */
const FEW_ON_SOFTWARE = 2;
const fewRowsOf = ({ family, gpuClass }: Pick<Gpu, 'family' | 'gpuClass'>): number =>
  family === 'software' || gpuClass === 'cpu' ? FEW_ON_SOFTWARE : MOST_ROWS;

/** Where the weights of a block are, and those that stand: in the stage that trains with them. */
export interface AnswerWeights {
  weightsOf(block: BlockName, stands: boolean): readonly TensorHome[];
}

export interface AnswerParts {
  readonly gpu: Gpu;
  readonly model: Model;
  readonly weights: AnswerWeights;
  readonly size: AnswerSize;
}

/** Where a piece of so many rows finds its tensors. */
export function answerPlaces(
  { gpu, model, weights, size }: AnswerParts,
  rows: number,
  bufferOf: (name: string) => GPUBuffer,
): Places {
  const { family, gpuClass, bindingBytes } = gpu;
  const elementBytes = ELEMENT_BYTES[size.compute ?? 'f32'];
  const value = tensorIn(model, elementBytes, (...of) => weights.weightsOf(...of));
  return {
    ...{ samples: rows, sequence: 1, rows, width: model.width, lossScale: 1, elementBytes },
    ...{ vocabulary: model.vocabulary, bindingBytes, family, gpuClass },
    stands: model.standing !== undefined,
    ...(rows <= fewRowsOf(gpu) && { fewRows: true }),
    buffer: (name) => ({ buffer: bufferOf(name) }),
    value,
    gradient: value, // nothing of an answer asks for one
  };
}

/** Rows of pieces, and of draws: others are filled up to the next. */
export function pieceSizes(most: number, family: AdapterFamily): number[] {
  const sizes = family === 'software' ? [1, 2, 4, 16, 64] : [1, 4, 16, 64];
  return [...sizes.filter((size) => size < most), most];
}

/** The smallest of these sizes that so many fit in. */
export function sizeFor(most: number, count: number, family: AdapterFamily): number {
  const size = pieceSizes(most, family).find((one) => one >= count);
  invariant(size !== undefined, `${count} rows are more than the ${most} that there is room for`);
  return size;
}

type AttentionRow = Extract<Operation, { op: 'attention' }>;

function attention(step: Step, row: AttentionRow, { rows: N, buffer }: Places, model: Model): KernelCall[] {
  const layer = layerOf(step.scope);
  invariant(step.x !== null && step.y !== null && layer !== null, 'attention is in a layer');
  const { heads: H, keyValueHeads: K, headWidth: D, scale, window } = row;
  const [qkv_NED, cache_RFD] = [buffer(step.x), buffer(cacheName(layer))];
  const label = `${step.scope} attention`;
  const words = { pages_L: buffer(ANSWER_WORDS.pages), seen_N2: buffer(ANSWER_WORDS.seen) };
  const dims = { N, H, K, D, P: PAGE_ROWS, T: model.positions, W: window ?? model.positions, scale };
  return [
    call(keepKeysValues, { qkv_NED, place_N: buffer(ANSWER_WORDS.places), cache_RFD }, { N, H, K, D }, label),
    call(cachedAttention, { qkv_NED, cache_RFD, ...words, y_NHD: buffer(step.y) }, dims, label),
  ];
}

/** From ids, or the stream that came, to the stream that leaves the layers. */
export function answerBody(model: Model, program: Program, places: Places, { compute }: AnswerSize): KernelCall[] {
  const { rows: N, width: C, buffer } = places;
  const [embed] = program.first ? model.embedding : [];
  const position = embed?.op === 'embed' ? embed.position : null;
  const gathered: Places = {
    ...places,
    // A row's position is its number in the tables that were gathered.
    sequence: N,
    value: (...names) => (names[0] === position && position !== null ? buffer(POSITION_ROWS) : places.value(...names)),
  };
  const stream = { n: N * C, offset: 0 };
  const halves = compute === 'f16';
  return [
    ...(position === null
      ? []
      : [
          gather(
            places.value(position),
            buffer(ANSWER_WORDS.positions),
            buffer(POSITION_ROWS),
            N,
            places,
            model.positions,
          ),
        ]),
    ...(halves && !program.first ? [call(copyIn, { x: buffer(WIRE), y: buffer(INPUT) }, stream, 'input')] : []),
    ...program.body.flatMap((step) =>
      step.operation.op === 'attention'
        ? attention(step, step.operation, places, model)
        : forward(step, gathered, true),
    ),
    ...(halves && !program.last
      ? [call(copyOut, { x: buffer(program.output), y: buffer(WIRE) }, stream, 'output')]
      : []),
  ];
}

/** From the rows of the stream that an answer goes on from to the tokens that it goes on with. */
export function answerHead(program: Program, places: Places, R: number): KernelCall[] {
  const { rows: N, buffer } = places;
  const ofDrawn: Places = {
    ...places,
    buffer: (name) => (name === program.output ? buffer(DRAWN_ROWS) : buffer(name)),
  };
  return [
    gather(buffer(program.output), buffer(ANSWER_WORDS.drawn), buffer(DRAWN_ROWS), N, places, R),
    ...[...program.head, ...program.loss].flatMap((step) => {
      if (step.operation.op !== 'crossEntropy') return forward(step, ofDrawn, true);
      invariant(step.x !== null, 'tokens are drawn from logits');
      const buffers = { logits_NV: buffer(step.x), asked_N4: buffer(ANSWER_WORDS.asked), token_N: buffer(TOKENS) };
      return [call(drawTokens, buffers, { N, V: step.operation.vocabulary }, 'draw')];
    }),
  ];
}

type Slice = ReturnType<Places['buffer']>;

/** Some rows of a table of R. */
const gather = (token_VC: Slice, ids_N: Slice, x_NC: Slice, N: number, { width: C }: Places, R: number): KernelCall =>
  call(embedTokens, { token_VC, ids_N, x_NC }, { N, C, F: 0, R, scale: 1 }, 'gather');
