/** A link as one way of a benchmark: tensors out, cut into frames as the executor cuts them, and answers in. */
import { invariant, peerId } from '../../../swarm/base.ts';
import { decodeFrame, encodeTensor } from '../../../swarm/messages/frame.ts';
import type { Link, OpenLink } from '../../../web/src/net/link.ts';

const TURN_MS = 1_000;

/** One way to send so many bytes and to hear that they have arrived. */
export interface Way {
  send(bytes: number): Promise<void>;
  /** Resolves when the answer to one more `bytes` sent is there. */
  roundTrip(bytes: number): Promise<number>;
  /** Resolves when everything sent so far has arrived. */
  settled(): Promise<void>;
  readonly sentBytes: number;
}

/** Who waits for an answer, by its number. */
export class Answers {
  readonly #waiting = new Map<number, () => void>();
  #next = 0;

  ask(): { readonly id: number; readonly answered: Promise<void> } {
    this.#next += 1;
    const id = this.#next;
    return { id, answered: new Promise((resolve) => this.#waiting.set(id, resolve)) };
  }

  arrived(id: number): void {
    this.#waiting.get(id)?.();
    this.#waiting.delete(id);
  }
}

/**
 * Both ends: tensors out, and an answer to each tensor that asks for one (step: the question, 0: none; epoch 1: the
 * answer; its range ends with all bytes that have to be there by then).
 */
export class LinkWay implements Way {
  readonly opened: Promise<void>;
  readonly link: Link;
  readonly #answers = new Answers();
  readonly #values = new Float32Array(4_194_304 / 4);
  readonly #missing = new Map<number, number>();
  /** Questions that are here, and how many bytes have to be before each is answered. */
  readonly #asked = new Map<number, number>();
  #receivedBytes = 0;
  sentBytes = 0;

  constructor(openLink: OpenLink, initiator: boolean, carry: (data: string) => void) {
    let open: () => void = () => {};
    this.opened = new Promise((resolve) => {
      open = resolve;
    });
    this.link = openLink({
      peer: peerId('other'),
      initiator,
      iceServers: [],
      events: {
        signal: carry,
        opened: () => open(),
        message: (message) => this.#receive(message),
        stranded: () => {},
        closed: () => {},
      },
    });
  }

  async #sendTensor(bytes: number, epoch: number, step: number, behindBytes = 0): Promise<void> {
    const range = [behindBytes / 4, (behindBytes + bytes) / 4] as const;
    const key = { kind: 'activation', epoch, step, stage: 0, index: 0, range } as const;
    this.sentBytes += bytes;
    for (const message of encodeTensor(key, this.#values.subarray(0, bytes / 4))) await this.link.send(message);
  }

  send = (bytes: number): Promise<void> => this.#sendTensor(bytes, 0, 0);

  async roundTrip(bytes: number): Promise<number> {
    const start = performance.now();
    const { id, answered } = this.#answers.ask();
    await this.#sendTensor(bytes, 0, id);
    await answered;
    return performance.now() - start;
  }

  /** Of several connections each has its own order: the other end answers when it has counted all bytes. */
  async settled(): Promise<void> {
    const { id, answered } = this.#answers.ask();
    await this.#sendTensor(4, 0, id, this.sentBytes);
    await answered;
  }

  #receive(message: ArrayBuffer): void {
    const frame = decodeFrame(message);
    invariant(frame.ok, 'a frame arrived that is none');
    const { epoch, step, range, payload } = frame.value;
    this.#receivedBytes += payload.length;
    if (epoch === 1) this.#answers.arrived(step);
    else if (step > 0) {
      const missing = (this.#missing.get(step) ?? (range[1] - range[0]) * 4) - payload.length;
      this.#missing.set(step, missing);
      if (missing > 0) return;
      this.#missing.delete(step);
      this.#asked.set(step, range[1] * 4);
    }
    for (const [asked, behindBytes] of this.#asked) {
      if (this.#receivedBytes < behindBytes) continue;
      this.#asked.delete(asked);
      void this.#sendTensor(4, 1, asked);
    }
  }
}

/** Bytes a second of a turn, until all of it has arrived. */
export async function rateOf(way: Way, bytes: number): Promise<number> {
  await way.settled();
  const start = performance.now();
  const before = way.sentBytes;
  while (performance.now() - start < TURN_MS) await way.send(bytes);
  const sent = way.sentBytes - before;
  await way.settled();
  return sent / ((performance.now() - start) / 1_000);
}
