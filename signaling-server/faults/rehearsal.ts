/**
 * Faults done on purpose to donors that this process opened itself, and what each cost the run: of a script
 * (`--chaos`) and of the dashboard alike. Nobody else's tab is ever asked for anything.
 */
import { monotonicMs } from '../monitoring/clock.ts';
import { type ChaosEntry, isTamperFault, type TamperFault } from './chaosScript.ts';
import { type FaultCost, FaultCosts } from './faultCosts.ts';

/** What can be done to a donor: each resolves with true when it took effect, with false where it cannot. */
export interface RehearsedDonor {
  /** Every name that the server gave it: a new one on each connection. */
  readonly peers: ReadonlySet<string>;
  /** SIGKILL to its tab's renderer process. */
  kill(): Promise<boolean>;
  /** Its GPU process crashes; takes effect when the page says so. */
  loseGpu(): Promise<boolean>;
  /** Whatever its page says to the server goes on, but for reports of steps: takes effect with the first one. */
  mute(): Promise<boolean>;
  /** By its button. */
  leave(): Promise<boolean>;
  /** Its tab's page and worker stand still for so long. */
  freeze(seconds: number): Promise<boolean>;
  /** For so long it reaches nobody and nobody reaches it, while all of it lives and no connection ends by it. */
  cut(seconds: number): Promise<boolean>;
  /** From now on its GPU work takes so many times as long as at first: its page's own control gives less of the GPU's time. */
  slow(times: number): Promise<boolean>;
  /** From this step on what it sends is another thing than it ought to be: takes effect with the first tensor. */
  tamper(kind: TamperFault, firstStep: number): Promise<boolean>;
}

interface RehearsalHost {
  readonly nowMs?: () => number;
  /** Resolves when the newcomer is in the plan; `onAdmitted` gets its name when it is admitted, null if it never will be. */
  readonly join?: (onAdmitted: (peer: string | null) => void) => Promise<boolean>;
  readonly killServer?: () => Promise<boolean>;
}

/** A run as its command sees it. */
interface SeenRun {
  readonly snapshot: {
    readonly epoch: number;
    readonly committedSteps: number;
    readonly donors: readonly { readonly peer: string }[];
  };
  readonly epochReason: string;
  readonly movedBytes: number;
}

/** The name that the server gave it last. */
export const newestOf = (peers: Iterable<string>): string | null => [...peers].at(-1) ?? null;

export class Rehearsal {
  /** In the order opened; more may come. */
  readonly #donors: readonly RehearsedDonor[];
  readonly #host: RehearsalHost;
  readonly #costs = new FaultCosts();
  #hasBegun = false;

  constructor(donors: readonly RehearsedDonor[], host: RehearsalHost = {}) {
    this.#donors = donors;
    this.#host = host;
  }

  /** From now on donors may be missing who come back, or are on their way. */
  get hasBegun(): boolean {
    return this.#hasBegun;
  }

  /** What the server calls each donor now, by its number. */
  peers(): (string | null)[] {
    return this.#donors.map(({ peers }) => newestOf(peers));
  }

  nowMs(): number {
    return this.#host.nowMs?.() ?? monotonicMs();
  }

  /** After each change of the run. */
  see({ snapshot: { epoch, committedSteps, donors }, epochReason, movedBytes }: SeenRun): void {
    const peers = new Set(donors.map(({ peer }) => peer));
    this.#costs.see({ nowMs: this.nowMs(), epoch, epochReason, committedSteps, movedBytes, peers });
  }

  /** Resolves with whether it took effect; `onAdmitted` hears of a newcomer before that. */
  async begin(entry: ChaosEntry, onAdmitted: (peer: string | null) => void = () => {}): Promise<boolean> {
    this.#hasBegun = true;
    // A newcomer costs something from its admission on, a liar from its first lie on.
    const isLie = isTamperFault(entry.kind);
    if (entry.kind !== 'join' && !isLie) this.#measure(entry);
    const took = await this.#do(entry, (peer) => {
      if (peer !== null) this.#costs.begin(entry, peer, this.nowMs());
      onAdmitted(peer);
    }).catch(() => false);
    if (took && isLie) this.#measure(entry);
    return took;
  }

  /** Of these, in their order. */
  costs(entries: readonly ChaosEntry[]): FaultCost[] {
    return this.#costs.of(entries);
  }

  /** What it cost is known, or is never asked for. */
  forget(entry: ChaosEntry): void {
    this.#costs.forget(entry);
  }

  #measure(entry: ChaosEntry): void {
    const peer = 'donor' in entry ? newestOf(this.#donors[entry.donor]?.peers ?? []) : null;
    this.#costs.begin(entry, peer, this.nowMs());
  }

  async #do(entry: ChaosEntry, onAdmitted: (peer: string | null) => void): Promise<boolean> {
    if (!('donor' in entry)) {
      const { join, killServer } = this.#host;
      return (await (entry.kind === 'join' ? join?.(onAdmitted) : killServer?.())) ?? false;
    }
    const donor = this.#donors[entry.donor];
    if (donor === undefined) return false;
    switch (entry.kind) {
      case 'kill':
        return donor.kill();
      case 'gpu-lost':
        return donor.loseGpu();
      case 'mute':
        return donor.mute();
      case 'leave':
        return donor.leave();
      case 'freeze':
        return donor.freeze(entry.seconds);
      case 'cut':
        return donor.cut(entry.seconds);
      case 'slow':
        return donor.slow(entry.factor);
      case 'nan':
      case 'lie':
      case 'stale':
        return donor.tamper(entry.kind, entry.step);
    }
  }
}
