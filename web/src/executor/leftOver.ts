/**
 * Whether what the codes of a step missed of this peer's gradient sums counts for the next one. It does where one step
 * follows the other under the same plan, island and loss scale; all else begins without (WI34).
 */
export class LeftOver {
  #lossScale: number | null = null;

  /** A step begins, with what the one before left over or without; what it leaves itself does not count yet. */
  take(lossScale: number): boolean {
    const counts = this.#lossScale === lossScale;
    this.#lossScale = null;
    return counts;
  }

  /** A step was done to its end. */
  keep(lossScale: number): void {
    this.#lossScale = lossScale;
  }

  /** What is computed with was made anew. */
  drop(): void {
    this.#lossScale = null;
  }
}
