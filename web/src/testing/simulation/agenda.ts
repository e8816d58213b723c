/**
 * The time of a simulation: what is to happen, in the order of its times, and of equal times in the order in which it was
 * put down. Between two events everything that waits on promises goes on as far as it can, so one seed is one history.
 */

interface Entry {
  readonly atMs: number;
  readonly order: number;
  readonly act: () => void;
}

const isBefore = (one: Entry, other: Entry): boolean =>
  one.atMs < other.atMs || (one.atMs === other.atMs && one.order < other.order);

/** Every microtask has run when this resolves: the loop's next turn comes after all of them. */
const quiet = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

export class Agenda {
  nowMs = 0;
  events = 0;
  /** A binary heap: no entry is before its parent. */
  readonly #heap: Entry[] = [];
  #order = 0;

  after(ms: number, act: () => void): void {
    const entry = { atMs: this.nowMs + Math.max(0, ms), order: this.#order++, act };
    let index = this.#heap.push(entry) - 1;
    for (; index > 0; ) {
      const above = (index - 1) >> 1;
      const parent = this.#heap[above];
      if (!parent || !isBefore(entry, parent)) break;
      this.#heap[index] = parent;
      index = above;
    }
    this.#heap[index] = entry;
  }

  /** Until `isOver`, or nothing is left to happen. */
  async run(isOver: () => boolean): Promise<void> {
    await quiet();
    for (let next = this.#take(); next; next = this.#take()) {
      this.nowMs = next.atMs;
      this.events++;
      next.act();
      await quiet();
      if (isOver()) return;
    }
  }

  #take(): Entry | undefined {
    const [first] = this.#heap;
    const last = this.#heap.pop();
    if (!first || !last || first === last) return first;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      let least = this.#heap[child];
      const right = this.#heap[child + 1];
      if (least && right && isBefore(right, least)) {
        least = right;
        child++;
      }
      if (!least || !isBefore(least, last)) break;
      this.#heap[index] = least;
      index = child;
    }
    this.#heap[index] = last;
    return first;
  }
}
