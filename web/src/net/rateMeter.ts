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

/** A stretch of sending is measured when it has so many bytes; what had queued before it counts. */
const MEASURED_BYTES = 16_384;
/** One without an answer for so long has none. */
const STRETCH_LIMIT_MS = 60_000;

/** The rate of a link by its stretches of sending, one measured at a time. */
export class StretchMeter {
  readonly #meter = new RateMeter();
  #stretch: { readonly sinceMs: number; bytes: number; marked: boolean } | null = null;

  get bytesPerSecond(): number | null {
    return this.#meter.bytesPerSecond;
  }

  /** After each message that was taken. `marked` resolves when all before has arrived, with null where no word of it comes. */
  sent(
    bytes: number,
    bufferedBytes: number,
    roundTripMs: () => number | null,
    marked: () => Promise<number | null>,
  ): void {
    const nowMs = performance.now();
    if (this.#stretch && nowMs - this.#stretch.sinceMs > STRETCH_LIMIT_MS) this.#stretch = null;
    if (this.#stretch) this.#stretch.bytes += this.#stretch.marked ? 0 : bytes;
    else this.#stretch = { sinceMs: nowMs, bytes: Math.max(bytes, bufferedBytes), marked: false };
    const stretch = this.#stretch;
    if (stretch.marked || stretch.bytes < MEASURED_BYTES) return;
    stretch.marked = true;
    void marked().then((milliseconds) => {
      if (milliseconds === null || this.#stretch !== stretch) return;
      this.#stretch = null;
      this.#meter.sample(stretch.bytes, performance.now() - stretch.sinceMs, roundTripMs());
    });
  }
}
