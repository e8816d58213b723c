/**
 * Answers beside a donor's training: pieces that the server asks for wait here until their stream is in and training has
 * nothing due for as long as they take (idleWindows.ts), then go through the GPU one at a time. A piece that can not be
 * done is given back with a reason, and is no fault of the epoch.
 */

import { Pages } from '../../../swarm/answers/pages.ts';
import { at, type PeerId } from '../../../swarm/base.ts';
import { type AnswerSize, answerBuffers } from '../../../swarm/memory/answerMemory.ts';
import { NoRoom } from '../../../swarm/memory/bufferSpec.ts';
import {
  ANSWER_DRAWS,
  ANSWER_ROWS,
  type AnsweredMessage,
  type AnswerMessage,
  type UnansweredMessage,
} from '../../../swarm/messages/answerWords.ts';
import {
  decodeFrame,
  encodeTensor,
  PAYLOAD_BYTES,
  type TensorKey,
  tensorBytes,
} from '../../../swarm/messages/frame.ts';
import type { Throttle } from './dutyCycle.ts';
import type { AnswerRow, AnswerStage, Stage } from './engine.ts';
import type { IdleWindows } from './idleWindows.ts';
import { type Engine, type Role, roleBytes } from './role.ts';

/** Conversations whose keys and values have room at once, and bytes that more than one of them take at most in a stage. */
const CONVERSATIONS = [16, 8, 4, 2, 1];
const MOST_BYTES = 256 * 2 ** 20;
/** Of the time, for answers of a donor that is never idle. */
const FORCED_SHARE = 0.01;
const FORCED_MOST_SECONDS = 2;
/** Spans that an estimate looks back on, what is added to it, and what a piece is taken to last that was never done. */
const SPANS_KEPT = 8;
const MARGIN = 1.1;
const MARGIN_SECONDS = 0.002;
const UNKNOWN_SECONDS = 0.1;
/** How long the word that it may answer holds. */
const ALLOWED_SECONDS = 5;
/** How often it is looked whether a piece fits, while one waits. */
const LOOK_SECONDS = 0.02;
/** Of one sender, of pieces that the server's word has not come of yet. */
const EARLY_FRAMES_LIMIT = 256;

type Outcome = Omit<UnansweredMessage, 'type' | 'epoch' | 'piece' | 'stage'>;

export interface AnswerHost {
  readonly now: () => number;
  readonly wait: (seconds: number) => Promise<void>;
  readonly windows: IdleWindows;
  readonly throttle: Throttle & { readonly freeInSeconds: number; readonly speed: number };
  /** What this donor computes with, and how many updates stand in it; null: no plan has it. */
  role(): { readonly role: Role; readonly engine: Engine; readonly steps: number } | null;
  /** Whether whoever gives it wants it to answer now. */
  mayAnswer(): Promise<boolean>;
  /** Bytes that it may have on its GPU in all; null: nothing is known. */
  memoryBytes(): number | null;
  /** So many rows of answers go through a stage, until then. */
  answering(stage: number, rows: number, done: Promise<void>): void;
  sendServer(message: AnsweredMessage | UnansweredMessage): void;
  sendFrames(to: PeerId, frames: readonly ArrayBuffer[]): Promise<void>;
}

interface Answering {
  readonly of: Stage;
  readonly answers: AnswerStage;
  readonly pages: Pages;
}

/** The stream of a piece as it comes in. */
interface Coming {
  readonly from: PeerId;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly missing: Set<number>;
}

interface Piece {
  readonly message: AnswerMessage;
  /** Null: the stage is first. */
  readonly coming: Coming | null;
}

export class Answers {
  readonly #host: AnswerHost;
  #queue: Piece[] = [];
  readonly #stages = new Map<number, Answering>();
  readonly #early = new Map<PeerId, ArrayBuffer[]>();
  /** By rows of a piece: what the newest took, in seconds. */
  readonly #spans = new Map<number, number[]>();
  #earnedSeconds = 0;
  #earnedAt: number;
  #allowed = { at: Number.NEGATIVE_INFINITY, is: false };
  #isRunning = false;
  #isLooking = false;
  /** Rises when what was asked for is wanted no more. */
  #generation = 0;

