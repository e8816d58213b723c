/**
 * Frames from donor to donor through their sockets. A receiver's socket is handed a little at a time, the
 * rest waits in its queue, and only what its socket has taken is credited to the sender; so the queue of a donor that
 * does not read is never longer than the windows of those who send to it. Rules WP in SPEC.md.
 */
import type { PeerId } from '../../swarm/base.ts';
import type { RefusalReason } from '../../swarm/messages/refusals.ts';
import { creditContent, decodeEnvelope, encodeEnvelope, RELAY_WINDOW_BYTES } from '../../swarm/messages/relay.ts';

/** What a receiver's socket holds of relayed frames at once. */
const HANDED_BYTES = 524_288;

/** A donor's socket, as the relay sees it. */
export interface RelayPort {
  /** `taken` is called when the system has the bytes, or the socket is gone. */
  sendBytes(bytes: Uint8Array, taken?: () => void): void;
}

interface Waiting {
  readonly from: PeerId;
  /** Of the frame alone: what the sender's window counts. */
  readonly frameBytes: number;
  readonly envelope: Uint8Array;
}

interface Receiver {
  readonly port: RelayPort;
  readonly queue: Waiting[];
  handedBytes: number;
}

export class Relay {
  /** Since the server began. Dropped: to someone who is gone or not in the plan. */
  readonly counts = { frames: 0, bytes: 0, droppedFrames: 0 };
  readonly #receivers = new Map<PeerId, Receiver>();
  /** Bytes of a sender that are on their way, by receiver. */
  readonly #onTheWay = new Map<PeerId, Map<PeerId, number>>();
  #members: ReadonlySet<PeerId> = new Set();

  /** Only between these: the donors of the plan, and those who hand over to them. */
  allow(members: ReadonlySet<PeerId>): void {
    this.#members = members;
  }

  connected(peer: PeerId, port: RelayPort): void {
    this.#receivers.set(peer, { port, queue: [], handedBytes: 0 });
    this.#onTheWay.set(peer, new Map());
  }

  gone(peer: PeerId): void {
    const receiver = this.#receivers.get(peer);
    this.#receivers.delete(peer);
    this.#onTheWay.delete(peer);
    for (const { from, frameBytes } of receiver?.queue ?? []) this.#drop(from, peer, frameBytes);
  }

  /** A binary message of a donor; a reason where it breaks a rule. */
  accept(from: PeerId, message: Uint8Array<ArrayBuffer>): RefusalReason | null {
    const decoded = decodeEnvelope(message);
    if (!decoded.ok || decoded.value.kind === 'credit') return 'malformed';
    const { kind, peer: to, content } = decoded.value;
    const receiver = this.#members.has(from) && this.#members.has(to) ? this.#receivers.get(to) : undefined;
    if (kind !== 'frame') {
      receiver?.port.sendBytes(encodeEnvelope(kind, from, content));
      return null;
    }
    const onTheWay = this.#onTheWay.get(from);
    const bytes = (onTheWay?.get(to) ?? 0) + content.length;
    if (bytes > RELAY_WINDOW_BYTES) return 'tooManyMessages';
    onTheWay?.set(to, bytes);
    if (!receiver) this.#drop(from, to, content.length);
    else {
      const envelope = encodeEnvelope('frame', from, content);
      receiver.queue.push({ from, frameBytes: content.length, envelope });
      this.#pump(to, receiver);
    }
    return null;
  }

  #pump(to: PeerId, receiver: Receiver): void {
    while (receiver.handedBytes < HANDED_BYTES) {
      const next = receiver.queue.shift();
      if (!next) return;
      const { from, frameBytes, envelope } = next;
      receiver.handedBytes += frameBytes;
      this.counts.frames += 1;
      this.counts.bytes += frameBytes;
      receiver.port.sendBytes(envelope, () => {
        receiver.handedBytes -= frameBytes;
        this.#credit(from, to, frameBytes);
        this.#pump(to, receiver);
      });
    }
  }

  #drop(from: PeerId, to: PeerId, bytes: number): void {
    this.counts.droppedFrames += 1;
    this.#credit(from, to, bytes);
  }

  #credit(from: PeerId, to: PeerId, bytes: number): void {
    const onTheWay = this.#onTheWay.get(from);
    if (!onTheWay) return;
    const left = (onTheWay.get(to) ?? 0) - bytes;
    // Forgotten with its last byte: a sender may name anyone it likes.
    if (left > 0) onTheWay.set(to, left);
    else onTheWay.delete(to);
    this.#receivers.get(from)?.port.sendBytes(encodeEnvelope('credit', to, creditContent(bytes)));
  }
}
