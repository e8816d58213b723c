/**
 * One conversation between two processes of a site: messages of either end arrive at the other in order, once, and whole,
 * though what carries them may lose some, or be away for a while. An end holds back what is past its window, and a message
 * has left the window when the other end's reader says that it took it; so nobody's memory grows with who reads slowly, and
 * what may have to be sent again is never more than a window.
 */

import { Buffer } from 'node:buffer';
import { totalOf } from '../../swarm/base.ts';
import type { Line } from './line.ts';

/** NATS carries a mebibyte at once, where nobody says otherwise. */
const PART_BYTES = 131_072;
/** Of what the other end has not taken: a relay's windows for two senders. */
export const PIPE_WINDOW_BYTES = 524_288;
/** Nothing new was received for so long of what is on its way: it is sent again, each time after twice as long. */
export const RESEND_MS = 1_000;
const LONGEST_RESEND_MS = 8_000;

/** What goes between two ends, the first byte of each. */
const DATA = 0;
const ACK = 1;
/** There is no such pipe here. */
const RESET = 2;
const DATA_HEAD_BYTES = 6;
const ACK_BYTES = 9;
/** More of this message follows. */
const MORE = 0x80;
/** The last word of an end. */
const END = 0x7f;

/** Of no part: it is answered with how far the other end is, whose last word of that may be lost. */
const QUESTION = Buffer.from([DATA, 0xff, 0xff, 0xff, 0xff, 0]);
export const RESET_TEXT = Buffer.from([RESET]);
/** Which part of a pipe these bytes are; null: none. */
export const partIn = (bytes: Buffer): number | null =>
  bytes.length >= DATA_HEAD_BYTES && bytes[0] === DATA ? bytes.readUInt32LE(1) : null;
/** Whether these bytes begin a pipe, which one end has not heard of yet. */
export const isOpening = (bytes: Buffer): boolean => partIn(bytes) === 0;
export const isReset = (bytes: Buffer): boolean => bytes[0] === RESET;

interface PipeReader {
  /** Call `taken` when the message is dealt with: until then it counts in the window of who sent it. */
  onMessage(kind: number, message: Buffer, taken: () => void): void;
  /** The other end said its last word, or it is gone: nothing comes any more. */
  onClosed(how: 'ended' | 'lost'): void;
}

/** `content` is no copy: whoever gave it leaves it as it is. */
interface Part {
  readonly kind: number;
  readonly content: Uint8Array;
  readonly taken: (() => void) | null;
}

const sizeOf = ({ content }: Part): number => DATA_HEAD_BYTES + content.length;

export class Pipe {
  readonly #say: (...pieces: readonly Uint8Array[]) => void;
  readonly #line: Line;
  /** Called once when nothing more is to be said or heard. */
  readonly #over: () => void;
  readonly #now: () => number;
  readonly #faulted: (what: string) => void;
  #reader: PipeReader | null = null;
  /** From the first one on that the other end has not taken. */
  #parts: Part[] = [];
  /** How many parts the other end took, received, were sent, and were heard of it. */
  #taken = 0;
  #received = 0;
  #sent = 0;
  #expected = 0;
  #tookHere = 0;
  /** Of parts that wait, then of those that were said, which the other end has not taken; then of what it has not received. */
  #waitingBytes = 0;
  #onTheWayBytes = 0;
  #unreceivedBytes = 0;
  #movedMs: number;
  #resendMs = RESEND_MS;
  #isAckDue = false;
  #begun: Buffer[] = [];
  #state: 'open' | 'ending' | 'over' = 'open';
  #isAbandoned = false;

  /** `say`: of one message, in pieces; `line`: of all pipes to that process; `faulted`: told what the other end should not have said. */
  constructor(
    say: (...pieces: readonly Uint8Array[]) => void,
    over: () => void,
    now: () => number,
    line: Line,
    faulted: (what: string) => void = () => {},
  ) {
    this.#say = say;
    this.#line = line;
    this.#over = over;
    this.#now = now;
    this.#faulted = faulted;
    this.#movedMs = now();
  }

  read(reader: PipeReader): void {
    this.#reader = reader;
  }

  /** Whether the next message would wait here. */
  get isFull(): boolean {
    return this.#waitingBytes + this.#onTheWayBytes >= PIPE_WINDOW_BYTES;
  }

  /** The other end has had its first message, or is not to have it any more. */
  get isHeard(): boolean {
    return this.#received > 0 || this.#state === 'over';
  }

  /** `kind`: below 0x7f. `taken`: the other end's reader has it, or there is none any more. */
  send(kind: number, message: Uint8Array, taken: () => void = () => {}): void {
    if (this.#state === 'open') {
      this.#queue(kind, message, taken);
      this.pump();
    } else taken();
  }

