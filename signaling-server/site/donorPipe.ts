/**
 * A donor's WebSocket through a pipe. It ends at a gateway (`joinWires`); the process that leads has `PipedWire`, which is to
 * its conversation what a WebSocket of its own would be.
 */
import { Buffer } from 'node:buffer';
import { EventEmitter } from 'node:events';
import type { z } from 'zod';
import type { DonorWire } from '../donors/donorWire.ts';
import type { HeldWire } from '../donors/door.ts';
import {
  type Beside,
  type SendersBeside,
  sendersBesideSchema,
  type WaysBeside,
  type WentBeside,
  waysBesideSchema,
  wentBesideSchema,
} from '../donors/relaysBeside.ts';
import { wordsIn } from './opening.ts';
import type { Pipe } from './pipe.ts';
import type { HeardTexts } from './sharedTexts.ts';

/** Messages of both ends. */
const TEXT = 1;
const BINARY = 2;
const PING = 3;
const PONG = 4;
/** With a code: of the gateway, that it is closed; of the one that leads, that it is to be closed. */
const CLOSE = 5;
/** At once, without a word to the donor. */
const TERMINATE = 6;
/** Of the gateway: more bytes came, of a message that is not here yet. */
const MORE_CAME = 7;
/** With a number: a text that the gateway has, or is about to. */
const SHARED = 8;
/** A plan counts on this donor. */
const MEMBER = 9;
/** What the gateway may relay of this donor, and from whom to it. */
const WAYS = 10;
const SENDERS = 11;
/** Of the gateway: what it relayed. */
const WENT = 12;

/** What the WebSocket library says of a connection that ended without a closing frame. */
const NO_GOODBYE = 1006;
/** A control frame of WebSockets holds no more. */
const PING_BYTES_LIMIT = 125;
/** How often a gateway tells of bytes of a message that has not come whole. */
const MORE_CAME_MS = 1_000;

export class PipedWire extends EventEmitter implements DonorWire {
  bytesRead = 0;
  readonly #pipe: Pipe;
  readonly #share: (text: Uint8Array) => Uint8Array;
  #isClosed = false;
  #isMember = false;
  #went: (went: WentBeside) => void = () => {};

