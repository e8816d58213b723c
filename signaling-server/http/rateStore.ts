/**
 * What the rate limits of HTTP calls count with: fixed windows, as the plugin's own store has them, by a clock that nobody
 * sets. By the wall clock a step back of a day would keep a window, and whoever is at its limit, for that day.
 */
import { monotonicMs } from '../monitoring/clock.ts';

/** Callers that are remembered: those who called last. */
const CALLERS_KEPT = 5_000;

interface Window {
  readonly beganMs: number;
  readonly calls: number;
}

type Told = (error: Error | null, result?: { current: number; ttl: number }) => void;

export class RateStore {
  readonly #windows = new Map<string, Window>();

  /** Called by the plugin for each call: how many this caller made in its window, and how long that goes on. */
  incr(caller: string, told: Told, windowMs: number): void {
    const nowMs = monotonicMs();
    const last = this.#windows.get(caller);
    const isOver = last === undefined || nowMs - last.beganMs >= windowMs;
    const { beganMs, calls } = isOver ? { beganMs: nowMs, calls: 1 } : { ...last, calls: last.calls + 1 };
    this.#windows.delete(caller);
    this.#windows.set(caller, { beganMs, calls });
    const [oldest] = this.#windows.keys();
    if (this.#windows.size > CALLERS_KEPT && oldest !== undefined) this.#windows.delete(oldest);
    told(null, { current: calls, ttl: beganMs + windowMs - nowMs });
  }

  /** Each route counts by itself. */
  child(): RateStore {
    return new RateStore();
  }
}
