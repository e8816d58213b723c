/**
 * Doing things no faster than agreed, GPU work and bytes alike: fixed places, `next += cost / rate`, of which each thing
 * takes the next one and waits for it. The cost of GPU work is the time it takes when this donor runs alone, not the time
 * it took: spans of several donors on one machine overlap and stretch, and places as long as stretched spans would
 * multiply the stretch. Whoever comes late catches up on no more than the slack.
 */

/** Injected, so that tests have a time of their own. Seconds. */
export interface Clock {
  now(): number;
  wait(seconds: number): Promise<void>;
}

/** Places, first come, first served. */
export class Spacing {
  readonly #clock: Clock;
  /** Lateness of a timer is caught up on; a pause is not. */
  readonly #slackSeconds: number;
  #next = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock, slackSeconds: number) {
    this.#clock = clock;
    this.#slackSeconds = slackSeconds;
  }

  /** Until the place before is over. */
  get freeInSeconds(): number {
    return Math.max(0, this.#next - this.#clock.now());
  }

  /** Resolves then. */
  async untilFree(): Promise<void> {
    const early = this.freeInSeconds;
    if (early > 0) await this.#clock.wait(early);
  }

  /** The next place, this long. It begins at `from` (now), or where the place before ends. Returns how long until it is over. */
  take(seconds: number, from: number = this.#clock.now()): number {
    this.#next = Math.max(this.#next, from - this.#slackSeconds) + seconds;
    return this.#next - this.#clock.now();
  }
}
