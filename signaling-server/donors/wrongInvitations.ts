/**
 * How many wrong invitations each address has said within a minute. At a site every process counts those that were said to
 * it, tells the others, and adds up what all of them have: so none is lost where several count at once.
 */
import { monotonicMs } from '../monitoring/clock.ts';

const WINDOW_MS = 60_000;
/** Addresses that are remembered: those whose time began last. */
const ADDRESSES_KEPT = 5_000;
/** Among the processes, this one. */
const HERE = 'here';

export interface Wrong {
  readonly count: number;
  /** When the address's minute began, by this process's clock. */
  readonly sinceMs: number;
}

interface WrongOptions {
  /** What an address is remembered by. */
  nameOf(address: string): string;
  /** For the other processes: how many were said here. */
  onCounted(name: string, wrong: Wrong): void;
}

export class WrongInvitations {
  readonly #options: WrongOptions;
  /** By address, and then by the process that counted them. */
  readonly #wrong = new Map<string, Map<string, Wrong>>();

  constructor(options: WrongOptions = { nameOf: (address) => address, onCounted: () => {} }) {
    this.#options = options;
  }

  /** Of an address in its minute, at whichever processes. */
  count(address: string): number {
    return [...this.#current(this.#options.nameOf(address)).values()].reduce((sum, { count }) => sum + count, 0);
  }

  add(address: string): void {
    const name = this.#options.nameOf(address);
    const current = this.#current(name);
    const begun = [...current.values()].map(({ sinceMs }) => sinceMs);
    // One minute for all processes, that of whoever counted first.
    const wrong = { count: (current.get(HERE)?.count ?? 0) + 1, sinceMs: Math.min(monotonicMs(), ...begun) };
    this.#keep(name, HERE, wrong);
    this.#options.onCounted(name, wrong);
  }

  /** Another process has counted so many. */
  heard(process: string, name: string, wrong: Wrong): void {
    this.#keep(name, process, wrong);
  }

  #keep(name: string, process: string, wrong: Wrong): void {
    this.#wrong.set(name, this.#current(name).set(process, wrong));
    const [oldest] = this.#wrong.keys();
    if (this.#wrong.size > ADDRESSES_KEPT && oldest !== undefined) this.#wrong.delete(oldest);
  }

  #current(name: string): Map<string, Wrong> {
    const nowMs = monotonicMs();
    const known = this.#wrong.get(name) ?? new Map<string, Wrong>();
    for (const [process, { sinceMs }] of known) if (nowMs - sinceMs >= WINDOW_MS) known.delete(process);
    if (known.size === 0) this.#wrong.delete(name);
    return known;
  }
}
