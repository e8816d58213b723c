/** How long a pass waited for something to come while the GPU had nothing to do. */
export class IdleMeter {
  #seconds = 0;
  readonly #now: () => number;

  /** `now` in seconds. */
  constructor(now: () => number) {
    this.#now = now;
  }

  get seconds(): number {
    return this.#seconds;
  }

  /** When the GPU is done, in seconds. */
  doneAt(settled: Promise<void>): Promise<number> {
    const done = settled.then(this.#now);
    done.catch(() => undefined); // a lost device ends the step elsewhere
    return done;
  }

  /** What comes. `settled`: when the GPU is done with what was there before, in seconds; nothing else is done meanwhile. */
  async until<T>(coming: Promise<T>, settled: Promise<number>): Promise<T> {
    const begun = this.#now();
    const come = await coming;
    const here = this.#now();
    const done = await Promise.race([settled, Promise.resolve(here)]);
    this.#seconds += Math.max(0, here - Math.max(begun, done));
    return come;
  }
}
