/**
 * How fast a link carries bytes and a word, measured from what it carries anyway. A line is a queue: what is handed over
 * while it is busy waits its turn. So a frame that was handed over at one time, and of whose arrival word came at another,
 * has held the line from the word before it on, where that came a round trip or more after the first, else from then on.
 * Bytes over the time that they held the line are its rate, however short and rare the frames are. See SPEC.md, AP4.
 */
import { at, median, type PeerId } from '../../../swarm/base.ts';
import { decodeFrame, keyText } from '../../../swarm/messages/frame.ts';
import { type LinkReport, MOST_BYTES_PER_SECOND } from '../../../swarm/messages/profile.ts';

/** Older ones are forgotten: the link may have become another. */
const ROUND_TRIPS = 16;
const FRAMES = 128;
/** A lone frame's time is mostly round trip, which jitters: so many bytes together say something. */
const LEAST_BYTES = 131_072;
const LEAST_ROUND_TRIPS = 3;
const WINDOWS = 32;
const LEAST_WINDOWS = 8;
/** Nothing on the way has waited for the line that takes no longer than so many times the least round trip. */
const UNDELAYED = 2;
export const AT_ONCE: RoundTrip = { leastMs: 0, typicalMs: 0 };

/** Others decide when their frames and words come: what is reported stays a rate that the server takes. */
const rateOf = (bytes: number, milliseconds: number): number =>
  Math.min(MOST_BYTES_PER_SECOND, (1_000 * bytes) / milliseconds);

/** Of a lone stretch; null where it took so few round trips that it tells of the link's first windows, not of its rate. */
export const loneRate = (bytes: number, milliseconds: number, roundTripMs: number): number | null =>
  milliseconds > 0 && milliseconds >= LEAST_ROUND_TRIPS * roundTripMs
    ? rateOf(bytes, Math.max(milliseconds - roundTripMs, milliseconds / 2))
    : null;

/** A word that meets a full line or a busy tab takes longer: the least is the way's own, the typical what words take. */
export interface RoundTrip {
  readonly leastMs: number;
  readonly typicalMs: number;
}

export class RoundTrips {
  readonly #newest: number[] = [];

  get measured(): RoundTrip | null {
    const sorted = this.#newest.toSorted((a, b) => a - b);
    if (sorted.length === 0) return null;
    return { leastMs: at(sorted, 0), typicalMs: at(sorted, Math.floor((sorted.length - 1) / 2)) };
  }

  sample(milliseconds: number): void {
    this.#newest.push(Math.max(0, milliseconds));
    if (this.#newest.length > ROUND_TRIPS) this.#newest.shift();
  }
}

/** Of one link, or of the line that several share. */
export class LineMeter {
  readonly #frames: { readonly bytes: number; readonly heldMs: number }[] = [];
  #toldMs = -Infinity;

  /** Null until enough has gone over it. */
  get bytesPerSecond(): number | null {
    let [bytes, heldMs] = [0, 0];
    for (const frame of this.#frames) {
      bytes += frame.bytes;
      heldMs += frame.heldMs;
    }
    return bytes >= LEAST_BYTES && heldMs > 0 ? rateOf(bytes, heldMs) : null;
  }

  /** What arrived before then says nothing of what comes next. */
  pause(nowMs: number): void {
    this.#toldMs = nowMs;
  }

  /** In the order in which they arrived. */
  arrived(bytes: number, sentMs: number, toldMs: number, { leastMs, typicalMs }: RoundTrip): void {
    const hasQueued = sentMs + leastMs <= this.#toldMs;
    const fromMs = hasQueued ? this.#toldMs : sentMs + typicalMs;
    this.#frames.push({ bytes, heldMs: Math.max(0, toldMs - fromMs) });
    this.#toldMs = toldMs;
    if (this.#frames.length > FRAMES) this.#frames.shift();
  }
}

/** What a connection that has more to send has on its way: its window, or what stands in the line's queue beside. */
export class WindowMeter {
  readonly #newest: number[] = [];

  sample(bytes: number): void {
    this.#newest.push(bytes);
    if (this.#newest.length > WINDOWS) this.#newest.shift();
  }

  /**
   * Null: it is not known, or does not limit what these connections carry together: then frames wait for the line, and take
   * longer than the way does.
   */
  limiting(connections: number, bytesPerSecond: number | null, leastMs: number): number | null {
    if (bytesPerSecond === null || this.#newest.length < LEAST_WINDOWS) return null;
    const window = median(this.#newest) ?? 0;
    const onTheWayMs = (1_000 * connections * window) / bytesPerSecond;
    return window >= 1 && onTheWayMs <= UNDELAYED * leastMs ? Math.round(window) : null;
  }
}

/**
 * How fast another's frames come in. A tensor of several is handed over in one go, so that its line is busy from one of
 * them to the next.
 */
export class ArrivalMeter {
  readonly #line = new LineMeter();
  /** The one that continues the tensor of the newest. */
  #next: string | null = null;

  get bytesPerSecond(): number | null {
    return this.#line.bytesPerSecond;
  }

  arrived(message: ArrayBuffer, nowMs: number): void {
    const frame = decodeFrame(message);
    if (!frame.ok) return;
    const { offset, payload, ...key } = frame.value;
    if (this.#next === `${keyText(key)} ${offset}`) this.#line.arrived(message.byteLength, -Infinity, nowMs, AT_ONCE);
    else this.#line.pause(nowMs);
    this.#next = `${keyText(key)} ${offset + payload.length}`;
  }
}

/** Of all who send here. */
export class Arrivals {
  readonly #meters = new Map<PeerId, ArrivalMeter>();

  measured(peer: PeerId): Pick<LinkReport, 'receivedBytesPerSecond'> {
    const bytesPerSecond = this.#meters.get(peer)?.bytesPerSecond ?? null;
    return bytesPerSecond === null ? {} : { receivedBytesPerSecond: bytesPerSecond };
  }

  arrived(peer: PeerId, message: ArrayBuffer, nowMs: number): void {
    const meter = this.#meters.get(peer) ?? new ArrivalMeter();
    this.#meters.set(peer, meter);
    meter.arrived(message, nowMs);
  }

  forget(peer: PeerId): void {
    this.#meters.delete(peer);
  }
}
