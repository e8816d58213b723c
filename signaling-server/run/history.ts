/**
 * What happened in a run, for the operator: a shell around the store that turns effects and reports into events and
 * timelines. It only listens. Spans are written in batches, so that a step costs no transaction of its own.
 */

import { got, type PeerId } from '../../swarm/base.ts';
import type { DecisionEffect } from '../../swarm/decisions/events.ts';
import { isRecorded } from '../../swarm/islands/rounds.ts';
import type { PeerMessage, ReportMessage } from '../../swarm/messages/messages.ts';
import type { Happened } from '../../swarm/messages/watch.ts';
import { type Plan, peers } from '../../swarm/plan/plan.ts';
import { isTurnEnd } from '../../swarm/schedule/action.ts';
import {
  aligned,
  alignedBehind,
  alignedBeside,
  type WorkEnd,
  withKeepers,
  workEnds,
} from '../../swarm/timeline/alignment.ts';
import { type BesideSpan, besideSpans } from '../../swarm/timeline/beside.ts';
import { rowsOf } from '../../swarm/timeline/rows.ts';
import { bubbleRatio } from '../../swarm/timeline/timeline.ts';
import { OPERATOR_EVENT, type TraceRow } from '../store/historyStore.ts';
import type { Store } from '../store/store.ts';
import type { DonorEvent, Observed, RunObserver } from './runObserver.ts';

/** Steps whose spans wait to be written together. */
const BATCH = 16;

/** Groups of islands take turns of their own: of so many the newest step is known. */
const TURNS_AT_ONCE = 64;

type Reported = Pick<ReportMessage, 'spans' | 'behind'>;
type FaultMessage = Extract<PeerMessage, { type: 'fault' }>;

/** Its kind is a column of its own. */
function addHappened(store: Store, run: string, happened: Happened, nowMs: number, step: number): void {
  const { kind, ...detail } = happened;
  store.addEvent(run, kind, JSON.stringify(detail), nowMs, step);
}

/** `count`: what the donors of its plan call it, where each group counts its own steps. */
interface Ended {
  readonly count: number;
  readonly members: readonly PeerId[];
  readonly ends: ReadonlyMap<PeerId, WorkEnd>;
  readonly told: Set<PeerId>;
}

interface Announced {
  readonly epoch: number;
  readonly reason: string;
  readonly plan: Plan;
}

/** Of another group than the one with these islands; with none of its own a plan is of all donors. */
const isBeside = ({ plan: { islands } }: Announced, own: Plan['islands']): boolean =>
  islands !== undefined && own !== undefined && !islands.some((island) => own.includes(island));

export class RunHistory implements RunObserver {
  readonly #store: Store;
  readonly #run: Observed;
  readonly #now: () => number;
  /** Of each plan in force, by its epoch: the step that is being reported, by peer. */
  readonly #reports = new Map<number, { readonly step: number; readonly by: Map<PeerId, Reported> }>();
  readonly #left = new Set<PeerId>();
  /** Paused, on standby, or done with the run: with them nothing is lost. */
  readonly #resting = new Set<PeerId>();
  /** Faults that each donor told of since it came, and the plan under which it last did. */
  readonly #faults = new Map<PeerId, { readonly count: number; readonly epoch: number }>();
  #plans: readonly Announced[] = [];
  /** Why the newest epoch began; empty: none did since the server started. */
  epochReason = '';
  #unsaved: TraceRow[] = [];
  /** By steps: who computed in it, and who has told what it did behind it. */
  readonly #mayEnd = new Map<number, Ended>();
  /** Of the newest commit: donors hear of it first. */
  #untraced: (() => void) | null = null;

  constructor(store: Store, run: Observed, now: () => number) {
    this.#store = store;
    this.#run = run;
    this.#now = now;
  }

  /** In force, of each group with islands of its own; the one that was announced last comes last. */
  get plans(): readonly Announced[] {
    return this.#plans;
  }

  faults(peer: PeerId): number {
    return this.#faults.get(peer)?.count ?? 0;
  }

  event(event: DonorEvent): void {
    if (event.type === 'joined') {
      const { peer, adapter } = event.connection;
      const { vendor, architecture, description } = adapter;
      this.#add({ kind: 'joined', peer, adapter: { vendor, architecture, description } });
    } else if (event.type === 'said') {
      if (event.message.type === 'report') this.#reportedBy(event.connection.peer, event.message);
      if (event.message.type === 'fault') this.#faulted(event.connection.peer, event.message);
    } else {
      this.#gone(event);
    }
  }

