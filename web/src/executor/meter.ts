/**
 * What a donor is told of its own work, measured where it is done: the share of the last minute that its GPU was busy,
 * bytes both ways, and what its newest step was made of. The one idea: everything is noted when it begins and when it
 * ends, and nothing is sampled. Seconds of the worker's clock.
 */
import type { PeerId } from '../../../swarm/base.ts';
import type { ReportMessage } from '../../../swarm/messages/messages.ts';
import type { DonorStatus } from './protocol.ts';

type Span = ReportMessage['spans'][number];

/** Over so much of the past the busy share is taken. */
export const BUSY_WINDOW_SECONDS = 60;
/** The page draws no more than this of a step; the shortest are left out. */
const TRACE_LIMIT = 200;
/** What was here already when it was asked for was not waited for. */
const LEAST_WAIT_SECONDS = 0.002;

interface Stretch {
  readonly start: number;
  readonly end: number;
}

/** The union of the spans of work that overlap in a GPU's queue. */
export class BusyMeter {
  readonly #now: () => number;
  #stretches: Stretch[] = [];
  #open = 0;
  #openSince = 0;
  #firstAt: number | null = null;

  constructor(now: () => number) {
    this.#now = now;
  }

  begin(): void {
    if (this.#open === 0) this.#openSince = this.#now();
    this.#firstAt ??= this.#openSince;
    this.#open += 1;
  }

  end(): void {
    this.#open -= 1;
    if (this.#open > 0) return;
    const now = this.#now();
    this.#stretches = this.#stretches.filter(({ end }) => end > now - BUSY_WINDOW_SECONDS);
    this.#stretches.push({ start: this.#openSince, end: now });
  }

  /** Of the last minute, or of the time since the first work; null before. */
  get share(): number | null {
    const now = this.#now();
    if (this.#firstAt === null || now <= this.#firstAt) return null;
    const from = Math.max(this.#firstAt, now - BUSY_WINDOW_SECONDS);
    const stretches = this.#open > 0 ? [...this.#stretches, { start: this.#openSince, end: now }] : this.#stretches;
    const busy = stretches.reduce((sum, { start, end }) => sum + Math.max(0, end - Math.max(start, from)), 0);
    return busy / (now - from);
  }
}

interface Recording {
  readonly epoch: number;
  readonly step: number;
  readonly begun: number;
  readonly bytesBefore: number;
  readonly spans: Span[];
  readonly waits: (Stretch & { readonly peer: PeerId | null })[];
}

export class Meter {
  readonly busy: BusyMeter;
  readonly #now: () => number;
  readonly #showStatus: (status: DonorStatus) => void;
  #recording: Recording | null = null;
  #status: DonorStatus = {
    ...{ activity: 'idle', step: null, stages: [], gpuMemoryBytes: 0, droppedFrames: 0, busyShare: null },
    ...{ bytesSent: 0, bytesReceived: 0, microBatches: { done: 0, all: 0 }, waitsFor: null, lastStep: null },
    direction: null,
  };

  constructor(now: () => number, showStatus: (status: DonorStatus) => void) {
    this.#now = now;
    this.#showStatus = showStatus;
    this.busy = new BusyMeter(now);
  }

  get #bytes(): number {
    return this.#status.bytesSent + this.#status.bytesReceived;
  }

  show(change: Partial<DonorStatus>): void {
    this.#status = { ...this.#status, ...change, busyShare: this.busy.share };
    this.#showStatus(this.#status);
  }

  /** Counted at once, shown with whatever is shown next. */
  sent(bytes: number): void {
    this.#status = { ...this.#status, bytesSent: this.#status.bytesSent + bytes };
  }

  received(bytes: number): void {
    this.#status = { ...this.#status, bytesReceived: this.#status.bytesReceived + bytes };
  }

  /** A training step of this tab, with so many micro-batches to carry backward. */
  begin(epoch: number, step: number, microBatches: number): void {
    this.#recording = { epoch, step, begun: this.#now(), bytesBefore: this.#bytes, spans: [], waits: [] };
    this.show({ activity: 'computing', step, microBatches: { done: 0, all: microBatches }, direction: null });
  }

  computed(span: Span): void {
    const begun = this.#recording?.begun ?? span.start;
    this.#recording?.spans.push({ ...span, start: span.start - begun, end: span.end - begun });
    const { done, all } = this.#status.microBatches;
    const isDone = this.#recording !== null && /^\d+B/.test(span.action);
    this.show({
      microBatches: { done: done + (isDone ? 1 : 0), all },
      // What is computed again is for the backward.
      direction: /^\d+F/.test(span.action) ? 'forward' : 'backward',
    });
  }

  /** What the step stands still for, until it is there. */
  async awaited<T>(peer: PeerId | null, coming: Promise<T>): Promise<T> {
    const recording = this.#recording;
    const start = this.#now();
    this.show({ waitsFor: peer });
    try {
      return await coming;
    } finally {
      const end = this.#now();
      const begun = recording?.begun ?? 0;
      if (end - start >= LEAST_WAIT_SECONDS) recording?.waits.push({ peer, start: start - begun, end: end - begun });
      this.#status = { ...this.#status, waitsFor: null };
    }
  }

  /** The step is committed and applied here. */
  end(): void {
    const recording = this.#recording;
    this.#recording = null;
    if (!recording) return;
    const { epoch, step, begun, bytesBefore, spans, waits } = recording;
    const measured = { seconds: this.#now() - begun, bytes: this.#bytes - bytesBefore };
    const lastStep = { epoch, step, ...measured, spans: longest(spans), waits: longest(waits) };
    this.show({ activity: 'waiting', lastStep });
  }

  /** What was recorded of a step that is given up is no step's. */
  drop(): void {
    this.#recording = null;
    this.#status = { ...this.#status, waitsFor: null };
  }
}

function longest<T extends Stretch>(stretches: readonly T[]): readonly T[] {
  const kept = stretches.toSorted((a, b) => b.end - b.start - (a.end - a.start)).slice(0, TRACE_LIMIT);
  return kept.sort((a, b) => a.start - b.start);
}
