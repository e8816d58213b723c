/**
 * The faults of a script, done to a training as it goes: each is sent once, when its step is first announced, and has
 * fired when it took effect before the run ended. What it does to whom is given; this only keeps the time and the books.
 */
import type { ChaosEntry } from './chaosScript.ts';
import { type FaultCost, FaultCosts, type Seen } from './faultCosts.ts';

/** Each resolves when it took effect; with false where it cannot. */
export interface ChaosActions {
  kill(donor: number): Promise<boolean>;
  loseGpu(donor: number): Promise<boolean>;
  /** It works on, and reports no step any more: takes effect with the first report that it does not send. */
  mute(donor: number): Promise<boolean>;
  /** By its button; resolves when it is pressed. */
  leave(donor: number): Promise<boolean>;
  freeze(donor: number, seconds: number): Promise<boolean>;
  cut(donor: number, seconds: number): Promise<boolean>;
  slow(donor: number, times: number): Promise<boolean>;
  /** From this step on. */
  sendNaN(donor: number, step: number): Promise<boolean>;
  /** Resolves when the newcomer is in the plan; `onAdmitted` gets its name when it is admitted, null if it never will be. */
  join(onAdmitted: (peer: string | null) => void): Promise<boolean>;
  killServer(): Promise<boolean>;
  /** Whether the last step waits for a newcomer. */
  holdLastStep(held: boolean): void;
  /** What the server calls this donor now. */
  peerOf(donor: number): string | null;
  nowMs(): number;
}

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
  readonly #actions: ChaosActions;
  readonly #entries: Sent[];
  readonly #costs = new FaultCosts();
  /** Newcomers that the last step waits for. */
  #awaited: number;
  /** The step being done, or done last. */
  #step = 0;
  #ended = false;

  constructor(script: readonly ChaosEntry[], actions: ChaosActions) {
    this.#actions = actions;
    this.#entries = script.map((entry) => ({ entry, sent: false, admittedAtStep: null, firedAtStep: null }));
    this.#awaited = script.filter(({ kind }) => kind === 'join').length;
    if (this.#awaited > 0) actions.holdLastStep(true);
  }

  /** From now on donors may be missing who come back, or are on their way. */
  get hasBegun(): boolean {
    return this.#entries.some(({ sent }) => sent);
  }

  /** After each change of the run. */
  seen(run: Omit<Seen, 'nowMs'>): void {
    this.#costs.see({ ...run, nowMs: this.#actions.nowMs() });
  }

  /** After each change of the run that has a step in progress. */
  stepAnnounced(step: number): void {
    if (this.#ended) return;
    this.#step = step;
    for (const entry of this.#entries) if (!entry.sent && entry.entry.step <= step) this.#send(entry);
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
    return this.#costs.of(
      this.#entries
        .filter(({ firedAtStep, admittedAtStep }) => (firedAtStep ?? admittedAtStep) !== null)
        .map(({ entry }) => entry),
    );
  }

  /** The step being done; one that a roll-back took back meanwhile stands for those done again up to it. */
  #stepOf({ entry }: Sent): number {
    return Math.max(this.#step, entry.step);
  }

  #send(sent: Sent): void {
    sent.sent = true;
    const { kind } = sent.entry;
    // A newcomer costs something from its admission on, a liar from its first lie on.
    if (kind !== 'join' && kind !== 'nan') this.#begins(sent);
    const fired = (took: boolean): void => {
      if (!took || this.#ended) return;
      sent.firedAtStep = this.#stepOf(sent);
      if (kind === 'nan') this.#begins(sent);
    };
    this.#do(sent).then(fired, () => fired(false));
  }

  #begins({ entry }: Sent): void {
    this.#costs.begin(entry, 'donor' in entry ? this.#actions.peerOf(entry.donor) : null, this.#actions.nowMs());
  }

  #do(sent: Sent): Promise<boolean> {
    const { entry } = sent;
    switch (entry.kind) {
      case 'kill':
        return this.#actions.kill(entry.donor);
      case 'gpu-lost':
        return this.#actions.loseGpu(entry.donor);
      case 'mute':
        return this.#actions.mute(entry.donor);
      case 'leave':
        return this.#actions.leave(entry.donor);
      case 'freeze':
        return this.#actions.freeze(entry.donor, entry.seconds);
      case 'cut':
        return this.#actions.cut(entry.donor, entry.seconds);
      case 'slow':
        return this.#actions.slow(entry.donor, entry.factor);
      case 'nan':
        return this.#actions.sendNaN(entry.donor, entry.step);
      case 'server-kill':
        return this.#actions.killServer();
      case 'join':
        return this.#actions.join((peer) => {
          if (peer !== null && !this.#ended) {
            sent.admittedAtStep = this.#stepOf(sent);
            this.#costs.begin(entry, peer, this.#actions.nowMs());
          }
          this.#awaited--;
          if (this.#awaited === 0) this.#actions.holdLastStep(false);
        });
    }
  }
}
