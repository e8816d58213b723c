/**
 * How fast a link carries bytes and a word, measured from what it carries anyway. A stretch of sending ends when the other
 * end says that it has arrived; its bytes over its time, less the round trip of that word, is one sample. As in
 * BBR, a busy tab or a full queue only makes a sample worse, so the best of the newest ones is what the link can do.
 */

/** Older ones are forgotten: the link may have become another. */
const MEASUREMENTS = 8;
const LEAST_ROUND_TRIPS = 3;

/** A short stretch is mostly round trip, which jitters: at most half of the time is put down to it. */
const rateOf = (bytes: number, milliseconds: number, roundTripMs: number | null): number =>
  (1_000 * bytes) / Math.max(milliseconds - (roundTripMs ?? 0), milliseconds / 2);

/** Of a lone stretch; null where it took so few round trips that it tells of the link's first windows, not of its rate. */
export const loneRate = (bytes: number, milliseconds: number, roundTripMs: number): number | null =>
  milliseconds > 0 && milliseconds >= LEAST_ROUND_TRIPS * roundTripMs ? rateOf(bytes, milliseconds, roundTripMs) : null;

/** The best of the newest measurements: what is in the way for a moment only makes a link seem worse than it is. */
class Newest {
  readonly #values: number[] = [];

  add(value: number): void {
    this.#values.push(value);
    if (this.#values.length > MEASUREMENTS) this.#values.shift();
  }

  best(of: (...values: number[]) => number): number | null {
    return this.#values.length === 0 ? null : of(...this.#values);
  }
}

export class RoundTrips {
  readonly #newest = new Newest();

  /** The least of the newest. */
  get milliseconds(): number | null {
    return this.#newest.best(Math.min);
  }

  sample(milliseconds: number): void {
    this.#newest.add(Math.max(0, milliseconds));
  }
}

export class RateMeter {
  readonly #newest = new Newest();

  /** The highest of the newest. */
  get bytesPerSecond(): number | null {
    return this.#newest.best(Math.max);
  }

  /** `milliseconds`: from the first byte's sending to the word of the last one's arrival. */
  sample(bytes: number, milliseconds: number, roundTripMs: number | null): void {
    if (bytes > 0 && milliseconds > 0) this.#newest.add(rateOf(bytes, milliseconds, roundTripMs));
  }
}
