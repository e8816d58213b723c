/**
 * What happened in a run, for the operator: a shell around the store that turns effects and reports into events and
 * timelines. It only listens. Spans are written in batches, so that a step costs no transaction of its own.
 */

import type { PeerId } from '../../swarm/base.ts';
import type { Effect } from '../../swarm/coordinator/events.ts';
import type { PeerMessage, ReportMessage } from '../../swarm/messages/messages.ts';
import { type Happened, type WatchedEvent, watchedEventSchema } from '../../swarm/messages/watch.ts';
import { type Plan, peers } from '../../swarm/plan/plan.ts';
import { aligned } from '../../swarm/timeline/alignment.ts';
import type { ReportedSpan } from '../../swarm/timeline/measured.ts';
import { rowsOf } from '../../swarm/timeline/rows.ts';
import { bubbleRatio } from '../../swarm/timeline/timeline.ts';
import type { Connection } from '../donors/connectedDonors.ts';
import { type EventRow, OPERATOR_EVENT, type TraceRow } from '../store/operatorStore.ts';
import type { Store } from '../store/store.ts';

/** Steps whose spans wait to be written together. */
const BATCH = 16;

type FaultMessage = Extract<PeerMessage, { type: 'fault' }>;

/** Its kind is a column of its own. */
export function addHappened(store: Store, run: string, happened: Happened, nowMs: number, step: number): void {
  const { kind, ...detail } = happened;
  store.addEvent(run, kind, JSON.stringify(detail), nowMs, step);
}

export class RunHistory {
  readonly #store: Store;
  readonly #name: string;
  readonly #now: () => number;
  /** Spans of the step that is being reported, by peer. */
  #reports = new Map<PeerId, readonly ReportedSpan[]>();
  readonly #left = new Set<PeerId>();
  /** Faults that each donor told of since it came, and the plan under which it last did. */
  readonly #faults = new Map<PeerId, { readonly count: number; readonly epoch: number }>();
  #reported = '';
  #plan: { readonly epoch: number; readonly plan: Plan } | null = null;
  #unsaved: TraceRow[] = [];
  /** Of the newest commit: donors hear of it first. */
  #untraced: (() => void) | null = null;

  constructor(store: Store, name: string, now: () => number) {
    this.#store = store;
    this.#name = name;
    this.#now = now;
  }

  /** The one that was announced last. */
  get plan(): { readonly epoch: number; readonly plan: Plan } | null {
    return this.#plan;
  }

  #add(happened: Happened, step: number): void {
    addHappened(this.#store, this.#name, happened, this.#now(), step);
  }

  joined({ peer, adapter, member }: Connection, step: number): void {
    if (member !== null) this.#store.linkMember(this.#name, peer, member);
    const { vendor, architecture, description } = adapter;
    this.#add({ kind: 'joined', peer, adapter: { vendor, architecture, description } }, step);
  }

  /** Of each donor one event a plan: whatever it says, it fills no store. */
  faulted(peer: PeerId, { reason, about, detail }: FaultMessage, step: number): void {
    const epoch = this.#plan?.epoch ?? 0;
    const isNews = this.#faults.get(peer)?.epoch !== epoch;
    this.#faults.set(peer, { count: this.faults(peer) + 1, epoch });
    if (isNews) this.#add({ kind: 'fault', peer, reason, about, detail }, step);
  }

  faults(peer: PeerId): number {
    return this.#faults.get(peer)?.count ?? 0;
  }

