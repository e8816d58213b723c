/**
 * Back-pressure for one data channel. Two watermarks: the gate closes when the channel holds `HIGH_BYTES` and opens when
 * the channel says that it holds at most `LOW_BYTES`; messages that come while it is closed wait in line. Nothing polls.
 * The channel never holds more than `HIGH_BYTES` plus one message, the line at most `WAITING_LIMIT` messages.
 */

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
const LOW_BYTES = 262_144;
/** 64 MiB of whole messages: who queues more did not await. */
const WAITING_LIMIT = 1_024;

interface Waiter {
  readonly message: ArrayBuffer;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/** Owns the channel's `bufferedamountlow` listener; `close()` gives it back and rejects who waits. */
export class Flow {
  readonly #channel: FlowChannel;
  readonly #waiters: Waiter[] = [];
  #gated = false;
  #waitingBytes = 0;
  #closed: string | null = null;

  constructor(channel: FlowChannel) {
    this.#channel = channel;
    channel.bufferedAmountLowThreshold = LOW_BYTES;
    channel.addEventListener('bufferedamountlow', this.#onLow);
  }

  /** Of who waits in line. */
  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  /** Resolves when the channel has taken the message; first come, first sent. Rejects when the flow is or gets closed. */
  send(message: ArrayBuffer): Promise<void> {
    if (this.#closed !== null) return Promise.reject(new Error(this.#closed));
    if (!this.#gated) return this.#pass(message);
    if (this.#waiters.length >= WAITING_LIMIT) {
      return Promise.reject(new Error(`${WAITING_LIMIT} messages wait already: the sender did not await`));
    }
    this.#waitingBytes += message.byteLength;
    return new Promise((resolve, reject) => this.#waiters.push({ message, resolve, reject }));
  }

  close(reason: string): void {
    if (this.#closed !== null) return;
    this.#closed = reason;
    this.#channel.removeEventListener('bufferedamountlow', this.#onLow);
    for (const { reject } of this.#waiters.splice(0)) reject(new Error(reason));
  }

  // Async so that a channel that throws becomes a rejection of this one message.
  async #pass(message: ArrayBuffer): Promise<void> {
    this.#channel.send(message);
    this.#gated = this.#channel.bufferedAmount >= HIGH_BYTES;
  }

  readonly #onLow = (): void => {
    this.#gated = false;
    while (!this.#gated) {
      const waiter = this.#waiters.shift();
      if (!waiter) return;
      this.#waitingBytes -= waiter.message.byteLength;
      this.#pass(waiter.message).then(waiter.resolve, waiter.reject);
    }
  };
}
