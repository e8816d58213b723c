/**
 * Who is told when something of a run has changed, and what they may see of it: the newest state that is kept. The decisions
 * go on ahead of a store that takes its time; a server that is killed meanwhile has promised nobody what is lost then.
 */
import type { Store } from '../store/store.ts';

export class Watchers<State> {
  readonly #listeners = new Set<() => void>();
  readonly #store: Pick<Store, 'whenKept'>;
  readonly #newest: () => State;
  #kept: State;
  #isWaiting = false;

  /** `newest`: the state, never changed in place. */
  constructor(store: Pick<Store, 'whenKept'>, newest: () => State) {
    this.#store = store;
    this.#newest = newest;
    this.#kept = newest();
  }

  /** The newest state of which nothing can be lost any more. */
  get kept(): State {
    return this.#kept;
  }

  /** Call the answer when it is told no more. */
  add(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  tell(): void {
    for (const listener of [...this.#listeners]) listener();
  }

  /** Tells of the state as it is now once that is kept. One state waits at a time; the newest one follows it. */
  changed(): void {
    if (this.#isWaiting) return;
    const state = this.#newest();
    this.#isWaiting = true;
    this.#store.whenKept(() => {
      this.#isWaiting = false;
      this.#kept = state;
      this.tell();
      if (this.#kept !== this.#newest()) this.changed();
    });
  }

  /** Resolves once this holds. */
  until(holds: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const look = (): void => {
        if (!holds()) return;
        forget();
        resolve();
      };
      const forget = this.add(look);
      look();
    });
  }
}
