/**
 * Doing things no faster than agreed. One idea for GPU time and for bytes: a schedule of fixed places,
 * `next += cost / rate`, on which each thing takes the next place and waits for it. The cost of GPU work is the time it
 * takes when this donor runs alone, not the time it took: spans of several donors on one machine overlap and stretch, and
 * a schedule spaced by stretched spans would multiply the stretch. Whoever comes late catches up on no more than `slack`.
 */

/** Injected, so that tests have a time of their own. Seconds. */
export interface Clock {
  now(): number;
  wait(seconds: number): Promise<void>;
}

/** Places on a schedule, first come, first served. */
export class Schedule {
  readonly #clock: Clock;
  /** Lateness of a timer is caught up on; a pause is not. */
  readonly #slackSeconds: number;
  #next = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock, slackSeconds: number) {
    this.#clock = clock;
    this.#slackSeconds = slackSeconds;
  }

  /** Resolves when the place before is over. */
  async turn(): Promise<void> {
    const early = this.#next - this.#clock.now();
    if (early > 0) await this.#clock.wait(early);
  }

  /** The next place, this long. It begins at `from` (now), or where the place before ends. Returns how long until it is over. */
  take(seconds: number, from: number = this.#clock.now()): number {
    this.#next = Math.max(this.#next, from - this.#slackSeconds) + seconds;
    return this.#next - this.#clock.now();
  }
}