  gone(peer: PeerId, detail: string, step: number): void {
    this.#faults.delete(peer);
    // Who left by its button closes its connection behind it.
    if (!this.#left.delete(peer)) this.#add({ kind: 'gone', peer, detail }, step);
  }

  reported(peer: PeerId, { epoch, step, spans }: ReportMessage): void {
    const key = `${epoch} ${step}`;
    if (key !== this.#reported) this.#reports = new Map();
    this.#reported = key;
    this.#reports.set(peer, spans);
  }

  /** Before the effect is performed; `step`: committed steps. */
  performing(effect: Effect, step: number): void {
    switch (effect.type) {
      case 'storeEpoch': {
        const { epoch, reason, plan } = effect;
        this.#plan = { epoch, plan };
        const { stages, microBatches, schedule } = plan;
        const counts = { donors: peers(plan).length, stages: stages.length, microBatches: microBatches.length };
        this.#add({ kind: 'plan', epoch, reason, ...counts, schedule }, step);
        return;
      }
      case 'storeCommit':
        this.#traceLater(effect.record.step, effect.record.plan);
        return;
      case 'storeCheckpoint':
        this.#add({ kind: 'checkpoint' }, effect.step);
        return;
      case 'rollBack':
        this.#traceNow();
        this.#unsaved = this.#unsaved.filter((trace) => trace.step < effect.toStep);
        return;
      case 'finished':
        this.#add({ kind: 'finished' }, step);
        return;
      case 'send':
        if (effect.message.type !== 'standby' || effect.message.state !== 'left') return;
        this.#left.add(effect.to);
        this.#add({ kind: 'left', peer: effect.to }, step);
    }
  }

  /** Newer than what the store has; the store's own are read there. */
  trace(step: number): TraceRow | null {
    this.#traceNow();
    return this.#unsaved.findLast((trace) => trace.step <= step) ?? this.#store.trace(this.#name, step);
  }

  range(): readonly [number, number] | null {
    this.#traceNow();
    const stored = this.#store.traceRange(this.#name);
    const [oldest, newest] = [this.#unsaved[0], this.#unsaved.at(-1)];
    if (!oldest || !newest) return stored;
    return [stored?.[0] ?? oldest.step, newest.step];
  }

  bubbles(from: number): Map<number, number> {
    this.#traceNow();
    const all = this.#store.bubbles(this.#name, from);
    for (const { step, bubble } of this.#unsaved) all.set(step, bubble);
    return all;
  }

  flush(): void {
    this.#traceNow();
    this.#save();
  }

  #save(): void {
    if (this.#unsaved.length > 0) this.#store.saveTraces(this.#name, this.#unsaved);
    this.#unsaved = [];
  }

  #traceLater(step: number, epoch: number): void {
    this.#traceNow();
    const plan = this.#plan?.epoch === epoch ? this.#plan.plan : null;
    const reports = this.#reports;
    if (plan === null || this.#reported !== `${epoch} ${step}`) return;
    this.#untraced = () => this.#trace(step, epoch, plan, reports);
    setImmediate(() => this.#traceNow());
  }

  #traceNow(): void {
    const trace = this.#untraced;
    this.#untraced = null;
    trace?.();
    if (this.#unsaved.length >= BATCH) this.#save();
  }

  #trace(step: number, epoch: number, plan: Plan, reports: ReadonlyMap<PeerId, readonly ReportedSpan[]>): void {
    const timeline = aligned(plan, reports);
    if (timeline.length === 0) return;
    const computing = [...new Set(plan.stages.flatMap(({ members }) => members.map(({ peer }) => peer)))];
    const bubble = Math.max(0, bubbleRatio(timeline, computing));
    this.#unsaved.push({ step, epoch, bubble, spans: JSON.stringify(rowsOf(timeline)) });
  }
}

/** Of a kind that only the server knows, or written by another version: nothing. */
export function eventOf({ detail, ...row }: EventRow): WatchedEvent[] {
  const event = watchedEventSchema.safeParse({ ...JSON.parse(detail), ...row });
  return event.success ? [event.data] : [];
}

/** One line of the audit. */
export function audit(store: Store, run: string, what: string, session: string, step: number, nowMs: number): void {
  addHappened(store, run, { kind: OPERATOR_EVENT, what, session }, nowMs, step);
}
