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
interface Seen {
  readonly nowMs: number;
  readonly epoch: number;
  /** Why that epoch began. */
  readonly epochReason: string;
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

/** Another epoch is its doing only where the reason of that epoch names its donor. */
const isAlwaysNamed = ({ kind }: ChaosEntry): boolean => kind === 'slow' || kind === 'leave' || kind === 'join';

const names = (reason: string, peer: string | null): boolean =>
  peer !== null && reason.split(/[\s,:;.]+/).includes(peer);

export class FaultCosts {
  #faults: Fault[] = [];
  #last: Seen | null = null;
  /** The newest epoch, where a newcomer may still say that it is its own. */
  #arrival: { readonly nowMs: number; readonly reason: string; readonly moved: number } | null = null;

  begin(entry: ChaosEntry, peer: string | null, nowMs: number): void {
    // A newcomer's epoch may have begun before this side heard of its admission.
    const arrival = entry.kind === 'join' && names(this.#arrival?.reason ?? '', peer) ? this.#arrival : null;
    this.#faults.push({
      ...{ entry, peer, sinceMs: arrival?.nowMs ?? nowMs, detectedMs: arrival?.nowMs ?? null, resumedMs: null },
      ...{ stepsGivenUp: 0, bytesMoved: arrival?.moved ?? 0 },
    });
    if (arrival !== null) this.#arrival = null;
  }

  /** After each change of the run. */
  see(seen: Seen): void {
    const last = this.#last ?? seen;
    this.#last = seen;
    // A server that was started again counts anew.
    const moved = seen.movedBytes - (seen.movedBytes < last.movedBytes ? 0 : last.movedBytes);
    const givenUp = Math.max(0, last.committedSteps - seen.committedSteps);
    const detected = new Set(this.#faults.filter((fault) => isLoss(fault.entry) && isGone(fault, seen)));
    let isArrival = false;
    let cause: Fault | null = null;
    if (seen.epoch > last.epoch) {
      cause = this.#causeOf(seen);
      isArrival = cause === null && seen.epochReason.includes(' joins');
      this.#arrival = isArrival ? { nowMs: seen.nowMs, reason: seen.epochReason, moved } : null;
      if (cause?.detectedMs === null && !isLoss(cause.entry)) detected.add(cause);
    }
    for (const fault of detected) {
      fault.detectedMs = seen.nowMs;
      fault.resumedMs = null; // what was committed meanwhile was under way before
    }
    const owner = isArrival ? null : (cause ?? this.#newestOpen());
    if (owner !== null) {
      owner.bytesMoved += moved;
      owner.stepsGivenUp += givenUp;
    }
    // A commit that came with the next epoch was its last boundary's.
    if (seen.committedSteps <= last.committedSteps) return;
    for (const fault of this.#faults) if (!detected.has(fault)) fault.resumedMs ??= seen.nowMs;
  }

  forget(entry: ChaosEntry): void {
    this.#faults = this.#faults.filter((fault) => fault.entry !== entry);
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

  /** Whose doing the epoch is: of those whose donor its reason names the newest, else of those that need no naming. */
  #causeOf({ epochReason }: Seen): Fault | null {
    const named = this.#faults.findLast(({ peer, detectedMs, resumedMs }) => {
      return names(epochReason, peer) && (detectedMs === null || resumedMs === null);
    });
    if (named !== undefined) return named;
    const isArrival = epochReason.includes(' joins');
    const unnamed = ({ entry, detectedMs }: Fault): boolean =>
      // All who come back to a server that was started again join.
      detectedMs === null && !isLoss(entry) && !isAlwaysNamed(entry) && (!isArrival || entry.kind === 'server-kill');
    return this.#faults.findLast(unnamed) ?? null;
  }

  /** The newest of those that are not got over: what is known to have happened first. */
  #newestOpen(): Fault | null {
    const open = this.#faults.filter(({ resumedMs }) => resumedMs === null);
    const known = open.findLast(({ detectedMs }) => detectedMs !== null);
    return known ?? open.findLast(({ entry }) => !isAlwaysNamed(entry)) ?? null;
  }
}

const isGone = ({ peer, detectedMs }: Fault, { peers }: Seen): boolean =>
  detectedMs === null && peer !== null && !peers.has(peer);
