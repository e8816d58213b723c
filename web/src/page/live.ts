/**
 * The state of a page: a reducer, and a signal that views read. What a person waits for is shown at once; numbers that
 * merely change are shown at most four times a second.
 */
import { type Signal, signal } from '@preact/signals';

const REDRAW_MS = 250;

export class Live<State, Event> {
  readonly shown: Signal<State>;
  #current: State;
  readonly #next: (state: State, event: Event) => State;
  readonly #isUrgent: (before: State, after: State) => boolean;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #shownAtMs = -Infinity;

  constructor(
    initial: State,
    next: (state: State, event: Event) => State,
    isUrgent: (before: State, after: State) => boolean,
  ) {
    this.shown = signal(initial);
    this.#current = initial;
    this.#next = next;
    this.#isUrgent = isUrgent;
  }

  /** What is true now; `shown` may be a moment behind. */
  get current(): State {
    return this.#current;
  }

  dispatch(event: Event): void {
    const before = this.#current;
    this.#current = this.#next(before, event);
    if (this.#isUrgent(before, this.#current)) this.#show();
    else this.#timer ??= setTimeout(() => this.#show(), Math.max(0, this.#shownAtMs + REDRAW_MS - performance.now()));
  }

  #show(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#shownAtMs = performance.now();
    this.shown.value = this.#current;
  }
}
