/**
 * Answers by this machine's own processor, from checkpoints: for models that are small enough, whatever donors there are. One
 * process does the arithmetic and is kept; where it dies, whoever waited for it hears so and the next question starts
 * another one. Of a bounded number of answers each has a token by turns, a bounded number wait, and more are sent away.
 */
import { join } from 'node:path';
import { allParameters, type Model } from '../../swarm/model/model.ts';
import { wholeModelOf } from '../../swarm/run/runFile.ts';
import { baseProblem } from '../store/baseStore.ts';
import { manifestHashes, parseManifest, stateProblem } from '../store/checkpointState.ts';
import type { DataDirectory } from '../store/dataDirectory.ts';
import { parseDocument } from '../store/runDocument.ts';
import {
  type AnsweredToken,
  type Answerer,
  AnswerFault,
  type AnswerRefusal,
  type ModelAnswer,
  type Question,
} from './answerer.ts';
import { type AnswerProcess, openAnswerProcess, type Task, type Word } from './answerProcess.ts';
import { BoundedQueue } from './boundedQueue.ts';
import type { RunTexts } from './runTexts.ts';
import { TokenStream } from './tokenStream.ts';

const AT_ONCE = 2;
const MOST_WAITING = 16;
/** Elements. A larger model keeps a processor busy for longer than an idle question is worth. */
const LARGEST_MODEL = 20_000_000;
/** Of the keys and values of one answer. */
const CONTEXT_BYTES = 256 * 2 ** 20;
const FLOAT64_BYTES = 8;
const ENDED = 'the process that answered has ended: ask again';
const CLOSING = 'the server is closing';

/** One of the server's own: about a larger model, or with text that goes on past the model's positions. */
interface OwnQuestion extends Question {
  readonly largestModel?: number;
  readonly atFull?: Task['atFull'];
}

/** This processor, and what it takes to ask it in words. */
export interface OwnAnswers {
  readonly processor: ProcessorAnswerer;
  readonly texts: RunTexts;
}

/** An answer that is being made, and whom to tell when that is over. */
interface Running {
  readonly tokens: TokenStream<number>;
  readonly over: () => void;
}

const refused = (refusal: AnswerRefusal): ModelAnswer => ({ ok: false, refusal });

export class ProcessorAnswerer implements Answerer {
  readonly #data: DataDirectory;
  readonly #queue = new BoundedQueue(AT_ONCE, MOST_WAITING);
  readonly #running = new Map<number, Running>();
  #process: AnswerProcess | null = null;
  #isClosed = false;
  #lastId = 0;

  constructor(data: DataDirectory) {
    this.#data = data;
  }

