/** BoundedQueue for work that takes a while: so many at once, so many who wait in the order they came, and no more. */
import { monotonicMs } from '../monitoring/clock.ts';

/** What one takes before any is done; then the newest ones count. */
const USUAL_MS = 2_000;
const NEWEST_WEIGHT = 0.25;
const LONGEST_RETRY_SECONDS = 60;

export class BoundedQueue {
  readonly #atOnce: number;
  readonly #mostWaiting: number;
  #taken = 0;
  /** Each is called when it has a place. */
  readonly #waiting = new Set<() => void>();
  #usualMs = USUAL_MS;

  constructor(atOnce: number, mostWaiting: number) {
    this.#atOnce = atOnce;
    this.#mostWaiting = mostWaiting;
  }

  /** Call the answer when it is done; a second call does nothing. Null: too many wait, or the signal was aborted meanwhile. */
  async enter(signal: AbortSignal): Promise<(() => void) | null> {
    if (signal.aborted) return null;
    if (this.#taken < this.#atOnce) this.#taken++;
    else if (this.#waiting.size >= this.#mostWaiting || !(await this.#turn(signal))) return null;
    const beganMs = monotonicMs();
    let isIn = true;
    return () => {
      if (!isIn) return;
      isIn = false;
      this.#usualMs += NEWEST_WEIGHT * (monotonicMs() - beganMs - this.#usualMs);
      const [next] = this.#waiting;
      if (next === undefined) this.#taken--;
      else {
        this.#waiting.delete(next);
        next();
      }
    };
  }

  /** When there should be a place again to wait for. */
  retrySeconds(): number {
    const seconds = this.#usualMs / this.#atOnce / 1_000;
    return Math.min(LONGEST_RETRY_SECONDS, Math.max(1, Math.ceil(seconds)));
  }

  /** False: aborted before its turn. */
  #turn(signal: AbortSignal): Promise<boolean> {
    return new Promise((resolve) => {
      const aborted = (): void => {
        this.#waiting.delete(turn);
        resolve(false);
      };
      const turn = (): void => {
        signal.removeEventListener('abort', aborted);
        resolve(true);
      };
      this.#waiting.add(turn);
      signal.addEventListener('abort', aborted, { once: true });
    });
  }
}
