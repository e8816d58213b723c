/**
 * How the processes of a site talk to each other: each listens to one subject, in which all the pipes of others to it
 * arrive, and tells all every second that it lives. Nothing of a pipe is kept by NATS: what is lost on the way is said again.
 */
import { Buffer } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import type { NatsConnection } from '@nats-io/transport-node';
import { monotonicMs } from '../monitoring/clock.ts';
import { Line } from './line.ts';
import { endsWithin } from './patience.ts';
import { isOpening, isReset, Pipe, RESET_TEXT } from './pipe.ts';

/** How often a process says that it lives, and looks after what was lost. */
const LOOK_MS = 1_000;
/** A process of which nothing is heard for so long is gone, with its pipes. */
const SILENCE_MS = 5_000;
/** Who is asked whether it lives, and does, has said so by then. */
const ROLL_CALL_MS = 1_000;
const PIPE_ID_BYTES = 12;
/** Before the id: which of the two ends it is for, who may both be in one process. */
const FOR_OPENER = Buffer.from([0]);
const FOR_OTHER = Buffer.from([1]);
const HEAD_BYTES = 1 + PIPE_ID_BYTES;
/** What others said is dealt with for so long at a time; then timers and other connections have their turn. */
const TURN_MS = 20;
/** What others said waits so long before it is dealt with: what they have not said yet is not known. */
const BEHIND_MS = 1_000;
/** The first message of a pipe says what it is for. */
export const OPENING = 0;

interface ExchangeOptions {
  readonly nats: NatsConnection;
  readonly site: string;
  readonly log: (text: string) => void;
}

interface Open {
  readonly pipe: Pipe;
  readonly process: string;
}

/** Told of a new pipe's first message; false: nobody here wants it. */
type Accept = (pipe: Pipe, opening: Buffer, process: string) => boolean;

export class Exchange {
  /** Of this process, new with each start. */
  readonly process = randomBytes(9).toString('base64url');
  readonly #nats: NatsConnection;
  readonly #prefix: string;
  readonly #subject: string;
  readonly #pipes = new Map<string, Open>();
  /** To each process to which there are any. */
  readonly #lines = new Map<string, Line>();
  /** What came and was not dealt with: no more than a line of each process, and acknowledgements. */
  readonly #inbox: { readonly message: Buffer; readonly reply: string; readonly cameMs: number }[] = [];
  #isDealing = false;
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

  constructor({ nats, site, log }: ExchangeOptions) {
    this.#nats = nats;
    this.#prefix = `shoal.${site}`;
    this.#subject = this.#subjectOf(this.process);
    nats.subscribe(this.#subject, {
      callback: (error, message) => {
        if (error === null) this.#came(viewOf(message.data), message.reply ?? '');
      },
    });
    nats.subscribe(`${this.#prefix}.alive`, {
      callback: (error, message) => {
        if (error === null) this.#heardAlive(message.string());
      },
    });
    nats.subscribe(`${this.#prefix}.who`, {
      callback: (error) => {
        if (error === null && !this.#isLeaving) this.#tell('here');
      },
    });
    this.#timer = setInterval(() => this.#look(), LOOK_MS);
    void this.#followConnection(log);
  }

  /** NATS can be talked to, as far as is known. */
  get isConnected(): boolean {
    return this.#isConnected;
  }