  async answer(question: OwnQuestion, signal: AbortSignal): Promise<ModelAnswer> {
    const leave = await this.#queue.enter(signal);
    if (leave === null) return refused({ of: 'busy', retrySeconds: this.#queue.retrySeconds() });
    try {
      return await this.#begin(question, signal, leave);
    } catch (error) {
      leave();
      throw error;
    }
  }

  /** Whoever waits for an answer hears that there will be none. */
  close(): void {
    this.#isClosed = true;
    this.#process?.close();
    this.#endAll(CLOSING);
  }

  /** Calls `leave` when all tokens are made, whether or not they are taken. */
  async #begin(question: OwnQuestion, signal: AbortSignal, leave: () => void): Promise<ModelAnswer> {
    const { blobs, directory } = this.#data;
    const notThere = (sentence: string): ModelAnswer => {
      leave();
      return refused({ of: 'notThere', sentence });
    };
    const found = this.#weightsFor(question);
    if (found === null) return notThere(`checkpoint ${question.step} of ${question.run} is not kept here`);
    const { step, document, manifest } = found;
    const tooLarge = sizeProblem(wholeModelOf(parseDocument(document).file), question);
    if (tooLarge !== null) {
      leave();
      return refused({ of: 'tooLarge', sentence: tooLarge });
    }
    // The run goes on meanwhile, and newer states supersede this one.
    const letGo = blobs.hold(manifestHashes(parseManifest(manifest)));
    const over = (): void => {
      void letGo();
      leave();
    };
    const problem = this.#isClosed ? CLOSING : await this.#problemOf(document, manifest);
    if (problem !== null) {
      void letGo();
      return notThere(problem);
    }
    const { ids, mostTokens: count, temperature, topP, seed, ends, atFull = 'end' } = question;
    const task: Task = {
      ids,
      count,
      temperature,
      topP,
      seed,
      ends,
      atFull,
      blobs: join(directory, 'blobs'),
      document,
      manifest,
    };
    return { ok: true, tokens: told(this.#started(task, signal, over), step) };
  }

  #weightsFor({ run, step }: Question): { step: number; document: string; manifest: string } | null {
    const { store } = this.#data;
    const row = store.run(run);
    const newest = store.newestCheckpoint(run);
    if (row === null || newest === null) return null;
    const { document } = row;
    if (step === null) return { step: newest.committedSteps, document, manifest: newest.manifest };
    const manifest = store.checkpoint(run, step);
    return manifest === null ? null : { step, document, manifest };
  }

  async #problemOf(document: string, manifest: string): Promise<string | null> {
    const { blobs } = this.#data;
    return (await stateProblem(blobs, parseManifest(manifest))) ?? (await baseProblem(blobs, parseDocument(document)));
  }

  #started(task: Task, signal: AbortSignal, over: () => void): Running {
    const id = ++this.#lastId;
    const stop = (): void => {
      this.#process?.send({ type: 'stop', id });
      this.#end(id, null);
    };
    const running: Running = {
      tokens: new TokenStream(),
      over: () => {
        signal.removeEventListener('abort', stop);
        over();
      },
    };
    this.#running.set(id, running);
    signal.addEventListener('abort', stop);
    if (signal.aborted || this.#isClosed) stop();
    else this.#opened().send({ type: 'answer', id, task });
    return running;
  }

  #opened(): AnswerProcess {
    const ended = (): void => {
      if (this.#process !== opened) return;
      this.#process = null;
      this.#endAll(ENDED);
    };
    const opened = this.#process ?? openAnswerProcess((word) => this.#heard(word), ended);
    this.#process = opened;
    return opened;
  }

  #heard(word: Word): void {
    const running = this.#running.get(word.id);
    if (running === undefined) return;
    if (word.type === 'end') this.#end(word.id, word.fault);
    else running.tokens.push(word.token);
  }

  #end(id: number, fault: string | null): void {
    const running = this.#running.get(id);
    if (running === undefined) return;
    this.#running.delete(id);
    running.over();
    running.tokens.end(fault === null ? null : new AnswerFault(fault));
  }

  #endAll(fault: string): void {
    for (const id of [...this.#running.keys()]) this.#end(id, fault);
  }
}

/** Of the checkpoint after so many steps. */
async function* told({ tokens }: Running, step: number): AsyncGenerator<AnsweredToken> {
  for await (const token of tokens) yield { token, fromStep: step, toStep: step, donors: 0 };
}

/** Why this is too much for a processor; null: it is not. */
function sizeProblem(model: Model, { ids, mostTokens, largestModel = LARGEST_MODEL }: OwnQuestion): string | null {
  const size = allParameters(model);
  if (size > largestModel)
    return `this model has ${size} parameters, and the server’s own processor answers with at most ${largestModel}`;
  const most = Math.floor(CONTEXT_BYTES / positionBytes(model));
  if (Math.min(model.positions, ids.length + mostTokens) <= most) return null;
  return `the server’s own processor has room for ${most} tokens, of the prompt and the answer together: ask for fewer (max_tokens)`;
}

/** What is kept of a token while an answer goes on. */
function positionBytes({ layers, layer }: Model): number {
  const attentions = Array.from({ length: layers }, (_, index) => layer(index))
    .flat()
    .flatMap((row) => (row.op === 'attention' ? row : []));
  // Queries, keys and values, and a weight of each head.
  const numbers = attentions.map((row) => (row.heads + 2 * row.keyValueHeads) * row.headWidth + row.heads);
  return FLOAT64_BYTES * numbers.reduce((sum, count) => sum + count, 0);
}
