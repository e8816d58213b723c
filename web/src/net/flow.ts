/**
 * Back-pressure for one data channel. Two watermarks: the gate closes when the channel holds `HIGH_BYTES` and opens when
 * the channel says that it holds at most `LOW_BYTES`; messages that come while it is closed wait in line. Nothing polls.
 * The channel never holds more than `HIGH_BYTES` plus one message. What is not of the stream waits from `BACKGROUND_BYTES`
 * on already: what the channel has taken nobody overtakes any more.
 */
import { priorityOf } from '../../../swarm/messages/frame.ts';
import { SendQueue } from './sendQueue.ts';

/** What the gate needs of an RTCDataChannel. */
export interface FlowChannel {
  readonly bufferedAmount: number;
  bufferedAmountLowThreshold: number;
  send(message: ArrayBuffer): void;
  addEventListener(type: 'bufferedamountlow', listener: () => void): void;
  removeEventListener(type: 'bufferedamountlow', listener: () => void): void;
}

/** Enough to keep the SCTP window full between two events; far below Chromium's 16 MiB, where sending throws. */
const HIGH_BYTES = 1_048_576;
/** A tenth of a second of a home's line. */
const BACKGROUND_BYTES = 262_144;
const LOW_BYTES = 131_072;

/** Owns the channel's `bufferedamountlow` listener; `close()` gives it back and rejects who waits. */
export class Flow {
  readonly #channel: FlowChannel;
  readonly #queue = new SendQueue();
  #closed: string | null = null;
  /** Who waits until the channel holds nothing. */
  readonly #emptied: { readonly resolve: () => void; readonly reject: (error: Error) => void }[] = [];

  constructor(channel: FlowChannel) {
    this.#channel = channel;
    channel.bufferedAmountLowThreshold = LOW_BYTES;
    channel.addEventListener('bufferedamountlow', this.#onLow);
  }

  /** Of who waits in line. */
  get waitingBytes(): number {
    return this.#queue.bytes;
  }

  /** Resolves when the channel has taken the message. Rejects when the flow is or gets closed. */
  async send(message: ArrayBuffer): Promise<void> {
    if (this.#closed !== null) throw new Error(this.#closed);
    const { next } = this.#queue;
    const goesFirst = next === undefined || (isStream(message) && !isStream(next));
    if (!goesFirst || !this.#hasRoom(message)) return this.#queue.wait(message);
    this.#queue.passed(message);
    this.#channel.send(message);
  }

  /** Resolves when all that the channel took has left it. Rejects when the flow is or gets closed. */
  async left(): Promise<void> {
    if (this.#closed !== null) throw new Error(this.#closed);
    if (this.#channel.bufferedAmount === 0) return;
    this.#channel.bufferedAmountLowThreshold = 0;
    await new Promise<void>((resolve, reject) => this.#emptied.push({ resolve, reject }));
  }

  close(reason: string): void {
    if (this.#closed !== null) return;
    this.#closed = reason;
    this.#channel.removeEventListener('bufferedamountlow', this.#onLow);
    this.#queue.reject(new Error(reason));
    for (const { reject } of this.#emptied.splice(0)) reject(new Error(reason));
  }

  #hasRoom(message: ArrayBuffer): boolean {
    return this.#channel.bufferedAmount < (isStream(message) ? HIGH_BYTES : BACKGROUND_BYTES);
  }

  readonly #onLow = (): void => {
    if (this.#channel.bufferedAmount === 0) {
      this.#channel.bufferedAmountLowThreshold = LOW_BYTES;
      for (const { resolve } of this.#emptied.splice(0)) resolve();
    }
    for (;;) {
      const { next } = this.#queue;
      if (!next || !this.#hasRoom(next)) return;
      this.#queue.send(async (message) => this.#channel.send(message)); // one that throws is that message's alone
    }
  };
}

const isStream = (message: ArrayBuffer): boolean => priorityOf(message) === 'stream';
