/**
 * The faults of a script, done to a training as it goes: each is sent once, when its step is first announced, and has
 * fired when it took effect before the run ended. This only keeps the time and the books.
 */
import type { ChaosEntry } from './chaosScript.ts';
import type { FaultCost } from './faultCosts.ts';
import type { Rehearsal } from './rehearsal.ts';

export interface ChaosRecord {
  readonly entry: string;
  /** The step then being done; null: it did not fire. */
  readonly firedAtStep: number | null;
}

interface Sent {
  readonly entry: ChaosEntry;
  sent: boolean;
  admittedAtStep: number | null;
  firedAtStep: number | null;
}

export class Chaos {
  readonly #rehearsal: Rehearsal;
  /** Whether the last step waits for a newcomer. */
  readonly #holdLastStep: (held: boolean) => void;
  readonly #entries: Sent[];
  /** Newcomers that the last step waits for. */
  #awaited: number;
  /** The step being done, or done last. */
  #step = 0;
  #ended = false;

  constructor(script: readonly ChaosEntry[], rehearsal: Rehearsal, holdLastStep: (held: boolean) => void) {
    this.#rehearsal = rehearsal;
    this.#holdLastStep = holdLastStep;
    this.#entries = script.map((entry) => ({ entry, sent: false, admittedAtStep: null, firedAtStep: null }));
    this.#awaited = script.filter(({ kind }) => kind === 'join').length;
    if (this.#awaited > 0) holdLastStep(true);
  }

  /** After each change of the run that has a step in progress. */
  stepAnnounced(step: number): void {
    if (this.#ended) return;
    this.#step = step;
    for (const entry of this.#entries) if (!entry.sent && entry.entry.step <= step) void this.#send(entry);
  }

  /** What takes effect from now on comes too late. */
  end(): void {
    this.#ended = true;
  }

  /** In the script's order. One who joined where no plan had a place for it has fired all the same. */
  records(): ChaosRecord[] {
    return this.#entries.map(({ entry, firedAtStep, admittedAtStep }) => ({
      entry: entry.text,
      firedAtStep: firedAtStep ?? admittedAtStep,
    }));
  }

  /** Of those that fired. */
  costs(): FaultCost[] {
    return this.#rehearsal.costs(
      this.#entries
        .filter(({ firedAtStep, admittedAtStep }) => (firedAtStep ?? admittedAtStep) !== null)
        .map(({ entry }) => entry),
    );
  }

  /** The step being done; one that a roll-back took back meanwhile stands for those done again up to it. */
  #stepOf({ entry }: Sent): number {
    return Math.max(this.#step, entry.step);
  }

  async #send(sent: Sent): Promise<void> {
    sent.sent = true;
    const took = await this.#rehearsal.begin(sent.entry, (peer) => {
      if (peer !== null && !this.#ended) sent.admittedAtStep = this.#stepOf(sent);
      this.#awaited--;
      if (this.#awaited === 0) this.#holdLastStep(false);
    });
    if (took && !this.#ended) sent.firedAtStep = this.#stepOf(sent);
  }
}
