/**
 * The epochs of a session: each is a queue of work, one piece after the other, and one abort. A new epoch's work begins
 * when that of the one before has ended, so nothing of two plans ever runs at once.
 */
import type { PeerId } from '../../../swarm/base.ts';
import { NoRoom } from '../../../swarm/memory/bufferSpec.ts';

/** One epoch: aborted as a whole. */
export interface Epoch {
  readonly number: number;
  readonly abort: AbortController;
  /** Everything done for this epoch, one after the other; never rejects. */
  work: Promise<void>;
  /** The one whose work this one waits for. */
  before: Epoch | null;
  /** Why it ended here, or the one did whose state it begins with; null: nothing was wrong. */
  fault: Fault | null;
}

type FaultReason = 'linkLost' | 'outOfMemory' | 'badFrame' | 'internal' | 'noPacket' | 'notPublished';
/** What another peer sent makes the epoch fail. */
export class BadTensorError extends Error {
  readonly from: PeerId;
  constructor(from: PeerId, sentence: string) {
    super(sentence);
    this.from = from;
  }
}

/** The step before was committed and updated here, but broken off before all its new values had come. */
export class ValuesMissing extends Error {}

/** Of main memory: "Array buffer allocation failed" in Chromium, "out of memory" in others. Other ranges are our own errors. */
const isOutOfMemory = (error: unknown): boolean =>
  error instanceof RangeError && /allocation failed|out of memory/i.test(error.message);

type Fault = readonly [reason: FaultReason, detail: string, about?: PeerId];
type TellFault = (epoch: number, ...fault: readonly [...Fault, attempt?: number]) => void;

export class Epochs {
  readonly #tellFault: TellFault;
  #current: Epoch | null = null;

  constructor(tellFault: TellFault) {
    this.#tellFault = tellFault;
  }

  get current(): Epoch | null {
    return this.#current;
  }

  /** Leaves the epoch in progress and begins another with its first piece of work. */
  begin(number: number, completing: number | null, work: (epoch: Epoch) => Promise<void>): void {
    this.leave(completing);
    const before = this.#current;
    const epoch: Epoch = {
      number,
      abort: new AbortController(),
      work: Promise.resolve(),
      before,
      fault: before?.fault ?? null,
    };
    this.#current = epoch;
    epoch.work = (before?.work ?? Promise.resolve()).then(() => {
      epoch.before = null;
      return this.#guard(epoch, () => work(epoch));
    });
  }

  /** A further piece of an epoch's work; nothing where it is not the one in progress. */
  enqueue(number: number, work: (epoch: Epoch) => Promise<void>): void {
    const epoch = this.#current;
    if (epoch?.number !== number) return;
    epoch.work = epoch.work.then(() => this.#guard(epoch, () => work(epoch)));
  }

  /** What a commit asked for is done even if the epoch is abandoned meanwhile (CO22). */
  enqueueAlways(work: () => Promise<void>): void {
    const epoch = this.#current;
    if (!epoch) return;
    epoch.work = epoch.work.then(work).catch((error: unknown) => this.#failed(epoch, error));
  }

  /** When everything in progress has ended. */
  afterwards(then: () => void): void {
    const done = (this.#current?.work ?? Promise.resolve()).then(then);
    if (this.#current) this.#current.work = done;
  }

  abandon(number: number, detail: string): void {
    if (this.#current?.number === number) this.#current.abort.abort(new Error(detail));
  }

  /** Aborts what is in progress, but for the epoch that completes a committed step before it hands over. */
  leave(completing: number | null = null): void {
    for (let epoch = this.#current; epoch; epoch = epoch.before) {
      if (epoch.number !== completing) epoch.abort.abort(new Error('the step was abandoned'));
    }
  }

  /** The epoch cannot go on here: told once; false: it had been given up before. */
  fault(epoch: Epoch, reason: FaultReason, detail: string, about?: PeerId): boolean {
    if (epoch.abort.signal.aborted) return false;
    epoch.abort.abort(new Error(detail));
    epoch.fault = about === undefined ? [reason, detail] : [reason, detail, about];
    this.#tellFault(epoch.number, reason, detail, about);
    return true;
  }

  /** Runs a piece of an epoch, unless it was left meanwhile. */
  async #guard(epoch: Epoch, work: () => Promise<void>): Promise<void> {
    if (epoch.abort.signal.aborted) return;
    try {
      await work();
      if (!epoch.abort.signal.aborted) epoch.fault = null;
    } catch (error) {
      this.#failed(epoch, error);
    }
  }

  /** An attempt at a meeting failed, not the epoch's steps, which go on. */
  tell({ epoch, attempt }: { readonly epoch: number; readonly attempt: number }, [reason, detail, about]: Fault): void {
    this.#tellFault(epoch, reason, detail, about, attempt);
  }

  #failed(epoch: Epoch, error: unknown): void {
    // What broke the step off is what is wrong, whoever asks for the state next.
    this.fault(epoch, ...((error instanceof ValuesMissing && epoch.fault) || faultOf(error)));
  }
}

export function faultOf(error: unknown): Fault {
  if (error instanceof BadTensorError) return ['badFrame', error.message, error.from];
  if (error instanceof NoRoom) return ['outOfMemory', error.message];
  return [isOutOfMemory(error) ? 'outOfMemory' : 'internal', String(error)];
}