  #gone({ peer, detail }: Extract<DonorEvent, { type: 'gone' }>): void {
    this.#faults.delete(peer);
    const wasResting = this.#resting.delete(peer);
    // Who left by its button closes its connection behind it.
    if (this.#left.delete(peer)) return;
    const had = wasResting ? '; it had no work, so nothing was lost' : '';
    this.#add({ kind: wasResting ? 'left' : 'gone', peer, detail: `${detail}${had}` });
  }

  #add(happened: Happened, step = this.#run.committedSteps): void {
    addHappened(this.#store, this.#run.name, happened, this.#now(), step);
  }

  /** Of each donor one event a plan: whatever it says, it fills no store. */
  #faulted(peer: PeerId, { reason, about, detail }: FaultMessage): void {
    const epoch = this.#plans.at(-1)?.epoch ?? 0;
    const isNews = this.#faults.get(peer)?.epoch !== epoch;
    this.#faults.set(peer, { count: this.faults(peer) + 1, epoch });
    if (isNews) this.#add({ kind: 'fault', peer, reason, about, detail });
  }

  #reportedBy(peer: PeerId, { epoch, step, spans, behind }: ReportMessage): void {
    if (this.#plans.every((one) => one.epoch !== epoch)) return;
    const known = this.#reports.get(epoch);
    const reports = known?.step === step ? known : { step, by: new Map<PeerId, Reported>() };
    this.#reports.set(epoch, reports);
    reports.by.set(peer, { spans, behind });
  }

  /** Undefined: all. */
  #withoutPlansOf(islands: Plan['islands']): void {
    this.#plans = this.#plans.filter((one) => isBeside(one, islands));
    for (const epoch of this.#reports.keys())
      if (this.#plans.every((one) => one.epoch !== epoch)) this.#reports.delete(epoch);
  }

  effect(effect: DecisionEffect): void {
    switch (effect.type) {
      case 'storeEpoch': {
        const { epoch, reason, plan } = effect;
        this.#withoutPlansOf(plan.islands);
        this.#plans = [...this.#plans, { epoch, reason, plan }];
        this.epochReason = reason;
        const { stages, microBatches, schedule } = plan;
        const counts = { donors: peers(plan).length, stages: stages.length, microBatches: microBatches.length };
        this.#add({ kind: 'plan', epoch, reason, ...counts, schedule });
        return;
      }
      case 'storeCommit':
        this.#traceLater(effect.record.step, effect.record.plan);
        return;
      case 'storeCheckpoint':
        this.#add({ kind: 'checkpoint' }, effect.step);
        return;
      case 'islandEnded':
        this.#withoutPlansOf([effect.island]);
        // Those that are kept get other counts with their steps.
        this.#traceNow();
        this.#save();
        this.#mayEnd.clear();
        return;
      case 'rollBack':
        this.#traceNow();
        this.#mayEnd.clear();
        this.#unsaved = this.#unsaved.filter((trace) => trace.step < effect.toStep);
        return;
      case 'convicted': {
        const { peer, item, firstStep, evidence } = effect;
        this.#add({ kind: 'convicted', peer, stage: item.stage, firstStep, evidence }, item.step);
        return;
      }
      case 'finished':
        this.#add({ kind: 'finished' });
        return;
      case 'send':
        if (effect.message.type === 'prepare') this.#resting.delete(effect.to);
        if (effect.message.type !== 'standby') return;
        if (effect.message.state !== 'left') return void this.#resting.add(effect.to);
        this.#left.add(effect.to);
        this.#add({ kind: 'left', peer: effect.to });
    }
  }

  /** Of this step, or of the newest one before it that has one. */
  trace(step: number): TraceRow | null {
    this.#traceNow();
    return this.#traceUpTo(step);
  }

  #traceUpTo(step: number): TraceRow | null {
    const unsaved = this.#unsaved.findLast((trace) => trace.step <= step);
    const stored = unsaved?.step === step ? null : this.#store.trace(this.#run.name, step);
    // A step that is there again, with what its turn ended with, may be older than stored ones.
    return unsaved && (stored === null || stored.step <= unsaved.step) ? unsaved : stored;
  }

  range(): readonly [number, number] | null {
    this.#traceNow();
    const stored = this.#store.traceRange(this.#run.name);
    const [oldest, newest] = [this.#unsaved[0], this.#unsaved.at(-1)];
    if (!oldest || !newest) return stored;
    if (stored === null) return [oldest.step, newest.step];
    return [Math.min(stored[0], oldest.step), Math.max(stored[1], newest.step)];
  }

  bubbles(from: number): Map<number, number> {
    this.#traceNow();
    const all = this.#store.bubbles(this.#run.name, from);
    for (const { step, bubble } of this.#unsaved) all.set(step, bubble);
    return all;
  }

  close(): void {
    this.#traceNow();
    this.#save();
  }

  #save(): void {
    if (this.#unsaved.length > 0) this.#store.saveTraces(this.#run.name, this.#unsaved);
    this.#unsaved = [];
  }

  #traceLater(step: number, epoch: number): void {
    this.#traceNow();
    const plan = this.#plans.find((one) => one.epoch === epoch)?.plan;
    const reports = this.#reports.get(epoch);
    // Where rounds are recorded each group counts its own steps: what was reported last is of this one.
    const isThis = reports?.step === step || isRecorded(this.#run.document.file.train);
    if (plan === undefined || reports === undefined || !isThis) return;
    this.#untraced = () => this.#trace({ step, epoch, count: reports.step }, plan, reports.by);
    setImmediate(() => this.#traceNow());
  }

  #traceNow(): void {
    const trace = this.#untraced;
    this.#untraced = null;
    trace?.();
    if (this.#unsaved.length >= BATCH) this.#save();
  }

  #trace(
    { step, epoch, count }: Pick<TraceRow, 'step' | 'epoch'> & Pick<Ended, 'count'>,
    plan: Plan,
    reported: ReadonlyMap<PeerId, Reported>,
  ): void {
    this.#behind(plan, reported);
    const reports = new Map([...reported].map(([peer, { spans }]) => [peer, spans]));
    const timeline = aligned(plan, reports);
    if (timeline.length === 0) return;
    const computing = [...new Set(plan.stages.flatMap(({ members }) => members.map(({ peer }) => peer)))];
    const bubble = Math.max(0, bubbleRatio(timeline, computing));
    const ends = workEnds(plan, reports);
    const beside = [...reports].flatMap(([peer, spans]) => alignedBeside(ends, besideSpans(plan, peer, spans)));
    this.#keep({ step, epoch, bubble, spans: JSON.stringify(rowsOf(timeline, beside)) });
    this.#mayEnd.set(step, { count, members: peers(plan), ends, told: new Set() });
    const oldest = this.#mayEnd.size > TURNS_AT_ONCE ? this.#mayEnd.keys().next().value : undefined;
    if (oldest !== undefined) this.#mayEnd.delete(oldest);
  }

  /** The newest one that it calls so. */
  #stepOf(peer: PeerId, count: number): number | undefined {
    const found = [...this.#mayEnd].findLast(([, ended]) => ended.count === count && ended.members.includes(peer));
    return found?.[0];
  }

  /** What donors tell of behind a step stands with its spans; each donor says so once. */
  #behind(plan: Plan, reported: ReadonlyMap<PeerId, Reported>): void {
    const told = new Map<number, Map<PeerId, readonly BesideSpan[]>>();
    for (const [peer, { behind }] of reported) {
      const step = behind && this.#stepOf(peer, behind.step);
      if (!behind || step === undefined || got(this.#mayEnd, step).told.has(peer)) continue;
      const { islands } = this.#run.document.file.train;
      const own = besideSpans(plan, peer, behind.spans).filter(({ action }) => islands || !isTurnEnd(action));
      told.set(step, new Map([...(told.get(step) ?? []), [peer, own]]));
    }
    for (const [step, byPeer] of told) {
      const known = got(this.#mayEnd, step);
      const ends = withKeepers(known.ends, byPeer);
      const spans = [...byPeer].flatMap(([peer, own]) => {
        const aligned = alignedBehind(ends, own);
        if (aligned.length > 0) known.told.add(peer);
        return aligned;
      });
      const trace = this.#traceUpTo(step);
      if (spans.length === 0 || trace?.step !== step) continue;
      const before: unknown[] = JSON.parse(trace.spans); // own words
      this.#keep({ ...trace, spans: JSON.stringify([...before, ...rowsOf([], spans)]) });
    }
  }

  /** In the order of steps, in place of what there was of this one. */
  #keep(trace: TraceRow): void {
    const others = this.#unsaved.filter(({ step }) => step !== trace.step);
    this.#unsaved = [...others, trace].sort((a, b) => a.step - b.step);
  }
}

/** One line of the audit. `what`: in the past, without who did it. */
export function addOperatorEvent(
  store: Store,
  run: string,
  what: string,
  session: string,
  step: number,
  nowMs: number,
): void {
  addHappened(store, run, { kind: OPERATOR_EVENT, what, session }, nowMs, step);
}
