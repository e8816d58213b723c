/**
 * How fast a link carries bytes, measured from what it carries anyway. The one idea: a stretch of sending ends when the
 * other end says that it has arrived; its bytes over its time, less the round trip of that word, is one sample, and a
 * sample weighs by its bytes, so that a megabyte tells more than a lone frame.
 */

/** Samples older than some of this hardly count. */
const MEMORY_BYTES = 2 * 1_048_576;
const LEAST_ROUND_TRIPS = 3;

/** A short stretch is mostly round trip, which jitters: at most half of the time is put down to it. */
const rateOf = (bytes: number, milliseconds: number, roundTripMs: number | null): number =>
  (1_000 * bytes) / Math.max(milliseconds - (roundTripMs ?? 0), milliseconds / 2);

/** Of a lone stretch; null where it took so few round trips that it tells of the link's first windows, not of its rate. */
export const loneRate = (bytes: number, milliseconds: number, roundTripMs: number): number | null =>
  milliseconds > 0 && milliseconds >= LEAST_ROUND_TRIPS * roundTripMs ? rateOf(bytes, milliseconds, roundTripMs) : null;

export class RateMeter {
  #bytesPerSecond: number | null = null;

  get bytesPerSecond(): number | null {
    return this.#bytesPerSecond;
  }

  /** `milliseconds`: from the first byte's sending to the word of the last one's arrival. */
  sample(bytes: number, milliseconds: number, roundTripMs: number | null): void {
    if (!(bytes > 0 && milliseconds > 0)) return;
    const rate = rateOf(bytes, milliseconds, roundTripMs);
    const weight = 1 - Math.exp(-bytes / MEMORY_BYTES);
    this.#bytesPerSecond = this.#bytesPerSecond === null ? rate : this.#bytesPerSecond * (1 - weight) + rate * weight;
  }
}
