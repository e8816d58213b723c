/**
 * Which tabs of this browser donate: they share one GPU, and a person may have forgotten one. Each of them holds a shared
 * lock as long as it donates, so that a tab that crashes is not counted; a broadcast tells the others to count again.
 */
const LOCK = 'shoal.donating';

export class Tabs {
  readonly #onOthers: (count: number) => void;
  readonly #channel: BroadcastChannel;
  #release: (() => void) | null = null;

  /** `onOthers` hears how many other tabs donate, at first and whenever that may have changed. */
  constructor(onOthers: (count: number) => void) {
    this.#onOthers = onOthers;
    this.#channel = new BroadcastChannel(LOCK);
    this.#channel.onmessage = () => void this.count();
    void this.count();
  }

  donate(isDonating: boolean): void {
    if (isDonating === (this.#release !== null)) return;
    if (!isDonating) {
      this.#release?.();
      this.#release = null;
      return;
    }
    const held = new Promise<void>((resolve) => {
      this.#release = resolve;
    });
    void navigator.locks
      .request(LOCK, { mode: 'shared' }, async () => {
        this.#channel.postMessage('');
        await held;
      })
      .then(() => this.#channel.postMessage(''));
  }

  /** A tab that crashed tells nobody: also to be called when this one comes to the front. */
  async count(): Promise<void> {
    const { held = [] } = await navigator.locks.query();
    const all = held.filter(({ name }) => name === LOCK).length;
    this.#onOthers(Math.max(0, all - (this.#release === null ? 0 : 1)));
  }
}
