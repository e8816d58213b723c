/** Bytes a second of a stream, over the newest seconds: what is under way is counted, nothing is sampled. */

/** A step's exchange comes in bursts: over so much of the past the mean is taken. */
const WINDOW_SECONDS = 10;

export class RateWindow {
  readonly #now: () => number;
  /** Whole seconds of the clock, each with its bytes, oldest first. */
  #seconds: { readonly second: number; bytes: number }[] = [];
  #mostBytes = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  add(bytes: number): void {
    const second = Math.floor(this.#now());
    const newest = this.#seconds.at(-1);
    if (newest?.second === second) newest.bytes += bytes;
    else this.#seconds = [...this.#recent(second), { second, bytes }];
    this.#mostBytes = Math.max(this.#mostBytes, this.#seconds.at(-1)?.bytes ?? 0);
  }

  /** The mean of the newest whole seconds. */
  get bytesPerSecond(): number {
    const second = Math.floor(this.#now());
    const whole = this.#recent(second).filter((one) => one.second < second);
    return whole.reduce((sum, { bytes }) => sum + bytes, 0) / WINDOW_SECONDS;
  }

  /** The most that any second had. */
  get most(): number {
    return this.#mostBytes;
  }

  #recent(second: number) {
    return this.#seconds.filter((one) => one.second >= second - WINDOW_SECONDS);
  }
}
