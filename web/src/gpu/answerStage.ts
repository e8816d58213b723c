/**
 * A stage that answers: forwards of a few rows through the weights that it trains with, with the keys and values of each
 * conversation kept in pages. A piece, some rows of some conversations, is one compute pass and one submit; nothing is
 * allocated for it.
 */
import { askedWords } from '../../../shaders/answer/drawTokens.ts';
import { rotaryTable } from '../../../shaders/attention/rotary.ts';
import { closeLaunch, type Launch } from '../../../shaders/kernel/launch.ts';
import { placeOfPosition, UNUSED_PAGE } from '../../../swarm/answers/pages.ts';
import { at, got, invariant } from '../../../swarm/base.ts';
import {
  ANSWER_WORDS,
  type AnswerSize,
  answerBuffers,
  answerPlace,
  TOKENS,
} from '../../../swarm/memory/answerMemory.ts';
import { PASSES } from '../../../swarm/memory/bufferSpec.ts';
import { rotaryTables, WIRE } from '../../../swarm/memory/memory.ts';
import type { Model } from '../../../swarm/model/model.ts';
import { INPUT, type Program, program } from '../../../swarm/model/program.ts';
import type { AnswerRow, AnswerStage, Reading } from '../executor/engine.ts';
import {
  type AnswerParts,
  type AnswerWeights,
  answerBody,
  answerHead,
  answerPlaces,
  pieceSizes,
  sizeFor,
} from './answerCalls.ts';
import { BufferSet, created, ReadbackPool } from './buffers.ts';
import { launchesOf } from './compile.ts';
import type { Gpu } from './device.ts';
import { Passes } from './passes.ts';

export class GpuAnswerStage implements AnswerStage {
  readonly bytes: number;
  readonly #parts: AnswerParts;
  readonly #program: Program;
  readonly #buffers: BufferSet;
  readonly #readbacks: ReadbackPool;
  /** Cosines and sines of every position, by the name of their turns. */
  readonly #rotary: ReadonlyMap<string, Float32Array>;
  #passes: Passes | null = null;
  /** By rows of the piece, and of draws. */
  readonly #bodies = new Map<number, readonly Launch[]>();
  readonly #heads = new Map<number, readonly Launch[]>();
  #made = { rows: 0, draws: 0 };

  private constructor(parts: AnswerParts) {
    const { gpu, model, size } = parts;
    this.#parts = parts;
    this.#program = program(model, size.layers);
    this.#buffers = new BufferSet(gpu.device, `answers of layers ${size.layers.join('-')}`, answerBuffers(model, size));
    this.bytes = this.#buffers.bytes;
    this.#readbacks = new ReadbackPool(gpu.device, this.#buffers.startingWith('readback/'));
    this.#rotary = new Map(
      rotaryTables(this.#program).map(({ turns }) => [turns.name, rotaryTable(model.positions, turns.frequencies)]),
    );
  }

  static async create(gpu: Gpu, model: Model, weights: AnswerWeights, size: AnswerSize): Promise<GpuAnswerStage> {
    const parts = { gpu, model, weights, size };
    const stage = await created(gpu.device, 'the memory of answers', () => new GpuAnswerStage(parts));
    try {
      await stage.#compile();
      return stage;
    } catch (cause) {
      stage.close();
      throw cause;
    }
  }

