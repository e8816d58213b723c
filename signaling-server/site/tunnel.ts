/**
 * A stream of bytes through a pipe, in the clothes of a connection: a gateway writes a request into one end, and the leader
 * hands the other end to its HTTP server as if the client had connected there.
 */
import type { Buffer } from 'node:buffer';
import { Duplex } from 'node:stream';
import type { Vouched } from '../http/application.ts';
import type { Pipe } from './pipe.ts';

const BYTES = 1;
/** This end says nothing more, and listens. */
const FINISHED = 2;

/** Whose connection it is, as the gateway sees it. */
export interface Client {
  readonly remoteAddress: string;
  /** By TLS. */
  readonly encrypted: boolean;
}

export class Tunnel extends Duplex implements Vouched {
  readonly isVouched = true;
  readonly remoteAddress: string;
  readonly encrypted: boolean;
  bytesRead = 0;
  readonly #pipe: Pipe;
  #isOver = false;
  /** Of what was given to the reader while it was full. */
  #waiting: (() => void)[] = [];

  constructor(pipe: Pipe, { remoteAddress, encrypted }: Client) {
    super({ allowHalfOpen: true });
    this.#pipe = pipe;
    this.remoteAddress = remoteAddress;
    this.encrypted = encrypted;
    pipe.read({
      onMessage: (kind, message, taken) => {
        if (kind === BYTES) this.#came(message, taken);
        else {
          taken();
          if (kind === FINISHED) this.push(null);
        }
      },
      onClosed: (how) => {
        this.#isOver = true;
        if (how === 'ended') this.push(null);
        this.destroy(how === 'ended' ? undefined : new Error('the process at the other end is gone'));
      },
    });
  }

  #came(message: Buffer, taken: () => void): void {
    this.bytesRead += message.length;
    if (this.push(message)) taken();
    else this.#waiting.push(taken);
  }

  override _read(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const taken of waiting) taken();
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    if (!this.#pipe.isFull) {
      this.#pipe.send(BYTES, chunk);
      done();
    } else this.#pipe.send(BYTES, chunk, () => done());
  }

  override _final(done: (error?: Error | null) => void): void {
    if (!this.#isOver) this.#pipe.send(FINISHED, new Uint8Array(0));
    done();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    if (!this.#isOver) {
      this.#isOver = true;
      if (error === null) this.#pipe.end();
      else this.#pipe.reset();
    }
    this.#waiting = [];
    done(error);
  }

  // What HTTP asks of a connection beside its bytes: here the gateway's own sees to it.
  setTimeout(): this {
    return this;
  }
  setNoDelay(): this {
    return this;
  }
  setKeepAlive(): this {
    return this;
  }
  ref(): this {
    return this;
  }
  unref(): this {
    return this;
  }
  destroySoon(): void {
    if (this.writable) this.end();
    if (this.writableFinished) this.destroy();
    else this.once('finish', () => this.destroy());
  }
}
