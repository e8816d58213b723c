/**
 * When this donor has nothing of training to do, and for how long: what answers are fitted into. How long a wait takes is
 * what the same wait took in the newest steps of this plan, the shortest of them, since whoever ends too late holds up
 * everybody's step. Between the commit of a step and its last new values there is no window: values half of which are
 * updated would answer.
 */

/** Lengths that are remembered of each wait. */
const REMEMBERED = 4;
/** A wait so much longer than ever before is no wait of a step: somebody is lost, or the run stands. */
const OVERDUE = 2;
const OVERDUE_SECONDS = 0.25;
/** Of a wait that nothing is known of. */
const UNKNOWN_SECONDS = 0.5;
/** Name of the wait between a step's end and the next one's start. */
const BETWEEN = 'between steps';

interface Wait {
  readonly name: string;
  readonly since: number;
}

export class IdleWindows {
  readonly #now: () => number;
  readonly #lengths = new Map<string, number[]>();
  readonly #open = new Set<Wait>();
  #between: Wait | null;
  #isUpdating = false;
  /** Called whenever a wait begins. */
  onOpen: () => void = () => {};

  /** `now` in seconds; `since`: when this donor last had something to do. */
  constructor(now: () => number, since: number = now()) {
    this.#now = now;
    this.#between = { name: BETWEEN, since };
  }

  /** Another plan has other waits. */
  forget(): void {
    this.#lengths.clear();
    this.#open.clear();
    this.#isUpdating = false;
    this.#between = { name: BETWEEN, since: this.#now() };
  }

  /** Values of two steps stand beside each other here, until the step's end. */
  updating(): void {
    this.#isUpdating = true;
  }

  get isUpdating(): boolean {
    return this.#isUpdating;
  }

  /** A step begins, and ends with `work`. */
  async step<T>(work: () => Promise<T>): Promise<T> {
    if (this.#between) this.#learn(this.#between);
    this.#between = null;
    try {
      return await work();
    } finally {
      this.#isUpdating = false;
      this.#between = { name: BETWEEN, since: this.#now() };
      this.onOpen();
    }
  }

  /** What a step stands still for. `name`: the same in every step. */
  async during<T>(name: string, coming: Promise<T>): Promise<T> {
    const wait = { name, since: this.#now() };
    this.#open.add(wait);
    this.onOpen();
    try {
      const come = await coming;
      this.#learn(wait);
      return come;
    } finally {
      this.#open.delete(wait);
    }
  }

  /** Seconds until something of training is due, as far as is known; 0: something is being done, or may be at any moment. */
  get secondsLeft(): number {
    if (this.#isUpdating) return 0;
    const waits = this.#between ? [this.#between] : [...this.#open];
    return waits.length === 0 ? 0 : Math.min(...waits.map((wait) => this.#leftOf(wait)));
  }

  #leftOf({ name, since }: Wait): number {
    const expected = Math.min(...(this.#lengths.get(name) ?? [UNKNOWN_SECONDS]));
    const passed = this.#now() - since;
    if (passed > OVERDUE * expected + OVERDUE_SECONDS) return Number.POSITIVE_INFINITY;
    return this.#lengths.has(name) ? Math.max(0, expected - passed) : 0;
  }

  #learn({ name, since }: Wait): void {
    this.#lengths.set(name, [...(this.#lengths.get(name) ?? []), this.#now() - since].slice(-REMEMBERED));
  }
}