  constructor(host: AnswerHost) {
    this.#host = host;
    this.#earnedAt = host.now();
    host.windows.onOpen = () => this.#next();
  }

  get bytes(): number {
    return [...this.#stages.values()].reduce((sum, { answers }) => sum + answers.bytes, 0);
  }

  /** Another plan comes, or none: the server asks anew. */
  clear(): void {
    this.#generation++;
    this.#queue = [];
    this.#early.clear();
    this.#spans.clear();
    for (const { answers } of this.#stages.values()) answers.close();
    this.#stages.clear();
  }

  asked(message: AnswerMessage): void {
    if (this.#host.role()?.role.epoch !== message.epoch) return; // the server knows of the next plan
    const ended = this.#stages.get(message.stage)?.pages;
    for (const conversation of message.ended) ended?.end(String(conversation));
    // Of a conversation that is asked for again the piece before has been given up.
    const again = new Set(message.parts.map(({ conversation }) => conversation));
    const isOld = ({ message: { stage, parts } }: Piece): boolean =>
      stage === message.stage && parts.some(({ conversation }) => again.has(conversation));
    this.#queue = [...this.#queue.filter((piece) => !isOld(piece)), { message, coming: this.#coming(message) }];
    const early = message.from === null ? [] : (this.#early.get(message.from) ?? []);
    if (message.from !== null) this.#early.delete(message.from);
    for (const frame of early) if (message.from !== null) this.accept(message.from, frame);
    this.#next();
  }

  /** A frame of a piece's stream; what no piece waits for is kept for a while, and past that dropped. */
  accept(from: PeerId, bytes: ArrayBuffer): void {
    const frame = decodeFrame(bytes);
    if (!frame.ok) return;
    const { epoch, stage, index, range, offset, payload } = frame.value;
    const piece = this.#queue.find(
      ({ message, coming }) =>
        message.piece === index && message.stage === stage && message.epoch === epoch && coming?.from === from,
    );
    if (!piece?.coming) {
      this.#early.set(from, [...(this.#early.get(from) ?? []), bytes].slice(-EARLY_FRAMES_LIMIT));
      return;
    }
    if (4 * range[1] !== piece.coming.bytes.length || range[0] !== 0) return;
    piece.coming.bytes.set(payload, offset);
    piece.coming.missing.delete(offset / PAYLOAD_BYTES);
    if (piece.coming.missing.size === 0) this.#next();
  }

  #coming({ from, parts }: AnswerMessage): Coming | null {
    const found = this.#host.role();
    if (from === null || !found) return null;
    const elements = rowsOf(parts) * found.role.model.width;
    const bytes = tensorBytes({ range: [0, elements] });
    const chunks = Math.ceil(bytes / PAYLOAD_BYTES);
    return { from, bytes: new Uint8Array(bytes), missing: new Set(Array.from({ length: chunks }, (_, i) => i)) };
  }

  /** Runs a piece whose stream is in, if there is one and it fits. */
  #next(): void {
    if (this.#isRunning) return;
    const place = this.#queue.findIndex(({ coming }) => coming === null || coming.missing.size === 0);
    const piece = this.#queue[place];
    if (!piece) return;
    if (!this.#fits(rowsOf(piece.message.parts))) {
      this.#lookAgain();
      return;
    }
    this.#queue.splice(place, 1);
    this.#isRunning = true;
    void this.#run(piece).finally(() => {
      this.#isRunning = false;
      this.#next();
    });
  }

