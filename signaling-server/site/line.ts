/**
 * What all pipes to one other process have on their way together is bounded too, so that NATS never holds more of it than
 * it would for a reader that keeps up: it cuts off one that does not. Pipes that have to wait take turns.
 */

/** Said to a process, and not yet known to have come there. NATS cuts off a reader for whom it holds 64 MiB. */
export const LINE_WINDOW_BYTES = 8 * 2 ** 20;

interface Sender {
  /** There is room: it says what it can. */
  pump(): void;
}

export class Line {
  #onTheWayBytes = 0;
  /** In the order in which they came. */
  readonly #waiting = new Set<Sender>();
  #isPumping = false;

  get isFull(): boolean {
    return this.#onTheWayBytes >= LINE_WINDOW_BYTES;
  }

  take(bytes: number): void {
    this.#onTheWayBytes += bytes;
  }

  /** So much has come there, or never will. */
  give(bytes: number): void {
    this.#onTheWayBytes -= bytes;
    if (this.#isPumping) return;
    this.#isPumping = true;
    for (const sender of this.#waiting) {
      if (this.isFull) break;
      this.#waiting.delete(sender);
      sender.pump();
    }
    this.#isPumping = false;
  }

  awaits(sender: Sender): void {
    this.#waiting.add(sender);
  }

  /** It has nothing to say any more. */
  leaves(sender: Sender): void {
    this.#waiting.delete(sender);
  }
}
