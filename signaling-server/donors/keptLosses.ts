/** What is remembered of addresses whose donors have cost the others something; of a site all its processes remember the same. */

/** Of so many addresses: those with the newest ones. */
const ADDRESSES_KEPT = 10_000;

export interface Losses {
  readonly count: number;
  /** By this process's clock. */
  readonly lastMs: number;
}

/** Losses are forgiven one by one within minutes, convictions within days. */
export const LOSS_KINDS = ['losses', 'convictions'] as const;
type LossKind = (typeof LOSS_KINDS)[number];

interface KeptOptions {
  /** What an address is remembered by. */
  nameOf(address: string): string;
  /** For the other processes. */
  onKept(kind: LossKind, name: string, losses: Losses): void;
}

export class KeptLosses {
  readonly #options: KeptOptions;
  readonly #kept = { losses: new Map<string, Losses>(), convictions: new Map<string, Losses>() };

  constructor(options: KeptOptions = { nameOf: (address) => address, onKept: () => {} }) {
    this.#options = options;
  }

  of(kind: LossKind, address: string): Losses | undefined {
    return this.#kept[kind].get(this.#options.nameOf(address));
  }

  keep(kind: LossKind, address: string, losses: Losses): void {
    const name = this.#options.nameOf(address);
    this.heard(kind, name, losses);
    this.#options.onKept(kind, name, losses);
  }

  /** Another process keeps it, or this one did. */
  heard(kind: LossKind, name: string, losses: Losses): void {
    const all = this.#kept[kind];
    all.delete(name);
    all.set(name, losses);
    const [oldest] = all.keys();
    if (all.size > ADDRESSES_KEPT && oldest !== undefined) all.delete(oldest);
  }
}
