/**
 * What each fault of a script cost the run, as anyone sees it from outside: when the run noticed, when the next step
 * stood committed, how many committed steps it gave up, how many bytes the new plan moved.
 */
import type { ChaosEntry } from './chaosScript.ts';

export interface FaultCost {
  /** As in the script. */
  readonly entry: string;
  /** Until the run knew that its donor was gone, or began another epoch; null: it went on as it was. */
  readonly detectedSeconds: number | null;
  /** Until the next commit after that; null: none came. */
  readonly resumedSeconds: number | null;
  /** That stood committed. */
  readonly stepsGivenUp: number;
  /** State, from donor to donor and out of checkpoints. */
  readonly bytesMoved: number;
}

/** A run at one moment. */
export interface Seen {
  readonly nowMs: number;
  readonly epoch: number;
  readonly committedSteps: number;
  /** By all changes of plan since the server started. */
  readonly movedBytes: number;
  /** The donors that are here. */
  readonly peers: ReadonlySet<string>;
}

interface Fault {
  readonly entry: ChaosEntry;
  readonly sinceMs: number;
  /** Whom it was done to, as the server called it then. */
  readonly peer: string | null;
  detectedMs: number | null;
  resumedMs: number | null;
  stepsGivenUp: number;
  bytesMoved: number;
}

/** Its donor is gone before long, and nothing else says so. */
const isLoss = ({ kind }: ChaosEntry): boolean =>
  kind === 'kill' || kind === 'freeze' || kind === 'cut' || kind === 'gpu-lost';

export class FaultCosts {
  readonly #faults: Fault[] = [];
  #last: Seen | null = null;

  begin(entry: ChaosEntry, peer: string | null, nowMs: number): void {
    this.#faults.push({
      ...{ entry, peer, sinceMs: nowMs, detectedMs: null, resumedMs: null },
      ...{ stepsGivenUp: 0, bytesMoved: 0 },
    });
  }

  /** After each change of the run. */
  see(seen: Seen): void {
    const last = this.#last ?? seen;
    this.#last = seen;
    const detected = this.#detect(seen, last);
    // A server that was started again counts anew.
    const moved = seen.movedBytes - (seen.movedBytes < last.movedBytes ? 0 : last.movedBytes);
    for (const fault of this.#faults) {
      if (fault.resumedMs !== null) continue;
      fault.bytesMoved += moved;
      fault.stepsGivenUp += Math.max(0, last.committedSteps - seen.committedSteps);
      // A commit that came with the next epoch was its last boundary's.
      if (seen.committedSteps > last.committedSteps && !detected.has(fault)) fault.resumedMs = seen.nowMs;
    }
  }

  /** Of these entries, in their order. */
  of(entries: readonly ChaosEntry[]): FaultCost[] {
    return entries.flatMap((entry) =>
      this.#faults
        .filter((fault) => fault.entry === entry)
        .map(({ sinceMs, detectedMs, resumedMs, stepsGivenUp, bytesMoved }) => ({
          entry: entry.text,
          detectedSeconds: detectedMs === null ? null : (detectedMs - sinceMs) / 1_000,
          resumedSeconds: resumedMs === null ? null : (resumedMs - sinceMs) / 1_000,
          stepsGivenUp,
          bytesMoved,
        })),
    );
  }

  /** Another epoch is the newest fault's doing: those before it were told of by their own donor's going, or by none. */
  #detect({ nowMs, epoch, peers }: Seen, last: Seen): ReadonlySet<Fault> {
    const detected = new Set<Fault>();
    let isNewEpoch = epoch > last.epoch;
    for (const fault of this.#faults.toReversed()) {
      if (fault.detectedMs !== null) continue;
      const isFound = isLoss(fault.entry) ? fault.peer !== null && !peers.has(fault.peer) : isNewEpoch;
      isNewEpoch = false;
      if (!isFound) continue;
      fault.detectedMs = nowMs;
      fault.resumedMs = null; // what was committed meanwhile was under way before
      detected.add(fault);
    }
    return detected;
  }
}
