/**
 * What a stage allocates to answer, buffer by buffer, beside the weights that it trains with: keys and values of the
 * conversations, and room for the rows of one piece. Nothing is kept for a backward, so layers take turns at two sets of
 * activations: what leaves one is the input of the next.
 */

import { PAGE_ROWS } from '../answers/pages.ts';
import type { Range } from '../base.ts';
import type { Model, Operation } from '../model/model.ts';
import { INPUT, type Program, program } from '../model/program.ts';
import { type Compute, ELEMENT_BYTES } from '../precision.ts';
import { ADAPTER, adapterBuffers } from './adapterMemory.ts';
import { type BufferSpec, PASSES, readback, storage } from './bufferSpec.ts';
import { firstKeysName, firstKeyWindows, rotaryTables, WIRE } from './memory.ts';

export interface AnswerSize {
  readonly layers: Range;
  /** Of the largest piece, and of them the most that a token is drawn from. */
  readonly rows: number;
  readonly draws: number;
  /** Of the cache in every layer, the unused one among them. */
  readonly pages: number;
  readonly compute?: Compute;
}

/** What the GPU is given for each piece. */
export const ANSWER_WORDS = {
  ids: 'ids',
  positions: 'answer.positions',
  places: 'answer.places',
  seen: 'answer.seen',
  pages: 'answer.pages',
  drawn: 'answer.drawn',
  asked: 'answer.asked',
} as const;
/** Rows of the table of positions, in the order of the piece's rows. */
export const POSITION_ROWS = 'answer.positionRows';
/** Rows of the stream from which tokens are drawn, and the tokens. */
export const DRAWN_ROWS = 'answer.drawnRows';
export const TOKENS = 'answer.tokens';
const READBACKS = 2;

export const cacheName = (layer: number): string => `cache/${layer}`;
/** Of the layer that an activation belongs to by its name; null: it belongs to none. */
export const layerOf = (scope: string): number | null => {
  const found = /^layer\.(\d+)$/.exec(scope);
  return found ? Number(found[1]) : null;
};

/** Where an activation of a program lies: layers take turns. */
export function answerPlace(name: string): string {
  const found = /^layer\.(\d+)\/(.*)$/.exec(name);
  return found ? `${Number(found[1]) % 2 === 0 ? 'even' : 'odd'}/${found[2]}` : name;
}

const heads = (operation: Extract<Operation, { op: 'attention' }>): number =>
  2 * operation.keyValueHeads * operation.headWidth;

/** The attention of a model's layers, which are all alike. */
const attentionOf = ({ body }: Program) =>
  body.flatMap(({ operation }) => (operation.op === 'attention' ? [operation] : []))[0];

export function answerBuffers(model: Model, size: AnswerSize): BufferSpec[] {
  const { layers, rows, draws, pages, compute = 'f32' } = size;
  const work = program(model, layers);
  const specs = new Map<string, BufferSpec>();
  const add = (spec: BufferSpec): void => {
    if (spec.bytes > (specs.get(spec.name)?.bytes ?? 0)) specs.set(spec.name, spec);
  };
  const keep = (name: string, elements: number): void => add(storage(name, (elements * ELEMENT_BYTES[compute]) / 4));
  const activations = (names: ReadonlyMap<string, number>, count: number): void => {
    for (const [name, width] of names) if (!isGradient(name)) keep(answerPlace(name), count * width);
  };
  activations(work.kept, rows);
  // A stage that hands on has what leaves it among what its backward needs.
  keep(answerPlace(work.output), rows * model.width);
  if (!work.first) keep(INPUT, rows * model.width);
  for (const { operation, y } of [...work.body, ...work.head]) {
    if (y === null) continue;
    if (operation.op === 'layerNorm') add(storage(`${answerPlace(y)}.stat`, 2 * rows));
    if (operation.op === 'rmsNorm') add(storage(`${answerPlace(y)}.stat`, rows));
    if (operation.op === 'headNorm')
      add(storage(`${answerPlace(y)}.stat`, rows * (operation.heads + operation.keyValueHeads)));
  }
  for (const { operation, y } of work.head)
    if (y !== null && operation.op !== 'crossEntropy') keep(y, draws * model.width);
  activations(work.logits, draws);
  for (const spec of adapterBuffers(work, (name, elements) => storage(name, (elements * ELEMENT_BYTES[compute]) / 4)))
    if (spec.name === ADAPTER.b) add(spec);
  const attention = attentionOf(work);
  for (let layer = layers[0]; attention && layer < layers[1]; layer++)
    keep(cacheName(layer), pages * PAGE_ROWS * heads(attention));
  for (const name of [ANSWER_WORDS.ids, ANSWER_WORDS.positions, ANSWER_WORDS.places]) add(storage(name, rows));
  add(storage(ANSWER_WORDS.seen, 2 * rows));
  add(storage(ANSWER_WORDS.pages, pageList(model, size)));
  // A row's position is its own: what positions count from stays 0.
  if (firstKeyWindows(work).includes(null)) add(storage(firstKeysName(null), rows));
  for (const { turns, headWidth } of rotaryTables(work)) add(storage(turns.name, rows * headWidth));
  if (work.first && model.embedding.some((row) => row.op === 'embed' && row.position !== null))
    keep(POSITION_ROWS, rows * model.width);
  if (work.last) {
    keep(DRAWN_ROWS, draws * model.width);
    for (const name of [ANSWER_WORDS.drawn, TOKENS]) add(storage(name, draws));
    add(storage(ANSWER_WORDS.asked, 4 * draws));
  }
  if (compute === 'f16' && !(work.first && work.last)) add(storage(WIRE, rows * model.width));
  add(storage(PASSES, 1));
  for (let i = 0; i < READBACKS; i++) add(readback(`readback/${i}`, (work.last ? draws : rows * model.width) + 1));
  return [...specs.values()];
}

/** Entries of the list of pages that a piece's rows see: at most all of their conversations'. */
const pageList = ({ positions }: Pick<Model, 'positions'>, { rows, pages }: AnswerSize): number =>
  1 + Math.min(rows * Math.ceil(positions / PAGE_ROWS), pages * rows);

const isGradient = (name: string): boolean => name === 'stream' || name.startsWith('gradient/');
