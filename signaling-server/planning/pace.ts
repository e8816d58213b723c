/**
 * How fast the plan in force is. Its one idea: it is the server's own clock that says so, whatever donors report: a step
 * is as long as from commit to commit, and getting ready as long as from the plan to its first start.
 */
import { median } from '../../swarm/base.ts';

/** Getting ready, until it was measured: kernels compile, links open. Longer ones were waits for something else. */
const PREPARE_SECONDS = 3;
const MOST_PREPARE_SECONDS = 20;
const STEPS_KEPT = 32;
/** Of a plan, until their median says something. */
const LEAST_STEPS = 5;
/** Steps before a change that those after it are held against: as many as a drift takes. */
const STEPS_BEFORE = 10;

export class Pace {
  #steps: number[] = [];
  #begunMs: number | null = null;
  #prepareSeconds = PREPARE_SECONDS;

  /** Of getting ready for a plan, the newest time. */
  get prepareSeconds(): number {
    return this.#prepareSeconds;
  }

  /** Steps of this plan that are remembered. */
  get steps(): number {
    return this.#steps.length;
  }

  /** Median of them; null before the first. */
  get stepSeconds(): number | null {
    return median(this.#steps);
  }

  /** What a step takes beside what is predicted (the round trip of its commit, …), as far as it is known: with any plan. */
  besideSeconds(predictedSeconds: number): number {
    const measured = this.steps >= LEAST_STEPS ? (this.stepSeconds ?? 0) : 0;
    return Math.max(0, measured - predictedSeconds);
  }

  /** A plan begins; what the last steps of the one before took. */
  began(nowMs: number): number | null {
    const before = median(this.#steps.slice(-STEPS_BEFORE));
    this.#steps = [];
    this.#begunMs = nowMs;
    return before;
  }

  /** A step starts: with the first one everybody is ready. */
  started(nowMs: number): void {
    if (this.#begunMs === null) return;
    this.#prepareSeconds = Math.min(MOST_PREPARE_SECONDS, (nowMs - this.#begunMs) / 1_000);
    this.#begunMs = null;
  }

  took(seconds: number): void {
    this.#steps = [...this.#steps, seconds].slice(-STEPS_KEPT);
  }
}
