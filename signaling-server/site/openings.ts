/**
 * Each pipe is opened once, whatever is said again and however late that comes. A process numbers the pipes that it opens and
 * says with each of their messages from which number on it may still open any; the other end remembers which of those it has
 * had, and takes none below. So what is remembered is bounded by what is on its way.
 */

/** Far more than an opener in order has on its way. */
const REMEMBERED = 65_536;

interface Opening {
  /** The other end has had its first message, or need not have it any more. */
  readonly isHeard: boolean;
}

/** Of this process, at another one. */
export class OwnOpenings {
  /** From the oldest one on. */
  readonly #unheard = new Map<number, Opening>();

  /** Numbers rise. */
  add(number: number, opening: Opening): void {
    this.#unheard.set(number, opening);
  }

  /** No pipe below it is opened any more; `next`: the number of the next one. */
  oldest(next: number): number {
    for (const [number, { isHeard }] of this.#unheard) {
      if (!isHeard) return number;
      this.#unheard.delete(number);
    }
    return next;
  }
}

/** Of another process, here. */
export class OthersOpenings {
  #oldest = 0;
  /** From there on. */
  readonly #had = new Set<number>();

  /** Whether the pipe of this number is opened for the first time; `oldest`: what its opener said with that. */
  isFirst(number: number, oldest: number): boolean {
    if (oldest > this.#oldest) {
      this.#oldest = oldest;
      for (const had of this.#had) if (had < oldest) this.#had.delete(had);
    }
    if (number < this.#oldest || this.#had.has(number)) return false;
    this.#had.add(number);
    const [first] = this.#had;
    if (this.#had.size > REMEMBERED && first !== undefined) this.#had.delete(first);
    return true;
  }
}
