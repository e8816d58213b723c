/**
 * What the process does that answers on this machine's processor: the arithmetic is the CPU reference's, a token of each
 * answer by turns, so that a server full of donors is not held up and a short answer does not wait for a long one. Values of
 * models are kept between questions, a bounded number of them.
 */
import { fork } from 'node:child_process';
import { hash } from 'node:crypto';
import { once } from 'node:events';
import type { Command } from 'commander';
import { z } from 'zod';
import { type Model, parameters } from '../../swarm/model/model.ts';
import { type Sampling, tokensAfter } from '../../swarm/reference/generate.ts';
import { BlobReader } from '../files/blobs.ts';
import { messageOf } from '../files/errorWords.ts';
import { COMMAND_FILE, IS_BUILT } from '../files/projectRoot.ts';
import { wholeWeights } from '../store/baseStore.ts';
import { parseManifest } from '../store/checkpointState.ts';
import { parseDocument } from '../store/runDocument.ts';
import { tensorsOf } from '../texts/sampleText.ts';

const COMMAND = 'answer-process';
/** Elements of all models whose values are kept while nobody asks for them: 8 bytes each. */
const KEPT_ELEMENTS = 40_000_000;

/** What is to be answered, and with which values. */
export interface Task extends Omit<Sampling, 'random'> {
  readonly ids: readonly number[];
  readonly seed: number;
  readonly blobs: string;
  readonly document: string;
  readonly manifest: string;
}

export type Order =
  | { readonly type: 'answer'; readonly id: number; readonly task: Task }
  | { readonly type: 'stop'; readonly id: number };

const wordSchema = z.discriminatedUnion('type', [
  z.object({ type: z.literal('token'), id: z.int(), token: z.int() }),
  /** `fault`: what it broke off for. */
  z.object({ type: z.literal('end'), id: z.int(), fault: z.string().nullable() }),
]);
export type Word = z.infer<typeof wordSchema>;

export interface AnswerProcess {
  send(order: Order): void;
  close(): void;
}

/** `ended`: it is gone, and with it whatever it was doing. Sources as the tests run them do the same work in this process. */
export function openAnswerProcess(hear: (word: Word) => void, ended: () => void): AnswerProcess {
  if (!IS_BUILT) {
    const work = new AnswerWork(hear);
    return { send: (order) => work.take(order), close: () => work.close() };
  }
  const child = fork(COMMAND_FILE, [COMMAND], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  child.on('message', (message) => hear(wordSchema.parse(message)));
  child.on('error', ended);
  child.on('exit', ended);
  return { send: (order) => void child.send(order, () => {}), close: () => void child.kill('SIGKILL') };
}

export function addAnswerProcessCommand(program: Command): void {
  program.command(COMMAND, { hidden: true }).action(async () => {
    // Ctrl-C reaches the whole group: this process ends with its server.
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
    const work = new AnswerWork((word) => void process.send?.(word, undefined, undefined, () => {}));
    process.on('message', (order: Order) => work.take(order));
    await once(process, 'disconnect');
    process.exit(1);
  });
}

interface Values {
  readonly model: Model;
  readonly elements: number;
  readonly tensors: Promise<ReadonlyMap<string, Float64Array>>;
}

const rest = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

class AnswerWork {
  readonly #say: (word: Word) => void;
  /** Answers under way. */
  readonly #tasks = new Set<number>();
  /** By a hash of all that they follow from, those asked for last at the end. */
  readonly #values = new Map<string, Values>();

  constructor(say: (word: Word) => void) {
    this.#say = say;
  }

  take(order: Order): void {
    if (order.type === 'stop') this.#tasks.delete(order.id);
    else {
      this.#tasks.add(order.id);
      void this.#answer(order.id, order.task);
    }
  }

  close(): void {
    this.#tasks.clear();
    this.#values.clear();
  }

  async #answer(id: number, task: Task): Promise<void> {
    let fault: string | null = null;
    try {
      const { model, tensors } = this.#valuesFor(task);
      const { ids, ...sampling } = task;
      for (const token of tokensAfter(model, await tensors, ids, sampling)) {
        if (!this.#tasks.has(id)) return;
        if (token !== null) this.#say({ type: 'token', id, token });
        await rest();
      }
    } catch (error) {
      fault = messageOf(error);
    }
    if (this.#tasks.delete(id)) this.#say({ type: 'end', id, fault });
  }

  #valuesFor({ blobs, document, manifest }: Task): Values {
    const key = hash('sha256', `${document}\n${manifest}`);
    const values = this.#values.get(key) ?? valuesOf(blobs, document, manifest);
    this.#values.delete(key);
    this.#values.set(key, values);
    // What cannot be read now may be read the next time.
    values.tensors.catch(() => this.#values.delete(key));
    let sum = 0;
    for (const [each, { elements }] of [...this.#values].reverse()) {
      sum += elements;
      if (sum > KEPT_ELEMENTS) this.#values.delete(each);
    }
    return values;
  }
}

function valuesOf(blobs: string, document: string, manifest: string): Values {
  const { model, read } = wholeWeights(new BlobReader(blobs), parseDocument(document), parseManifest(manifest));
  return {
    model,
    elements: parameters(model),
    tensors: tensorsOf(model, read),
  };
}
