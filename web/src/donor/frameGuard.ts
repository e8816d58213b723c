/**
 * Whether this computer's own frames come late, and what to do about it. Whoever scrolls or watches a film shares the
 * GPU with this tab; the tab sees it by its own frames. Additive increase, multiplicative decrease: a second of which
 * much was lost takes a third off what this tab gives, three good ones in a row give a tenth back.
 */

/** Of a second, beyond a frame and a half each. */
const BAD_SHARE = 0.2;
const GOOD_SHARE = 0.05;
const CALM_SECONDS = 3;
const DECREASE = 2 / 3;
const INCREASE = 0.1;
const LEAST = 0.1;
/** Screens draw 24 to 240 frames a second; a longer interval is no screen's own. */
const SHORTEST_MS = 4;
const LONGEST_MS = 42;
const FRAMES_KEPT = 240;
const SECOND_MS = 1_000;

export class FrameGuard {
  /** Of what the person gives. */
  factor = 1;
  #intervals: number[] = [];
  #lastMs: number | null = null;
  #secondMs = 0;
  #lostMs = 0;
  #calm = 0;

  /** The page was away, or computes nothing: what is between two frames says nothing. */
  pause(): void {
    this.#lastMs = null;
  }

  /** Back to all that the person gives. */
  reset(): void {
    this.pause();
    this.factor = 1;
    this.#secondMs = this.#lostMs = this.#calm = 0;
  }

  frame(atMs: number): void {
    const interval = this.#lastMs === null ? null : atMs - this.#lastMs;
    this.#lastMs = atMs;
    if (interval === null || interval <= 0) return;
    this.#intervals.push(interval);
    if (this.#intervals.length > FRAMES_KEPT) this.#intervals.shift();
    this.#secondMs += interval;
    this.#lostMs += Math.max(0, interval - 1.5 * this.#usualMs());
    if (this.#secondMs < SECOND_MS) return;
    const lost = this.#lostMs / this.#secondMs;
    this.#secondMs = this.#lostMs = 0;
    this.#calm = lost < GOOD_SHARE ? this.#calm + 1 : 0;
    if (lost > BAD_SHARE) this.factor = Math.max(LEAST, this.factor * DECREASE);
    else if (this.#calm >= CALM_SECONDS) this.factor = Math.min(1, this.factor + INCREASE);
  }

  /** What this screen does when nothing holds it up: the quicker frames of the last seconds. */
  #usualMs(): number {
    const sorted = this.#intervals.toSorted((a, b) => a - b);
    const quick = sorted[Math.floor((sorted.length - 1) / 10)] ?? LONGEST_MS;
    return Math.min(LONGEST_MS, Math.max(SHORTEST_MS, quick));
  }
}

/** Owns an animation frame loop while it watches. */
export class FrameWatch {
  readonly #guard = new FrameGuard();
  readonly #onFactor: (factor: number) => void;
  #request: number | null = null;

  constructor(onFactor: (factor: number) => void) {
    this.#onFactor = onFactor;
  }

  watch(isWanted: boolean): void {
    if (isWanted === (this.#request !== null)) return;
    if (isWanted) {
      this.#request = requestAnimationFrame(this.#frame);
      return;
    }
    if (this.#request !== null) cancelAnimationFrame(this.#request);
    this.#request = null;
    this.#guard.reset();
    this.#onFactor(1);
  }

  /** A hidden page has no frames. */
  away(): void {
    this.#guard.pause();
  }

  readonly #frame = (atMs: number): void => {
    const before = this.#guard.factor;
    this.#guard.frame(atMs);
    this.#request = requestAnimationFrame(this.#frame);
    if (this.#guard.factor !== before) this.#onFactor(this.#guard.factor);
  };
}
