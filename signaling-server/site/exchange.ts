/**
 * How the processes of a site talk to each other: each listens to one subject, in which all the pipes of others to it
 * arrive, and tells all every second that it lives. Nothing of a pipe is kept by NATS: what is lost on the way is said again.
 */
import { Buffer } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import type { NatsConnection } from '@nats-io/transport-node';
import { isProcessName } from '../donors/processName.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import { Inbox } from './inbox.ts';
import { Line } from './line.ts';
import { OthersOpenings, OwnOpenings } from './openings.ts';
import { endsWithin } from './patience.ts';
import { isOpening, isReset, Pipe, partIn, RESET_TEXT } from './pipe.ts';

/** How often a process says that it lives, and looks after what was lost. */
const LOOK_MS = 1_000;
/** A process of which nothing is heard for so long is gone, with its pipes. */
const SILENCE_MS = 5_000;
/** Who is asked whether it lives, and does, has said so by then. */
const ROLL_CALL_MS = 1_000;
/** So many processes are remembered with which pipes they have opened here: those of which any came last. */
const REMEMBERED_PROCESSES = 256;
/**
 * Before what is said of a pipe: which of the two ends it is for, who may both be in one process, and the pipe's number, which
 * its opener gave it; then, of the opener, from which number on it may still open any.
 */
const FOR_OPENER = 0;
const FOR_OTHER = 1;
const NUMBER_BYTES = 6;
const NAME_BYTES = 1 + NUMBER_BYTES;
const HEAD_BYTES = NAME_BYTES + NUMBER_BYTES;
/** The first message of a pipe says what it is for. */
export const OPENING = 0;

interface ExchangeOptions {
  readonly nats: NatsConnection;
  readonly site: string;
  readonly log: (text: string) => void;
  /** What another process said could not be read. */
  readonly malformed?: () => void;
}

interface Open {
  readonly pipe: Pipe;
  readonly process: string;
}

interface End {
  readonly process: string;
  readonly isOpener: boolean;
  readonly number: number;
}

/** Told of a new pipe's first message; false: nobody here wants it. */
type Accept = (pipe: Pipe, opening: Buffer, process: string) => boolean;

