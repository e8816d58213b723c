/**
 * What a donor is told of its own work, measured where it is done: the share of the last minute that its GPU was busy,
 * bytes both ways, and what its newest step was made of. Everything is noted when it begins and when it ends, and
 * nothing is sampled. Seconds of the worker's clock.
 */
import type { PeerId } from '../../../swarm/base.ts';
import { MOST_SPANS_BEHIND, type ReportMessage, type StepProgress } from '../../../swarm/messages/messages.ts';
import type { Plan } from '../../../swarm/plan/plan.ts';
import { type ComputeAction, isTurnEnd } from '../../../swarm/schedule/action.ts';
import type { BesideSpan } from '../../../swarm/timeline/beside.ts';
import { type Interval, lengthSeconds, shifted, type Timeline } from '../../../swarm/timeline/timeline.ts';
import { LEAST_WAIT_SECONDS, type Wait } from '../../../swarm/timeline/waits.ts';
import { besideReported } from './besideLog.ts';
import type { DonorStatus } from './protocol.ts';

/** Over so much of the past the busy share is taken. */
export const BUSY_WINDOW_SECONDS = 60;
/** The page draws no more than this of a step; the shortest are left out. */
const TRACE_LIMIT = 200;
/** Of those whom a step waits for a heartbeat names no more. */
const MOST_AWAITED = 16;

/** The union of the spans of work that overlap in a GPU's queue. */
export class BusyMeter {
  readonly #now: () => number;
  #busy: Interval[] = [];
  #open = 0;
  #openSince = 0;
  /** Of what is open, or was over meanwhile. */
  #idleSeconds = 0;
  #firstAt: number | null = null;

  constructor(now: () => number) {
    this.#now = now;
  }

