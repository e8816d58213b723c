/** A clock and a machine for tests: time passes only where someone waits or computes, so that hours take no time. */
import type { Clock } from '../executor/spacing.ts';

/** Turns of the event loop's microtasks after which everything that could go on has gone on. */
const MICROTASKS = 40;

interface Computing {
  left: number;
  readonly resolve: () => void;
}

/** All who wait go on in order of their times; those who compute share the machine evenly. */
export class VirtualTime implements Clock {
  time = 0;
  readonly #capacity: number;
  readonly #waiting: { readonly at: number; readonly resolve: () => void }[] = [];
  readonly #computing: Computing[] = [];

  /** `capacity`: how many may compute at once as fast as one alone. */
  constructor(capacity = Infinity) {
    this.#capacity = capacity;
  }

  now = (): number => this.time;

  wait = (seconds: number): Promise<void> =>
    new Promise((resolve) => this.#waiting.push({ at: this.time + seconds, resolve }));

  /** Work of so many seconds when alone. */
  compute = (seconds: number): Promise<void> =>
    new Promise((resolve) => this.#computing.push({ left: seconds, resolve }));

  /** Until nobody waits or computes any more. */
  async run(): Promise<void> {
    for (;;) {
      for (let turn = 0; turn < MICROTASKS; turn++) await Promise.resolve();
      this.#waiting.sort((a, b) => a.at - b.at);
      this.#computing.sort((a, b) => a.left - b.left);
      const [timer] = this.#waiting;
      const [work] = this.#computing;
      if (!timer && !work) return;
      const rate = Math.min(1, this.#capacity / this.#computing.length);
      const workEnds = work ? this.time + work.left / rate : Infinity;
      const isWork = workEnds < (timer?.at ?? Infinity);
      const next = Math.max(this.time, isWork ? workEnds : (timer?.at ?? 0));
      for (const each of this.#computing) each.left -= (next - this.time) * rate;
      this.time = next;
      (isWork ? this.#computing.shift() : this.#waiting.shift())?.resolve();
    }
  }
}
