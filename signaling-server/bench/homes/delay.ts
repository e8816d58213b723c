/** Does each thing at its time: a line of packets on their way. */
import { monotonicMs } from '../../monitoring/clock.ts';

interface Due {
  readonly atMs: number;
  readonly then: () => void;
}

export class Delay {
  /** Ascending; of equal times the first added first. */
  readonly #due: Due[] = [];
  #timer: NodeJS.Timeout | null = null;
  #wakesAtMs = 0;

  add(afterMs: number, then: () => void): void {
    const atMs = monotonicMs() + afterMs;
    let place = this.#due.length;
    while (place > 0 && (this.#due[place - 1] as Due).atMs > atMs) place--;
    this.#due.splice(place, 0, { atMs, then });
    this.#wake();
  }

  #wake(): void {
    const [first] = this.#due;
    if (first === undefined || (this.#timer !== null && this.#wakesAtMs <= first.atMs)) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#wakesAtMs = first.atMs;
    this.#timer = setTimeout(() => this.#pass(), Math.max(0, first.atMs - monotonicMs()));
  }

  #pass(): void {
    this.#timer = null;
    const now = monotonicMs();
    // A timer may be early by a part of a millisecond.
    const count = this.#due.findIndex(({ atMs }) => atMs > now + 0.5);
    for (const { then } of this.#due.splice(0, count < 0 ? this.#due.length : count)) then();
    this.#wake();
  }
}