export class Exchange {
  /** Of this process, new with each start. */
  readonly process = randomBytes(9).toString('base64url');
  readonly #log: (text: string) => void;
  readonly #onMalformed: () => void;
  #malformed = 0;
  readonly #nats: NatsConnection;
  readonly #prefix: string;
  readonly #subject: string;
  readonly #pipes = new Map<string, Open>();
  /** To each process to which there are any. */
  readonly #lines = new Map<string, Line>();
  readonly #inbox = new Inbox({
    nameOf: (message, reply) => repeatable(message, reply),
    deal: (message, reply) => this.#heard(message, reply),
  });
  /** Of pipes that this process opened. */
  #numbers = 0;
  readonly #own = new Map<string, OwnOpenings>();
  readonly #others = new Map<string, OthersOpenings>();
  /** Of pipes that are not here: their other end was told so since the last look. */
  readonly #denied = new Set<string>();
  /** Of those with whom there are pipes: for how long nothing was heard of each. */
  readonly #silentMs = new Map<string, number>();
  /** When each other process was heard of last. */
  readonly #heardMs = new Map<string, number>();
  readonly #timer: NodeJS.Timeout;
  #lookedMs = monotonicMs();
  #isConnected = true;
  #isLeaving = false;
  #accept: Accept = () => false;
  readonly #connectionListeners = new Set<(isConnected: boolean) => void>();

  constructor({ nats, site, log, malformed = () => {} }: ExchangeOptions) {
    this.#log = log;
    this.#onMalformed = malformed;
    this.#nats = nats;
    this.#prefix = `shoal.${site}`;
    this.#subject = this.#subjectOf(this.process);
    nats.subscribe(this.#subject, {
      callback: (error, message) => {
        if (error === null) this.#inbox.came(viewOf(message.data), message.reply ?? '');
      },
    });
    nats.subscribe(`${this.#prefix}.alive`, {
      callback: (error, message) => {
        if (error === null) this.#heardAlive(message.string());
      },
    });
    nats.subscribe(`${this.#prefix}.who`, {
      callback: (error, message) => {
        const asker = message.string();
        if (error === null && isProcessName(asker) && !this.#isLeaving) this.#tell(`here.${asker}`);
      },
    });
    this.#timer = setInterval(() => this.#look(), LOOK_MS);
    void this.#followConnection();
  }

  /** NATS can be talked to, as far as is known. */
  get isConnected(): boolean {
    return this.#isConnected;
  }

  /** This process has not yet dealt with what the others' donors said more than a second ago. */
  get isBehind(): boolean {
    return this.#inbox.isBehind;
  }

  /** How often what another process said in a pipe could not be read. */
  get malformed(): number {
    return this.#malformed;
  }

  /** Told of each change of that, until what is returned is called. */
  onConnection(listener: (isConnected: boolean) => void): () => void {
    this.#connectionListeners.add(listener);
    return () => this.#connectionListeners.delete(listener);
  }

  /** Other processes of the site that live. */
  get others(): number {
    return this.#heardMs.size;
  }

  /**
   * From now on this process is none that others count on. Resolves when it is known whether there is one on which they can:
   * all are asked, since who died a moment ago is still thought to live.
   */
  leave(): Promise<'alone' | 'others'> {
    this.#isLeaving = true;
    return new Promise((resolve) => {
      if (!this.#nats.isClosed())
        // To nobody else's question: who answered that one may be gone by now.
        this.#nats.subscribe(`${this.#prefix}.here.${this.process}`, {
          callback: (error, message) => {
            if (error === null && message.string() !== this.process) resolve('others');
          },
        });
      this.#tell('who');
      setTimeout(() => resolve('alone'), ROLL_CALL_MS);
    });
  }

  accept(accept: Accept): void {
    this.#accept = accept;
  }

  /** What the other end does with it depends on the first message. Lost where that process is not there. */
  open(process: string, opening: Uint8Array): Pipe {
    const number = this.#numbers++;
    const pipe = this.#pipe({ process, isOpener: true, number });
    const own = this.#own.get(process) ?? new OwnOpenings();
    this.#own.set(process, own);
    own.add(number, pipe);
    pipe.send(OPENING, opening);
    return pipe;
  }

  /** Others find its pipes lost at once. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    for (const { pipe } of [...this.#pipes.values()]) pipe.reset();
    await endsWithin(this.#nats.flush(), LOOK_MS); // it may be away
  }

  #subjectOf = (process: string): string => `${this.#prefix}.to.${process}`;

  /** What goes before what an end says. */
  #head({ process, isOpener, number }: End): Buffer {
    const head = Buffer.alloc(HEAD_BYTES);
    head[0] = isOpener ? FOR_OTHER : FOR_OPENER;
    head.writeUIntLE(number, 1, NUMBER_BYTES);
    const oldest = isOpener ? this.#own.get(process)?.oldest(this.#numbers) : undefined;
    head.writeUIntLE(oldest ?? 0, NAME_BYTES, NUMBER_BYTES);
    return head;
  }

  #pipe(end: End): Pipe {
    const { process } = end;
    const key = keyOf(end);
    const subject = this.#subjectOf(process);
    const say = (...pieces: readonly Uint8Array[]): void =>
      this.#publish(subject, Buffer.concat([this.#head(end), ...pieces]));
    const line = this.#lines.get(process) ?? new Line();
    this.#lines.set(process, line);
    const pipe = new Pipe(
      say,
      () => this.#pipes.delete(key),
      monotonicMs,
      line,
      (what) => this.#faulted(process, what),
    );
    this.#pipes.set(key, { pipe, process });
    if (!this.#silentMs.has(process)) this.#silentMs.set(process, 0);
    return pipe;
  }

  /** To this process itself nothing goes through NATS. */
  #publish(subject: string, bytes: Buffer): void {
    if (subject === this.#subject) this.#inbox.came(bytes, subject);
    else if (!this.#nats.isClosed()) this.#nats.publish(subject, bytes, { reply: this.#subject });
  }

  #heard(message: Buffer, reply: string): void {
    const process = reply.slice(this.#subjectOf('').length);
    if (message.length <= HEAD_BYTES || this.#subjectOf(process) !== reply || !isProcessName(process)) return;
    const end = { process, isOpener: message[0] === FOR_OPENER, number: message.readUIntLE(1, NUMBER_BYTES) };
    const bytes = message.subarray(HEAD_BYTES);
    const key = keyOf(end);
    const known = this.#pipes.get(key);
    if (known !== undefined) {
      known.pipe.hear(bytes);
      return;
    }
    const oldest = message.readUIntLE(NAME_BYTES, NUMBER_BYTES);
    const isNew = !end.isOpener && isOpening(bytes) && this.#othersOf(process).isFirst(end.number, oldest);
    if (isReset(bytes) || this.#inbox.holds(resetOf(message, reply))) return;
    if (isNew) this.#opened(end, bytes);
    else if (!this.#denied.has(key)) {
      this.#denied.add(key);
      this.#publish(reply, Buffer.concat([this.#head(end), RESET_TEXT]));
    }
  }

  #othersOf(process: string): OthersOpenings {
    const others = this.#others.get(process) ?? new OthersOpenings();
    this.#others.delete(process);
    this.#others.set(process, others);
    const [first] = this.#others.keys();
    if (this.#others.size > REMEMBERED_PROCESSES && first !== undefined) this.#others.delete(first);
    return others;
  }

  #opened(end: End, bytes: Buffer): void {
    const pipe = this.#pipe(end);
    pipe.read({
      onMessage: (_kind, opening, taken) => {
        taken();
        if (!this.#accept(pipe, opening, end.process)) pipe.reset();
      },
      onClosed: () => {},
    });
    pipe.hear(bytes);
  }

  #faulted(process: string, what: string): void {
    this.#malformed += 1;
    this.#log(`process ${process} of the site said what cannot be read (${what}): that conversation is dropped`);
    this.#onMalformed();
  }

  #heardAlive(process: string): void {
    if (!isProcessName(process)) return;
    if (this.#silentMs.has(process)) this.#silentMs.set(process, 0);
    if (process !== this.process) this.#heardMs.set(process, monotonicMs());
  }

  /** All processes of the site. */
  #tell(what: 'alive' | 'who' | `here.${string}`): void {
    if (!this.#nats.isClosed()) this.#nats.publish(`${this.#prefix}.${what}`, this.process);
  }

  /** While NATS was away, or this process stood still, nobody was silent. */
  #look(): void {
    const nowMs = monotonicMs();
    const passedMs = this.#isConnected ? Math.min(nowMs - this.#lookedMs, 2 * LOOK_MS) : 0;
    this.#lookedMs = nowMs;
    this.#denied.clear();
    this.#tell('alive');
    for (const [process, heardMs] of this.#heardMs) if (nowMs - heardMs > SILENCE_MS) this.#heardMs.delete(process);
    const living = new Set<string>();
    for (const { pipe, process } of [...this.#pipes.values()]) {
      if (process !== this.process && (this.#silentMs.get(process) ?? 0) > SILENCE_MS) pipe.breakOff();
      else {
        living.add(process);
        if (this.#isConnected) pipe.resend();
      }
    }
    for (const [process, silentMs] of this.#silentMs)
      if (living.has(process)) this.#silentMs.set(process, silentMs + passedMs);
      else {
        this.#silentMs.delete(process);
        this.#lines.delete(process);
        this.#own.delete(process);
      }
  }

  async #followConnection(): Promise<void> {
    for await (const { type } of this.#nats.status()) {
      if (type === 'disconnect') {
        this.#connected(false);
        this.#log('NATS is away: the step in progress goes on, and nothing is saved until NATS is back');
      }
      if (type === 'reconnect') {
        this.#connected(true);
        this.#log('NATS is back');
        for (const { pipe } of this.#pipes.values()) pipe.resend(true);
      }
    }
  }

  #connected(isConnected: boolean): void {
    this.#isConnected = isConnected;
    for (const listener of this.#connectionListeners) listener(isConnected);
  }
}

const keyOf = ({ process, isOpener, number }: End): string => `${isOpener ? 'to' : 'of'} ${process} ${number}`;

/** A part that waits already need not come again, nor that a pipe is lost; the bytes are those of the heads above. */
function repeatable(message: Buffer, reply: string): string | null {
  const bytes = message.subarray(HEAD_BYTES);
  if (isReset(bytes)) return resetOf(message, reply);
  const part = partIn(bytes);
  return part === null ? null : `${message.toString('latin1', 0, NAME_BYTES)}${part}${reply}`;
}

const resetOf = (message: Buffer, reply: string): string => `${message.toString('latin1', 0, NAME_BYTES)}reset${reply}`;

const viewOf = ({ buffer, byteOffset, length }: Uint8Array): Buffer => Buffer.from(buffer, byteOffset, length);