  /** Puts a piece in the GPU's queue: at most the size's rows and draws, of each conversation in order. */
  run(rows: readonly AnswerRow[], input: Float32Array<ArrayBuffer> | null = null): void {
    invariant(this.#passes && rows.length > 0, 'a stage is compiled, and a piece has a row');
    const { gpu, size, model } = this.#parts;
    const count = sizeFor(size.rows, rows.length, gpu.family);
    this.#write(rows, count);
    if (!this.#program.first) {
      invariant(input?.length === rows.length * model.width, 'a later stage needs the stream');
      const target = size.compute === 'f16' ? WIRE : INPUT;
      gpu.device.queue.writeBuffer(this.#buffers.get(target), 0, input);
    }
    const draws = rows.flatMap(({ draw }, row) => (draw ? [{ row, draw }] : []));
    const isDrawn = draws.length > 0 && this.#program.last;
    const drawn = isDrawn ? sizeFor(size.draws, draws.length, gpu.family) : 0;
    if (drawn > 0) {
      const last = at(draws, draws.length - 1);
      const filled = [...draws, ...Array.from({ length: drawn - draws.length }, () => last)];
      this.#writeWords(
        ANSWER_WORDS.drawn,
        Uint32Array.from(filled, ({ row }) => row),
      );
      this.#writeWords(ANSWER_WORDS.asked, askedWords(filled.map(({ draw }) => draw)));
    }
    this.#made = { rows: rows.length, draws: this.#program.last ? draws.length : 0 };
    this.#passes.submit('answer', [...got(this.#bodies, count), ...(drawn > 0 ? got(this.#heads, drawn) : [])]);
  }

  /** The stream of the newest piece's rows, for the next stage. */
  readOutput(): Promise<Reading> {
    const source = this.#buffers.get(this.#parts.size.compute === 'f16' ? WIRE : answerPlace(this.#program.output));
    return this.#readbacks.read([{ source, at: 0, length: this.#made.rows * this.#parts.model.width }], this.#proof);
  }

  /** The tokens drawn by the newest piece, in the order of its rows. */
  async readTokens(): Promise<readonly number[]> {
    const { draws } = this.#made;
    const reading = await this.#readbacks.read(
      [{ source: this.#buffers.get(TOKENS), at: 0, length: draws }],
      this.#proof,
    );
    return reading.take((words) => Array.from(new Uint32Array(words.buffer, words.byteOffset, draws)));
  }

  close(): void {
    for (const launches of [...this.#bodies.values(), ...this.#heads.values()]) launches.forEach(closeLaunch);
    this.#passes?.close();
    this.#buffers.close();
  }

  get #proof() {
    invariant(this.#passes, 'a stage is compiled before it answers');
    return this.#passes.proof;
  }

  #write(rows: readonly AnswerRow[], count: number): void {
    const unused: AnswerRow = { id: 0, position: 0, pages: [UNUSED_PAGE], draw: null };
    const all = [...rows, ...Array.from({ length: count - rows.length }, () => unused)];
    const pages: number[] = [];
    const lists = new Map<readonly number[], number>();
    const seen = all.flatMap(({ pages: own, position }) => {
      const first = lists.get(own) ?? pages.length;
      if (!lists.has(own)) pages.push(...own);
      lists.set(own, first);
      return [first, position + 1];
    });
    this.#writeWords(
      ANSWER_WORDS.ids,
      Uint32Array.from(all, ({ id }) => id),
    );
    this.#writeWords(
      ANSWER_WORDS.positions,
      Uint32Array.from(all, ({ position }) => position),
    );
    this.#writeWords(
      ANSWER_WORDS.places,
      Uint32Array.from(all, (row) => placeOfPosition(row.pages, row.position)),
    );
    this.#writeWords(ANSWER_WORDS.seen, Uint32Array.from(seen));
    this.#writeWords(ANSWER_WORDS.pages, Uint32Array.from(pages));
    for (const [name, whole] of this.#rotary) {
      const width = whole.length / this.#parts.model.positions;
      const table = new Float32Array(count * width);
      for (const [row, { position }] of all.entries())
        table.set(whole.subarray(position * width, (position + 1) * width), row * width);
      this.#parts.gpu.device.queue.writeBuffer(this.#buffers.get(name), 0, table);
    }
  }

  #writeWords(name: string, words: Uint32Array<ArrayBuffer>): void {
    this.#parts.gpu.device.queue.writeBuffer(this.#buffers.get(name), 0, words);
  }

  async #compile(): Promise<void> {
    const { gpu, model, size } = this.#parts;
    const { compute = 'f32' } = size;
    const places = (rows: number) => answerPlaces(this.#parts, rows, (name) => this.#buffers.get(answerPlace(name)));
    this.#passes = await Passes.create(gpu, this.#buffers.get(PASSES));
    const bodies = pieceSizes(size.rows, gpu.family).map(async (rows) => {
      this.#bodies.set(rows, await launchesOf(gpu, compute, answerBody(model, this.#program, places(rows), size)));
    });
    const heads = !this.#program.last
      ? []
      : pieceSizes(size.draws, gpu.family).map(async (draws) => {
          this.#heads.set(draws, await launchesOf(gpu, compute, answerHead(this.#program, places(draws), size.rows)));
        });
    await Promise.all([...bodies, ...heads]);
  }
}
