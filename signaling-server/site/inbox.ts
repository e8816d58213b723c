/**
 * What other processes said and was not dealt with: it is dealt with in order, some at a time, between which timers and other
 * connections have their turn. What is said again while it waits here is dropped before any work, so that a process that is
 * behind has no more to catch up with than it was told.
 */
import type { Buffer } from 'node:buffer';
import { monotonicMs } from '../monitoring/clock.ts';

/** What others said is dealt with for so long at a time. */
const TURN_MS = 20;
/** What others said waits so long before it is dealt with: what they have not said yet is not known. */
const BEHIND_MS = 1_000;

interface Waiting {
  readonly message: Buffer;
  readonly reply: string;
  readonly name: string | null;
  readonly cameMs: number;
}

interface InboxOptions {
  /** Messages of one name say the same; null: each counts. */
  nameOf(message: Buffer, reply: string): string | null;
  deal(message: Buffer, reply: string): void;
}

export class Inbox {
  readonly #options: InboxOptions;
  /** No more than a line of each process, and acknowledgements. */
  readonly #waiting: Waiting[] = [];
  readonly #names = new Set<string>();
  #isDealing = false;

  constructor(options: InboxOptions) {
    this.#options = options;
  }

  /** What came more than a second ago was not dealt with yet. */
  get isBehind(): boolean {
    const [oldest] = this.#waiting;
    return oldest !== undefined && monotonicMs() - oldest.cameMs > BEHIND_MS;
  }

  /** Whether a message of this name waits. */
  holds(name: string): boolean {
    return this.#names.has(name);
  }

  came(message: Buffer, reply: string): void {
    const name = this.#options.nameOf(message, reply);
    if (name !== null && this.#names.has(name)) return;
    if (name !== null) this.#names.add(name);
    this.#waiting.push({ message, reply, name, cameMs: monotonicMs() });
    if (this.#isDealing) return;
    this.#isDealing = true;
    setImmediate(() => this.#deal());
  }

  #deal(): void {
    const untilMs = monotonicMs() + TURN_MS;
    let dealtWith = 0;
    for (const { message, reply, name } of this.#waiting) {
      dealtWith += 1;
      if (name !== null) this.#names.delete(name);
      this.#options.deal(message, reply);
      if (monotonicMs() >= untilMs) break;
    }
    this.#waiting.splice(0, dealtWith);
    this.#isDealing = this.#waiting.length > 0;
    if (this.#isDealing) setImmediate(() => this.#deal());
  }
}
