/**
 * Frames that wait for one way out. What the step waits for goes first: the stream, then gradients and new values, then
 * state that changes hands, then measurements. State has a tenth of what goes out while it waits, so that it never starves.
 */
import { totalOf } from '../../../swarm/base.ts';
import { FRAME_PRIORITIES, type FramePriority, priorityOf } from '../../../swarm/messages/frame.ts';

/** 64 MiB of whole frames: who queues more did not await. */
const WAITING_LIMIT = 1_024;
/** Bytes of others that go for each byte of state. */
const OTHERS_PER_STATE = 9;

interface Waiter {
  readonly message: ArrayBuffer;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

export class SendQueue {
  readonly #waiters: Readonly<Record<FramePriority, Waiter[]>> = { stream: [], sums: [], state: [], probe: [] };
  /** What others have sent since state last did, while it waited. */
  #passedBytes = 0;
  bytes = 0;

  get length(): number {
    return totalOf(FRAME_PRIORITIES, (priority) => this.#waiters[priority].length);
  }

  /** Resolves when the message has been taken and sent. */
  wait(message: ArrayBuffer): Promise<void> {
    if (this.length >= WAITING_LIMIT)
      return Promise.reject(new Error(`${WAITING_LIMIT} messages wait already: the sender did not await`));
    this.bytes += message.byteLength;
    return new Promise((resolve, reject) => this.#waiters[priorityOf(message)].push({ message, resolve, reject }));
  }

  /** What goes next. */
  get next(): ArrayBuffer | undefined {
    const priority = this.#turn();
    return priority && this.#waiters[priority][0]?.message;
  }

  /** Takes the next one, and tells its sender what comes of it. */
  send(pass: (message: ArrayBuffer) => Promise<void>): void {
    const priority = this.#turn();
    const waiter = priority && this.#waiters[priority].shift();
    if (!waiter) return;
    this.bytes -= waiter.message.byteLength;
    this.passed(waiter.message);
    pass(waiter.message).then(waiter.resolve, waiter.reject);
  }

  /** Sent, whether it waited or not. */
  passed(message: ArrayBuffer): void {
    const isState = priorityOf(message) === 'state' || this.#waiters.state.length === 0;
    this.#passedBytes = isState ? 0 : this.#passedBytes + message.byteLength;
  }

  reject(error: Error): void {
    this.bytes = 0;
    for (const priority of FRAME_PRIORITIES) for (const { reject } of this.#waiters[priority].splice(0)) reject(error);
  }

  #turn(): FramePriority | undefined {
    const [state] = this.#waiters.state;
    if (state && this.#passedBytes >= OTHERS_PER_STATE * state.message.byteLength) return 'state';
    return FRAME_PRIORITIES.find((priority) => this.#waiters[priority].length > 0);
  }
}