  /** `share`: sees that the gateway has a text; answers with what names it there. */
  constructor(pipe: Pipe, share: (text: Uint8Array) => Uint8Array) {
    super();
    this.#pipe = pipe;
    this.#share = share;
    pipe.read({
      onMessage: (kind, message, taken) => {
        this.bytesRead += 1 + message.length;
        if (kind === TEXT || kind === BINARY) this.emit('message', message, kind === BINARY);
        else if (kind === PING || kind === PONG) this.emit(kind === PING ? 'ping' : 'pong', message);
        else if (kind === WENT) hear(pipe, wentBesideSchema, message, this.#went);
        else if (kind === CLOSE) this.#closed(message.length === 2 ? message.readUInt16LE() : NO_GOODBYE);
        taken();
      },
      onClosed: () => this.#closed(NO_GOODBYE),
    });
  }

  send(data: Uint8Array, { binary }: { readonly binary: boolean }, done: () => void): void {
    this.#pipe.send(binary ? BINARY : TEXT, data, done);
  }

  sendShared(text: Uint8Array, done: () => void): void {
    this.#pipe.send(SHARED, this.#share(text), done);
  }

  becomesMember(): void {
    if (this.#isMember) return;
    this.#isMember = true;
    this.#pipe.send(MEMBER, new Uint8Array(0));
  }

  /** The gateway, as far as it relays what this donor sends. */
  beside(gateway: string, socket: number): Beside {
    return {
      gateway,
      socket,
      tellWays: (ways) => this.#pipe.send(WAYS, encoded(ways)),
      tellSenders: (senders) => this.#pipe.send(SENDERS, encoded(senders)),
      hear: (listener) => {
        this.#went = listener;
      },
    };
  }

  ping(data: string): void {
    this.#pipe.send(PING, Buffer.from(data));
  }

  close(code: number): void {
    this.#pipe.send(CLOSE, encodedCode(code));
  }

  terminate(): void {
    this.#pipe.send(TERMINATE, new Uint8Array(0));
    this.#pipe.end();
    setImmediate(() => this.#closed(NO_GOODBYE));
  }

  #closed(code: number): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#pipe.end();
    this.emit('close', code);
  }
}

const encoded = (words: WaysBeside | SendersBeside | WentBeside): Buffer => Buffer.from(JSON.stringify(words));

/** Words of another process of the same version. */
function hear<T>(pipe: Pipe, schema: z.ZodType<T>, message: Buffer, use: (words: T) => void): void {
  const words = wordsIn(schema, message);
  if (words === null) pipe.fault('words about relaying');
  else use(words);
}

function encodedCode(code: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(code);
  return bytes;
}

/** What the WebSocket library lets a server close with. */
const isCloseCode = (code: number): boolean =>
  (code >= 1_000 && code <= 1_014 && ![1_004, 1_005, NO_GOODBYE].includes(code)) || (code >= 3_000 && code <= 4_999);

/** A donor's WebSocket at its gateway, while it is joined to a pipe. */
export interface Joined {
  /** What the donor said. */
  said(data: Uint8Array, isBinary: boolean): void;
  ponged(data: Uint8Array, isPing: boolean): void;
  /** What of it was relayed here. */
  went(went: WentBeside): void;
  closed(code: number): void;
  /** Nothing goes on through that pipe. */
  leave(): void;
}

interface JoinHost {
  /** Of its WebSocket. */
  bytesRead(): number;
  readonly texts: HeardTexts;
  /** The process that leads has said something to the donor. */
  onAnswer(): void;
  onMember(): void;
  onWays(ways: WaysBeside): void;
  onSenders(senders: SendersBeside): void;
  /** That process is gone, and the donor is not. */
  onLost(): void;
}

/** What comes through the pipe goes to the donor from now on. */
export function joinWires(pipe: Pipe, wire: HeldWire, host: JoinHost): Joined {
  const { bytesRead, texts } = host;
  let seenBytes = bytesRead();
  let isPaused = false;
  const resume = (): void => {
    if (!isPaused || pipe.isFull) return;
    isPaused = false;
    wire.resume();
  };
  const more = setInterval(() => {
    const bytes = bytesRead();
    if (bytes > seenBytes && !pipe.isFull) pipe.send(MORE_CAME, new Uint8Array(0));
    seenBytes = bytes;
  }, MORE_CAME_MS);
  const leave = (): void => {
    clearInterval(more);
    if (isPaused) wire.resume();
    isPaused = false;
  };
  const say = (kind: number, data: Uint8Array): void => {
    pipe.send(kind, data, resume);
    // Who is not read yet is not heard further: its own window fills.
    if (!pipe.isFull || isPaused) return;
    isPaused = true;
    wire.pause();
  };
  const ping = (data: string): void => {
    if (Buffer.byteLength(data) > PING_BYTES_LIMIT) pipe.fault('a ping that is too long');
    else wire.ping(data);
  };
  const close = (code: number): void => {
    if (isCloseCode(code)) wire.close(code);
    else pipe.fault(`close with ${code}`);
  };
  pipe.read({
    onMessage: (kind, message, taken) => {
      if (kind === TEXT) host.onAnswer();
      if (kind === TEXT || kind === BINARY) return wire.send(message, { binary: kind === BINARY }, taken);
      if (kind === SHARED) return texts.whenHere(message, (text) => wire.send(text, { binary: false }, taken));
      taken();
      if (kind === MEMBER) host.onMember();
      else if (kind === WAYS) hear(pipe, waysBesideSchema, message, host.onWays);
      else if (kind === SENDERS) hear(pipe, sendersBesideSchema, message, host.onSenders);
      else if (kind === PING) ping(message.toString('latin1'));
      else if (kind === CLOSE) close(message.length === 2 ? message.readUInt16LE() : 1000);
      else if (kind === TERMINATE) wire.terminate();
    },
    onClosed: (how) => {
      leave();
      if (how === 'lost') host.onLost();
      else wire.terminate();
    },
  });
  return {
    said: (data, isBinary) => {
      seenBytes = bytesRead();
      say(isBinary ? BINARY : TEXT, data);
    },
    ponged: (data, isPing) => say(isPing ? PING : PONG, data),
    went: (went) => pipe.send(WENT, encoded(went)),
    closed: (code) => {
      leave();
      pipe.send(CLOSE, encodedCode(code));
      pipe.abandon();
    },
    leave: () => {
      leave();
      pipe.reset();
    },
  };
}
