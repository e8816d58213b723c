/** How many things one address holds at once: connections, donors. What is over the limit is not let in. */
import { got } from '../../swarm/base.ts';
export class AddressLimit {
  readonly #most: number;
  readonly #held = new Map<string, number>();

  constructor(most: number) {
    this.#most = most;
  }

  /** Call the answer once when it is over; null where the address has as many as it may. */
  enter(address: string): (() => void) | null {
    const held = this.#held.get(address) ?? 0;
    if (held >= this.#most) return null;
    this.#held.set(address, held + 1);
    return () => {
      const left = got(this.#held, address) - 1;
      if (left === 0) this.#held.delete(address);
      else this.#held.set(address, left);
    };
  }
}