  /** This process has not yet dealt with what the others' donors said more than a second ago. */
  get isBehind(): boolean {
    const [oldest] = this.#inbox;
    return oldest !== undefined && monotonicMs() - oldest.cameMs > BEHIND_MS;
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
        this.#nats.subscribe(`${this.#prefix}.here`, {
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
    const id = randomBytes(PIPE_ID_BYTES);
    const pipe = this.#pipe(Buffer.concat([FOR_OPENER, id]), Buffer.concat([FOR_OTHER, id]), process);
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

  #pipe(own: Buffer, others: Buffer, process: string): Pipe {
    const key = own.toString('latin1');
    const subject = this.#subjectOf(process);
    const say = (...pieces: readonly Uint8Array[]): void => this.#publish(subject, Buffer.concat([others, ...pieces]));
    const line = this.#lines.get(process) ?? new Line();
    this.#lines.set(process, line);
    const pipe = new Pipe(say, () => this.#pipes.delete(key), monotonicMs, line);
    this.#pipes.set(key, { pipe, process });
    if (!this.#silentMs.has(process)) this.#silentMs.set(process, 0);
    return pipe;
  }

  /** To this process itself nothing goes through NATS. */
  #publish(subject: string, bytes: Buffer): void {
    if (subject === this.#subject) this.#came(bytes, subject);
    else if (!this.#nats.isClosed()) this.#nats.publish(subject, bytes, { reply: this.#subject });
  }

  #came(message: Buffer, reply: string): void {
    this.#inbox.push({ message, reply, cameMs: monotonicMs() });
    if (this.#isDealing) return;
    this.#isDealing = true;
    setImmediate(() => this.#deal());
  }

  #deal(): void {
    const untilMs = monotonicMs() + TURN_MS;
    let dealtWith = 0;
    for (const { message, reply } of this.#inbox) {
      dealtWith += 1;
      this.#heard(message, reply);
      if (monotonicMs() >= untilMs) break;
    }
    this.#inbox.splice(0, dealtWith);
    this.#isDealing = this.#inbox.length > 0;
    if (this.#isDealing) setImmediate(() => this.#deal());
  }

  #heard(message: Buffer, reply: string): void {
    const process = reply.slice(this.#subjectOf('').length);
    if (message.length <= HEAD_BYTES || this.#subjectOf(process) !== reply) return;
    const own = message.subarray(0, HEAD_BYTES);
    const bytes = message.subarray(HEAD_BYTES);
    const known = this.#pipes.get(own.toString('latin1'));
    if (known !== undefined) {
      known.pipe.hear(bytes);
      return;
    }
    const isForOpener = own[0] === FOR_OPENER[0];
    const others = Buffer.concat([isForOpener ? FOR_OTHER : FOR_OPENER, own.subarray(1)]);
    if (isOpening(bytes) && !isForOpener) this.#opened(Buffer.from(own), others, bytes, process);
    else if (!isReset(bytes)) this.#publish(reply, Buffer.concat([others, RESET_TEXT]));
  }

  #opened(own: Buffer, others: Buffer, bytes: Buffer, process: string): void {
    const pipe = this.#pipe(own, others, process);
    pipe.read({
      onMessage: (_kind, opening, taken) => {
        taken();
        if (!this.#accept(pipe, opening, process)) pipe.reset();
      },
      onClosed: () => {},
    });
    pipe.hear(bytes);
  }

  #heardAlive(process: string): void {
    if (this.#silentMs.has(process)) this.#silentMs.set(process, 0);
    if (process !== this.process) this.#heardMs.set(process, monotonicMs());
  }

  /** All processes of the site. */
  #tell(what: 'alive' | 'who' | 'here'): void {
    if (!this.#nats.isClosed()) this.#nats.publish(`${this.#prefix}.${what}`, this.process);
  }

  /** While NATS was away, or this process stood still, nobody was silent. */
  #look(): void {
    const nowMs = monotonicMs();
    const passedMs = this.#isConnected ? Math.min(nowMs - this.#lookedMs, 2 * LOOK_MS) : 0;
    this.#lookedMs = nowMs;
    this.#tell('alive');
    for (const [process, heardMs] of this.#heardMs) if (nowMs - heardMs > SILENCE_MS) this.#heardMs.delete(process);
    const living = new Set<string>();
    for (const { pipe, process } of [...this.#pipes.values()]) {
      if (process !== this.process && (this.#silentMs.get(process) ?? 0) > SILENCE_MS) pipe.lose();
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
      }
  }

  async #followConnection(log: (text: string) => void): Promise<void> {
    for await (const { type } of this.#nats.status()) {
      if (type === 'disconnect') {
        this.#connected(false);
        log('NATS is away: what needs no word of it goes on');
      }
      if (type === 'reconnect') {
        this.#connected(true);
        log('NATS is back');
        for (const { pipe } of this.#pipes.values()) pipe.resend(true);
      }
    }
  }

  #connected(isConnected: boolean): void {
    this.#isConnected = isConnected;
    for (const listener of this.#connectionListeners) listener(isConnected);
  }
}

const viewOf = ({ buffer, byteOffset, length }: Uint8Array): Buffer => Buffer.from(buffer, byteOffset, length);