  begin(): void {
    if (this.#open === 0) this.#openSince = this.#now();
    this.#firstAt ??= this.#openSince;
    this.#open += 1;
  }

  /** `idleSeconds`: of this work those in which the GPU stood still. */
  end(idleSeconds = 0): void {
    this.#open -= 1;
    this.#idleSeconds += idleSeconds;
    if (this.#open > 0) return;
    const now = this.#now();
    this.#busy = this.#busy.filter(({ endSeconds }) => endSeconds > now - BUSY_WINDOW_SECONDS);
    this.#busy.push({ startSeconds: Math.min(now, this.#openSince + this.#idleSeconds), endSeconds: now });
    this.#idleSeconds = 0;
  }

  /** Of the last minute, or of the time since the first work; null before. */
  get share(): number | null {
    const now = this.#now();
    if (this.#firstAt === null || now <= this.#firstAt) return null;
    const from = Math.max(this.#firstAt, now - BUSY_WINDOW_SECONDS);
    const open = this.#open > 0 ? [{ startSeconds: this.#openSince, endSeconds: now }] : [];
    const seconds = [...this.#busy, ...open].reduce(
      (sum, { startSeconds, endSeconds }) => sum + Math.max(0, endSeconds - Math.max(startSeconds, from)),
      0,
    );
    return seconds / (now - from);
  }
}

interface Recording {
  readonly epoch: number;
  readonly step: number;
  readonly begun: number;
  readonly bytesBefore: number;
  readonly waits: Wait[];
}

/** A step's exchange comes in bursts: over so much of the past the mean is taken. */
const WINDOW_SECONDS = 10;

/** Bytes a second of a stream, over the newest seconds: what is under way is counted, nothing is sampled. */
export class RateWindow {
  readonly #now: () => number;
  /** Whole seconds of the clock, each with its bytes, oldest first. */
  #seconds: { readonly second: number; bytes: number }[] = [];
  #mostBytes = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  add(bytes: number): void {
    const second = Math.floor(this.#now());
    const newest = this.#seconds.at(-1);
    if (newest?.second === second) newest.bytes += bytes;
    else this.#seconds = [...this.#recent(second), { second, bytes }];
    this.#mostBytes = Math.max(this.#mostBytes, this.#seconds.at(-1)?.bytes ?? 0);
  }

  /** The mean of the newest whole seconds. */
  get bytesPerSecond(): number {
    const second = Math.floor(this.#now());
    const whole = this.#recent(second).filter((one) => one.second < second);
    return whole.reduce((sum, { bytes }) => sum + bytes, 0) / WINDOW_SECONDS;
  }

  /** The most that any second had. */
  get most(): number {
    return this.#mostBytes;
  }

  #recent(second: number) {
    return this.#seconds.filter((one) => one.second >= second - WINDOW_SECONDS);
  }
}

export class Meter {
  readonly busy: BusyMeter;
  readonly #now: () => number;
  readonly #showStatus: (status: DonorStatus) => void;
  readonly #sentRate: RateWindow;
  readonly #receivedRate: RateWindow;
  #recording: Recording | null = null;
  /** The step that was begun last, also when it is over: between two a member still has something to say. */
  #at: { readonly epoch: number; readonly step: number } | null = null;
  /** The plan that it gets ready for; null: its first step is begun. */
  #preparing: { readonly epoch: number; readonly step: number } | null = null;
  /** Whose tensors are awaited. */
  readonly #awaited: PeerId[] = [];
  /** Who has not yet taken what is sent to it. */
  readonly #takers: PeerId[] = [];
  /** Sent and received of files: they are no part of what a step moves. */
  #fileBytes = 0;
  #behind: { readonly step: number; readonly spans: readonly BesideSpan[] } | null = null;
  /** Pieces that the GPU has still to hand out, beside what the step stands still for. */
  #readingBack = 0;
  #done = 0;
  #hasReported = false;
  /** Since the step that was begun last, or the plan that it got ready for. */
  #hasEvaluated = false;
  #status: DonorStatus = {
    ...{
      activity: 'idle',
      step: null,
      stages: [],
      gpuMemoryBytes: 0,
      droppedFrames: 0,
      answeredRows: 0,
      busyShare: null,
    },
    ...{ bytesSent: 0, bytesReceived: 0, microBatches: { done: 0, all: 0 }, waitsFor: null, lastStep: null },
    ...{ direction: null, stageCount: 0, rates: { sent: 0, received: 0, mostReceived: 0 } },
  };

  constructor(now: () => number, showStatus: (status: DonorStatus) => void) {
    this.#now = now;
    this.#showStatus = showStatus;
    this.busy = new BusyMeter(now);
    this.#sentRate = new RateWindow(now);
    this.#receivedRate = new RateWindow(now);
  }

  get #bytes(): number {
    return this.#status.bytesSent + this.#status.bytesReceived - this.#fileBytes;
  }

  /** How far the plan or the step that was begun last is here; null: none was. */
  get progress(): StepProgress | null {
    const at = this.#preparing ?? this.#at;
    if (at === null) return null;
    // As long as something of its own is not done others may be waiting for that.
    const others = this.#readingBack > 0 ? [] : [...this.#awaited, ...this.#takers];
    const waitsFor = [...new Set(others)].slice(0, MOST_AWAITED);
    const hasReported = this.#preparing === null && this.#hasReported;
    return { ...at, done: this.#done, waitsFor, hasReported, ...(this.#hasEvaluated && { hasEvaluated: true }) };
  }

  /** For the next report: this one went before it. Null: nothing was done behind it, or that is told. */
  get behind(): ReportMessage['behind'] | null {
    if (this.#behind === null) return null;
    const { step, spans } = this.#behind;
    return { step, spans: spans.map(besideReported) };
  }

  didBehind(step: number, span: BesideSpan): void {
    // What was over too late for the report of the step after is told no more.
    if (this.#behind !== null && ![this.#behind.step, this.#at?.step].includes(step)) return;
    const before = this.#behind?.step === step ? this.#behind.spans : [];
    this.#behind = { step, spans: [...before, span].slice(0, MOST_SPANS_BEHIND) };
  }

  /** Of groups that meet apart from their steps: behind this donor's newest step. */
  async meeting<T>(peer: PeerId, held: Promise<T>): Promise<T> {
    const startSeconds = this.#now();
    const outcome = await held;
    const span = { peer, action: { op: 'MEET' as const }, startSeconds, endSeconds: this.#now() };
    if (this.#at !== null) this.didBehind(this.#at.step, span);
    return outcome;
  }

  /** Now and then: what time alone changes is shown, and what a heartbeat says is told. */
  beat(): StepProgress | null {
    this.show({});
    return this.progress;
  }

  show(change: Partial<DonorStatus>): void {
    const rates = {
      sent: this.#sentRate.bytesPerSecond,
      received: this.#receivedRate.bytesPerSecond,
      mostReceived: this.#receivedRate.most,
    };
    this.#status = { ...this.#status, ...change, busyShare: this.busy.share, rates };
    this.#showStatus(this.#status);
  }

  /** Counted at once, shown with whatever is shown next. */
  sent(bytes: number): void {
    this.#done += 1;
    this.#sentRate.add(bytes);
    this.#status = { ...this.#status, bytesSent: this.#status.bytesSent + bytes };
  }

  received(bytes: number): void {
    this.#done += 1;
    this.#receivedRate.add(bytes);
    this.#status = { ...this.#status, bytesReceived: this.#status.bytesReceived + bytes };
  }

  /** So many tokens of answers went through the stages here. */
  answered(rows: number): void {
    this.show({ answeredRows: this.#status.answeredRows + rows });
  }

  /** So many bytes of what is counted otherwise are a file's. */
  ofFile(bytes: number): void {
    this.#fileBytes += bytes;
  }

  /** For another plan: from now on nothing is shown of this tab's part in the one before. */
  prepare({ stages }: Plan, peer: PeerId, epoch: number, step: number): void {
    this.#preparing = { epoch, step };
    this.#hasEvaluated = false;
    const own = stages.flatMap(({ layers, members }, stage) =>
      members.some((member) => member.peer === peer) ? [{ stage, layers }] : [],
    );
    const microBatches = { done: 0, all: 0 };
    this.show({ activity: 'preparing', step, stages: own, stageCount: stages.length, microBatches });
  }

  /** A training step of this tab, with so many micro-batches to carry backward. */
  begin(epoch: number, step: number, microBatches: number): void {
    this.#done = 0;
    this.#hasReported = false;
    this.#hasEvaluated = false;
    this.#preparing = null;
    this.#at = { epoch, step };
    this.#recording = { epoch, step, begun: this.#now(), bytesBefore: this.#bytes, waits: [] };
    this.show({ activity: 'computing', step, microBatches: { done: 0, all: microBatches }, direction: null });
  }

  /** This tab's part of the evaluation after so many steps. */
  async evaluating<T>(steps: number, work: () => Promise<T>): Promise<T> {
    this.show({ activity: 'evaluating', step: steps });
    const outcome = await work();
    this.#hasEvaluated = true;
    this.show({ activity: 'waiting' });
    return outcome;
  }

  computed({ op }: ComputeAction): void {
    this.#done += 1;
    const { done, all } = this.#status.microBatches;
    const isDone = this.#recording !== null && op === 'B';
    this.show({
      microBatches: { done: done + (isDone ? 1 : 0), all },
      // What is computed again is for the backward.
      direction: op === 'F' ? 'forward' : 'backward',
    });
  }

  reported(): void {
    this.#hasReported = true;
  }

  /** What a step tells of itself beside its status. */
  ofStep(step: number) {
    return {
      computed: (action: ComputeAction) => this.computed(action),
      awaited: (from: PeerId, coming: Promise<void>) => this.awaited(from, coming),
      readingBack: (read: Promise<unknown>) => void this.#readBack(read),
      behind: () => this.behind,
      didBehind: (span: BesideSpan) => this.didBehind(step, span),
    };
  }

  async #readBack(read: Promise<unknown>): Promise<void> {
    this.#readingBack++;
    await read.catch(() => undefined); // whose reading it is hears of it
    this.#readingBack--;
  }

  /** What the step stands still for, until it is there. */
  async awaited<T>(peer: PeerId | null, coming: Promise<T>): Promise<T> {
    const recording = this.#recording;
    const start = this.#now();
    if (peer !== null) this.#awaited.push(peer);
    this.show({ waitsFor: peer });
    try {
      return await coming;
    } finally {
      const wait = { peer, startSeconds: start, endSeconds: this.#now() };
      // What was here already when it was asked for was not waited for.
      if (lengthSeconds(wait) >= LEAST_WAIT_SECONDS) recording?.waits.push(wait);
      if (peer !== null) this.#awaited.splice(this.#awaited.indexOf(peer), 1);
      this.#status = { ...this.#status, waitsFor: this.#awaited.at(-1) ?? null };
    }
  }

  /** Beside the step's work: until a peer has taken all of it. */
  async sending(to: PeerId, sent: Promise<void>): Promise<void> {
    this.#takers.push(to);
    try {
      await sent;
    } finally {
      this.#takers.splice(this.#takers.indexOf(to), 1);
    }
  }

  /** The step is committed and applied here. */
  end(timeline: Timeline): void {
    const recording = this.#recording;
    this.#recording = null;
    if (!recording) return;
    const { epoch, step, begun, bytesBefore, waits } = recording;
    const behind = this.#behind?.step === step ? this.#behind.spans : [];
    // Of a step before, and this one's report told of it.
    if (behind.length === 0) this.#behind = null;
    const ends = behind.flatMap(({ action, ...span }) => (isTurnEnd(action) ? [{ ...span, action }] : []));
    const measured = { seconds: this.#now() - begun, bytes: this.#bytes - bytesBefore };
    const spans = longest([...timeline, ...ends], begun);
    const lastStep = { epoch, step, ...measured, spans, waits: longest(waits, begun) };
    this.show({ activity: 'waiting', lastStep });
  }

  /** What was recorded of a step that is given up is no step's. */
  drop(): void {
    this.#at = null;
    this.#preparing = null;
    this.#recording = null;
    this.#status = { ...this.#status, waitsFor: null };
  }
}

/** Those that are drawn, in seconds from then on. */
function longest<T extends Interval>(intervals: readonly T[], from: number): readonly T[] {
  const kept = intervals.toSorted((a, b) => lengthSeconds(b) - lengthSeconds(a)).slice(0, TRACE_LIMIT);
  return kept.sort((a, b) => a.startSeconds - b.startSeconds).map((interval) => shifted(interval, -from));
}