  #lookAgain(): void {
    if (this.#isLooking) return;
    this.#isLooking = true;
    void this.#host.wait(LOOK_SECONDS).then(() => {
      this.#isLooking = false;
      this.#next();
    });
  }

  /** It ends before training is due; or this donor is never idle, and it takes no more than a hundredth of its time. */
  #fits(rows: number): boolean {
    const { windows, throttle } = this.#host;
    if (windows.isUpdating) return false;
    const needed = throttle.freeInSeconds + this.#estimate(rows) / throttle.speed;
    return windows.secondsLeft >= needed || this.#earned() >= needed;
  }

  /** Of a size that was never done, as one of the next size that was. */
  #estimate(rows: number): number {
    const size = sizeOf(rows);
    const [known] = [...this.#spans].filter(([done]) => done >= size).sort(([one], [other]) => one - other);
    return known ? Math.max(...known[1]) * MARGIN + MARGIN_SECONDS : UNKNOWN_SECONDS;
  }

  #earned(): number {
    const now = this.#host.now();
    const earned = this.#earnedSeconds + FORCED_SHARE * (now - this.#earnedAt);
    this.#earnedSeconds = Math.min(FORCED_MOST_SECONDS, earned);
    this.#earnedAt = now;
    return this.#earnedSeconds;
  }

  async #run(piece: Piece): Promise<void> {
    const { message } = piece;
    const { epoch, piece: number, stage } = message;
    const generation = this.#generation;
    const outcome = await this.#answer(piece, generation).catch(
      (): Outcome => ({ reason: 'failed', conversations: [] }),
    );
    if (outcome !== null && generation === this.#generation)
      this.#host.sendServer({ type: 'unanswered', epoch, piece: number, stage, ...outcome });
  }

  /** Null: it was answered, or nobody waits for it. */
  async #answer({ message, coming }: Piece, generation: number): Promise<Outcome | null> {
    if (!(await this.#mayAnswer())) return { reason: 'unwilling', conversations: [] };
    const answering = await this.#stageOf(message);
    const found = this.#host.role();
    if (generation !== this.#generation || !found) return null;
    if (!answering) return { reason: 'noRoom', conversations: [] };
    const { pages } = answering;
    const gone = message.parts.filter(({ conversation, at }) => at > 0 && pages.lengthOf(String(conversation)) !== at);
    if (gone.length > 0) return { reason: 'gone', conversations: gone.map(({ conversation }) => conversation) };
    const rows = rowsIn(message, pages);
    if (rows === null)
      return { reason: 'noRoom', conversations: message.parts.map(({ conversation }) => conversation) };
    const { shards } = found.role;
    await Promise.all((answering.of.blocks ?? []).map((block) => shards.written?.(message.stage, block)));
    await answering.of.settled();
    const isStill = () =>
      generation === this.#generation && this.#host.role()?.role.stages.get(message.stage) === answering.of;
    while (isStill() && !this.#fits(rows.length)) await this.#host.wait(LOOK_SECONDS);
    if (!isStill()) return null;
    const steps = this.#host.role()?.steps ?? 0;
    const seconds = await this.#compute(
      message.stage,
      answering,
      rows,
      coming && new Float32Array(coming.bytes.buffer),
      isStill,
    );
    if (!isStill()) return null; // what it made is gone with its buffers
    const told = {
      type: 'answered',
      epoch: message.epoch,
      piece: message.piece,
      stage: message.stage,
      steps,
      seconds,
    } as const;
    if (message.to === null) {
      const draws = rows.some(({ draw }) => draw !== null);
      const tokens = draws ? await answering.answers.readTokens() : [];
      if (isStill()) this.#host.sendServer({ ...told, tokens: [...tokens] });
      return null;
    }
    const key: TensorKey = {
      ...{ kind: 'answer', epoch: message.epoch, step: 0, stage: message.stage + 1, index: message.piece },
      range: [0, rows.length * found.role.model.width],
    };
    const reading = await answering.answers.readOutput();
    const frames = await reading.take((values) => encodeTensor(key, values));
    if (!isStill()) return null;
    this.#host.sendServer({ ...told, tokens: [] });
    await this.#host.sendFrames(message.to, frames);
    return null;
  }

  async #mayAnswer(): Promise<boolean> {
    const now = this.#host.now();
    if (now - this.#allowed.at > ALLOWED_SECONDS) this.#allowed = { at: now, is: await this.#host.mayAnswer() };
    return this.#allowed.is;
  }

  async #compute(
    stage: number,
    { of, answers }: Answering,
    rows: readonly AnswerRow[],
    input: Float32Array<ArrayBuffer> | null,
    isStill: () => boolean,
  ): Promise<number> {
    const { now, throttle, windows } = this.#host;
    const isForced = windows.secondsLeft === 0;
    const count = rows.length;
    let begun = now();
    const submit = (): void => {
      begun = now();
      if (isStill()) answers.run(rows, input);
    };
    let done: Promise<void> = Promise.resolve();
    await throttle.run({ op: 'answer', rows: count }, submit, () => {
      done = of.settled();
      this.#host.answering(stage, count, done);
      return done;
    });
    await done;
    const seconds = now() - begun;
    const size = sizeOf(count);
    this.#spans.set(size, [...(this.#spans.get(size) ?? []), seconds].slice(-SPANS_KEPT));
    if (isForced) this.#earnedSeconds -= seconds / throttle.speed;
    return seconds;
  }

  /** Made where it is asked for first; null: there is no memory for it, or the stage has not all of its weights. */
  async #stageOf({ stage: index }: AnswerMessage): Promise<Answering | null> {
    const found = this.#host.role();
    const stage = found?.role.stages.get(index);
    const known = this.#stages.get(index);
    if (known && known.of === stage) return known;
    known?.answers.close();
    this.#stages.delete(index);
    if (!found || !stage || stage.units) return null;
    const generation = this.#generation;
    for (const size of this.#sizesOf(found.role, found.engine, index)) {
      const answers = await found.engine.answers(stage, size).catch((error: unknown) => {
        if (error instanceof NoRoom) return null; // a device may bind less than it has
        throw error;
      });
      if (answers === null) continue;
      const made = { of: stage, answers, pages: new Pages(size.pages) };
      if (generation === this.#generation) {
        this.#stages.set(index, made);
        return made;
      }
      answers.close();
      return null;
    }
    return null;
  }

  /** For as many conversations as there is memory for beside the plan's, then for fewer; none: there is room for not one. */
  #sizesOf({ plan, model, ...role }: Role, { compute }: Engine, index: number): AnswerSize[] {
    const { layers } = at(plan.stages, index);
    const most = this.#host.memoryBytes();
    const free = most === null ? Number.POSITIVE_INFINITY : most - roleBytes(role) - this.bytes;
    return CONVERSATIONS.flatMap((conversations): AnswerSize[] => {
      const pages = Pages.countFor(model.positions, conversations);
      const size = { layers, rows: ANSWER_ROWS, draws: ANSWER_DRAWS, compute, pages };
      const bytes = answerBuffers(model, size).reduce((sum, buffer) => sum + buffer.bytes, 0);
      return bytes <= free && (bytes <= MOST_BYTES || conversations === 1) ? [size] : [];
    });
  }
}

/** Pieces of about as many rows last as long. */
const sizeOf = (rows: number): number => 2 ** Math.ceil(Math.log2(rows));

const rowsOf = (parts: AnswerMessage['parts']): number => parts.reduce((sum, { rows }) => sum + rows, 0);

/** The rows of a piece, with pages for them; null: there is no room for so many at once. */
function rowsIn({ parts, from, to }: AnswerMessage, pages: Pages): AnswerRow[] | null {
  const inUse = new Set(parts.map(({ conversation }) => String(conversation)));
  const all: AnswerRow[] = [];
  for (const { conversation, at, rows, ids, draw } of parts) {
    const name = String(conversation);
    if (at === 0) pages.end(name);
    const own = pages.extend(name, rows, inUse);
    if (own === null) return null;
    for (let i = 0; i < rows; i++)
      all.push({
        id: from === null ? (ids[i] ?? 0) : 0,
        position: at + i,
        pages: own,
        draw: to === null && i === rows - 1 ? draw : null,
      });
  }
  return all;
}
