/**
 * Which tabs of this browser donate: they share one GPU, and a person may have forgotten one. Each of them holds a lock
 * of its own as long as it donates, and who counts it waits for that lock too, and so hears of its end, be it by a
 * button, a closed tab or a crash. A broadcast tells of those that begin.
 */
const DONATING = 'shoal.donating.';

export class Tabs {
  readonly #onOthers: (count: number) => void;
  readonly #channel = new BroadcastChannel(DONATING);
  readonly #awaited = new Set<string>();
  /** New each time: a tab that sleeps may be slow to let go of an earlier one. */
  #own = '';
  #release: (() => void) | null = null;

  /** `onOthers` hears how many other tabs donate, at first and whenever that may have changed. */
  constructor(onOthers: (count: number) => void) {
    this.#onOthers = onOthers;
    this.#channel.onmessage = () => void this.#count();
    void this.#count();
  }

  donate(isDonating: boolean): void {
    if (isDonating === (this.#release !== null)) return;
    if (!isDonating) {
      this.#release?.();
      this.#release = null;
      return;
    }
    this.#own = `${DONATING}${crypto.randomUUID()}`;
    const held = new Promise<void>((resolve) => {
      this.#release = resolve;
    });
    void navigator.locks.request(this.#own, async () => {
      this.#channel.postMessage('');
      await held;
    });
  }

  async #count(): Promise<void> {
    const { held = [] } = await navigator.locks.query();
    const others = held.flatMap(({ name = '', mode }) =>
      mode === 'exclusive' && name.startsWith(DONATING) && name !== this.#own ? [name] : [],
    );
    this.#onOthers(others.length);
    for (const name of others) void this.#await(name);
  }

  async #await(name: string): Promise<void> {
    if (this.#awaited.has(name)) return;
    this.#awaited.add(name);
    await navigator.locks.request(name, { mode: 'shared' }, () => {});
    this.#awaited.delete(name);
    await this.#count();
  }
}
