/**
 * This tab's end of the way through the server. The server's credits are the gate. To each donor at most
 * `RELAY_WINDOW_BYTES` of frames are on their way; who comes beyond that waits in line (sendQueue.ts).
 */
import type { PeerId } from '../../../swarm/base.ts';
import {
  creditBytes,
  decodeEnvelope,
  type Envelope,
  encodeEnvelope,
  RELAY_WINDOW_BYTES,
  timeContent,
  timeOf,
} from '../../../swarm/messages/relay.ts';
import { AT_ONCE, LineMeter, RoundTrips } from './rateMeter.ts';
import { SendQueue } from './sendQueue.ts';

interface RelayOptions {
  /** What goes out to all others. */
  readonly line?: LineMeter;
  /** To the server's socket; false where there is none. */
  sendBytes(message: Uint8Array<ArrayBuffer>): boolean;
  readonly now: () => number;
  onFrame(from: PeerId, message: ArrayBuffer): void;
  /** Whether anything of this donor is taken. */
  mayCome(peer: PeerId): boolean;
}

/** The way to one donor. */
interface Way {
  readonly queue: SendQueue;
  readonly meter: LineMeter;
  readonly roundTrips: RoundTrips;
  /** The oldest first. */
  readonly onTheWay: { readonly sentMs: number; bytes: number }[];
  onTheWayBytes: number;
}

/** `close()` rejects who waits. */
export class Relay {
  readonly #options: RelayOptions;
  readonly #ways = new Map<PeerId, Way>();
  #closed = false;
  malformedMessages = 0;

  constructor(options: RelayOptions) {
    this.#options = options;
  }

  /** Resolves when the server's socket has taken the frame. */
  send(to: PeerId, frame: ArrayBuffer): Promise<void> {
    if (this.#closed) return Promise.reject(new Error('the connection to the server is closed'));
    const way = this.#way(to);
    if (way.queue.length > 0 || way.onTheWayBytes + frame.byteLength > RELAY_WINDOW_BYTES) return way.queue.wait(frame);
    way.queue.passed(frame);
    return this.#pass(to, way, frame);
  }

  ping(to: PeerId): void {
    this.#options.sendBytes(encodeEnvelope('ping', to, timeContent(this.#options.now())));
  }

  measured(to: PeerId): { readonly roundTripMs: number | null; readonly bytesPerSecond: number | null } {
    const way = this.#ways.get(to);
    return {
      roundTripMs: way?.roundTrips.measured?.typicalMs ?? null,
      bytesPerSecond: way?.meter.bytesPerSecond ?? null,
    };
  }

  /** A binary message of the server. */
  onBytes(message: ArrayBuffer): void {
    const decoded = decodeEnvelope(new Uint8Array(message));
    if (!decoded.ok) {
      this.malformedMessages += 1;
      return;
    }
    const envelope = decoded.value;
    const { kind, peer, content } = envelope;
    if (!this.#options.mayCome(peer)) return;
    if (kind === 'frame') this.#options.onFrame(peer, content.slice().buffer);
    else if (kind === 'ping') this.#options.sendBytes(encodeEnvelope('pong', peer, content));
    else if (kind === 'pong') this.#way(peer).roundTrips.sample(this.#options.now() - timeOf(envelope));
    else this.#credit(peer, envelope);
  }

  /** Nothing is on its way any more, and nobody waits for it to be. */
  restart(): void {
    for (const { queue } of this.#ways.values()) queue.reject(new Error('the connection to the server is closed'));
    this.#ways.clear();
  }

  close(): void {
    this.#closed = true;
    this.restart();
  }

  #way(peer: PeerId): Way {
    const known = this.#ways.get(peer);
    if (known) return known;
    const meters = { meter: new LineMeter(), roundTrips: new RoundTrips() };
    const way: Way = { queue: new SendQueue(), ...meters, onTheWay: [], onTheWayBytes: 0 };
    this.#ways.set(peer, way);
    return way;
  }

  // Async so that a socket that is gone becomes a rejection of this one frame.
  async #pass(to: PeerId, way: Way, frame: ArrayBuffer): Promise<void> {
    if (!this.#options.sendBytes(encodeEnvelope('frame', to, new Uint8Array(frame)))) {
      throw new Error('there is no connection to the server');
    }
    way.onTheWay.push({ sentMs: this.#options.now(), bytes: frame.byteLength });
    way.onTheWayBytes += frame.byteLength;
  }

  #credit(peer: PeerId, envelope: Envelope): void {
    const way = this.#way(peer);
    const roundTrip = way.roundTrips.measured ?? AT_ONCE;
    let bytes = Math.min(creditBytes(envelope), way.onTheWayBytes);
    way.onTheWayBytes -= bytes;
    for (let oldest = way.onTheWay[0]; oldest && bytes > 0; oldest = way.onTheWay[0]) {
      const credited = Math.min(bytes, oldest.bytes);
      for (const meter of [way.meter, this.#options.line])
        meter?.arrived(credited, oldest.sentMs, this.#options.now(), roundTrip);
      bytes -= credited;
      oldest.bytes -= credited;
      if (oldest.bytes === 0) way.onTheWay.shift();
    }
    for (;;) {
      const { next } = way.queue;
      if (!next || (way.onTheWayBytes > 0 && way.onTheWayBytes + next.byteLength > RELAY_WINDOW_BYTES)) return;
      way.queue.send((frame) => this.#pass(peer, way, frame));
    }
  }
}