  /** After all that was sent; nothing is heard any more. */
  end(): void {
    if (this.#state !== 'open') return;
    this.#state = 'ending';
    this.#queue(END, new Uint8Array(0), null);
    this.pump();
  }

  /** As `end`, where nothing need come there of a pipe of which the other end has had nothing yet. */
  abandon(): void {
    this.end();
    this.#isAbandoned = true;
  }

  /** At once: the other end finds it lost. */
  reset(): void {
    if (this.#state === 'over') return;
    this.#say(RESET_TEXT);
    this.#finish();
  }

  /** At once, and both ends find it lost. */
  breakOff(): void {
    if (this.#state !== 'over') this.#say(RESET_TEXT);
    this.lose();
  }

  /** What the other end said cannot be, by a bug of its process: that costs this pipe, and nothing else. */
  fault(what: string): void {
    if (this.#state !== 'open') return;
    this.#faulted(what);
    this.breakOff();
  }

  /** The other end is gone. */
  lose(): void {
    const wasOpen = this.#state === 'open';
    this.#finish();
    if (wasOpen) this.#reader?.onClosed('lost');
  }

  /** Where something is on its way for too long, or all of it may be lost: again from the first that is missing. */
  resend(isLost = false): void {
    if (this.#state === 'over') return;
    if (isLost && this.#expected > 0) this.#ack();
    if (this.#sent === this.#taken) return;
    if (!isLost && this.#now() - this.#movedMs < this.#resendMs) return;
    if (this.#isAbandoned && this.#received === 0) {
      this.reset();
      return;
    }
    this.#movedMs = this.#now();
    this.#resendMs = Math.min(2 * this.#resendMs, LONGEST_RESEND_MS);
    if (this.#received === this.#sent) this.#say(QUESTION);
    for (let part = this.#received; part < this.#sent; part++) this.#sayPart(part);
  }

  /** What the other end said of this pipe. */
  hear(bytes: Buffer): void {
    if (this.#state === 'over') return;
    if (bytes[0] === RESET) this.lose();
    else if (bytes[0] === ACK && bytes.length === ACK_BYTES)
      this.#heardAck(bytes.readUInt32LE(1), bytes.readUInt32LE(5));
    else if (bytes[0] === DATA && bytes.length >= DATA_HEAD_BYTES) this.#heardData(bytes);
  }

  #queue(kind: number, message: Uint8Array, taken: (() => void) | null): void {
    for (let from = 0; from === 0 || from < message.length; from += PART_BYTES) {
      const content = message.subarray(from, from + PART_BYTES);
      const isLast = from + PART_BYTES >= message.length;
      const part = { kind: isLast ? kind : kind | MORE, content, taken: isLast ? taken : null };
      this.#parts.push(part);
      this.#waitingBytes += sizeOf(part);
    }
  }

  /** Says of what waits as much as may be on its way. */
  pump(): void {
    while (this.#onTheWayBytes < PIPE_WINDOW_BYTES) {
      const next = this.#parts[this.#sent - this.#taken];
      if (next === undefined) return;
      if (this.#line.isFull) {
        this.#line.awaits(this);
        return;
      }
      if (this.#sent === this.#received) this.#moved();
      const bytes = sizeOf(next);
      this.#waitingBytes -= bytes;
      this.#onTheWayBytes += bytes;
      this.#unreceivedBytes += bytes;
      this.#line.take(bytes);
      this.#sent += 1;
      this.#sayPart(this.#sent - 1);
    }
  }

  #sayPart(number: number): void {
    const part = this.#parts[number - this.#taken];
    if (part === undefined) return;
    const head = Buffer.allocUnsafe(DATA_HEAD_BYTES);
    head[0] = DATA;
    head.writeUInt32LE(number, 1);
    head[5] = part.kind;
    this.#say(head, part.content);
  }

  #heardAck(received: number, taken: number): void {
    if (received > this.#sent || taken > received) return;
    const came = this.#parts.slice(this.#received - this.#taken, Math.max(this.#received, received) - this.#taken);
    if (came.length > 0) {
      this.#received = received;
      this.#moved();
      this.#cameThere(totalOf(came, (part) => sizeOf(part)));
    }
    const done = this.#parts.splice(0, Math.max(0, taken - this.#taken));
    this.#taken = Math.max(taken, this.#taken);
    if (done.length > 0) this.#moved();
    for (const part of done) this.#onTheWayBytes -= sizeOf(part);
    for (const part of done) part.taken?.();
    if (this.#state === 'ending' && this.#parts.length === 0) this.#finish();
    else this.pump();
  }

  #moved(): void {
    this.#movedMs = this.#now();
    this.#resendMs = RESEND_MS;
  }

  /** Others may say something instead. */
  #cameThere(bytes: number): void {
    this.#unreceivedBytes -= bytes;
    this.#line.give(bytes);
  }

  #heardData(bytes: Buffer): void {
    this.#ackSoon();
    if (bytes.readUInt32LE(1) !== this.#expected) return;
    this.#expected += 1;
    const kind = bytes[5] ?? 0;
    const content = bytes.subarray(DATA_HEAD_BYTES);
    if (kind === END) {
      this.#tookHere = this.#expected; // whoever still reads has it all
      this.#ack();
      const wasOpen = this.#state === 'open';
      this.#finish();
      if (wasOpen) this.#reader?.onClosed('ended');
      return;
    }
    if ((kind & MORE) !== 0 || this.#state !== 'open') {
      if (this.#state === 'open') this.#begun.push(content);
      this.#tookHere += 1;
      return;
    }
    const message = this.#begun.length === 0 ? content : Buffer.concat([...this.#begun, content]);
    this.#begun = [];
    let isTaken = false;
    this.#reader?.onMessage(kind, message, () => {
      if (isTaken) return;
      isTaken = true;
      this.#tookHere += 1;
      this.#ackSoon();
    });
  }

  #ackSoon(): void {
    if (this.#isAckDue) return;
    this.#isAckDue = true;
    setImmediate(() => {
      if (this.#state !== 'over') this.#ack();
    });
  }

  #ack(): void {
    this.#isAckDue = false;
    const ack = Buffer.allocUnsafe(ACK_BYTES);
    ack[0] = ACK;
    ack.writeUInt32LE(this.#expected, 1);
    ack.writeUInt32LE(this.#tookHere, 5);
    this.#say(ack);
  }

  #finish(): void {
    if (this.#state === 'over') return;
    this.#state = 'over';
    const left = this.#parts;
    this.#parts = [];
    this.#line.leaves(this);
    this.#over();
    this.#cameThere(this.#unreceivedBytes);
    for (const { taken } of left) taken?.();
  }
}
