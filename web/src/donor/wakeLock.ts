/** Keeps the screen awake while a person wants it. The browser lets go when the tab is hidden: then it is asked again. */
export class WakeLock {
  #wanted = false;
  #lock: WakeLockSentinel | null = null;

  want(isWanted: boolean): void {
    if (isWanted === this.#wanted) return;
    this.#wanted = isWanted;
    void this.renew();
  }

  /** Also to be called when the tab comes to the front. */
  async renew(): Promise<void> {
    try {
      if (!this.#wanted) {
        await this.#lock?.release();
        this.#lock = null;
      } else if (document.visibilityState === 'visible' && (this.#lock?.released ?? true)) {
        this.#lock = await navigator.wakeLock.request('screen');
        if (!this.#wanted) await this.renew();
      }
    } catch {
      // A browser without it, or a machine low on battery, sleeps when it likes.
    }
  }
}
