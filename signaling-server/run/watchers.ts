/** Who is told when something of a run has changed. */
export class Watchers {
  readonly #listeners = new Set<() => void>();

  /** Call the answer when it is told no more. */
  add(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  tell(): void {
    for (const listener of [...this.#listeners]) listener();
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
