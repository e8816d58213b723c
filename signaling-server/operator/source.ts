/**
 * What the dashboard is shown of the active run. Each dashboard has a source of its own, which remembers what it has
 * told already: steps and events go out once, the rest when it has become another.
 */
import { withNumbers } from '../../swarm/islands/rounds.ts';
import type { Snapshot } from '../../swarm/messages/snapshot.ts';
import {
  type AlertLimits,
  alertLimitsSchema,
  INITIAL_ALERT_LIMITS,
  type PeerFacts,
  type PlanInForce,
  type StepTimeline,
  type WatchedAnswers,
  type WatchedEvent,
  type WatchedStep,
  type WatchMessage,
  watchedEventSchema,
} from '../../swarm/messages/watch.ts';
import { homeStage, type Plan } from '../../swarm/plan/plan.ts';
import { computeOf } from '../../swarm/precision.ts';
import { batchOf } from '../../swarm/run/runFile.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import type { ActiveRun } from '../run/run.ts';
import type { EventRow } from '../store/historyStore.ts';
import type { Store } from '../store/store.ts';
import { clusterOf, limitOn, predictedSpans } from './plan.ts';
import type { Rehearsals } from './rehearsals.ts';

/** Steps and events that a new dashboard is told of. */
const RECENT_STEPS = 1_000;
const RECENT_EVENTS = 500;
const MOST_EVALUATIONS = 2_000;
/** Of many donors the ways between them are most of a picture, and all of them change with every step. */
export const LINKS_INTERVAL_MS = 2_000;

export type OperatorSource = () => WatchMessage;

/** For the operator: donors are told nothing of the others' ways. */
export function withLinks(run: ActiveRun): Snapshot {
  const { network, planning } = run;
  const turnErrors = network.turnErrors();
  const limit = limitNow(run);
  return {
    ...run.snapshot(),
    links: network.links(),
    ...(turnErrors.length > 0 && { turnErrors }),
    ...(limit && { limit }),
    ...(planning === null ? {} : { planning }),
  };
}

/** The run on the donors at hand, as a planner is asked. */
const problemAtHand = (run: ActiveRun) => ({
  model: run.model,
  batch: batchOf(run.document.file),
  cluster: clusterOf(run),
});

type Limit = NonNullable<Snapshot['limit']>;
const limitsOf = new WeakMap<
  ActiveRun,
  { readonly epoch: number; readonly atMs: number; readonly limit: Limit | null }
>();
/** What donors measure changes slowly, and a look takes some dozen forecasts. */
const LIMIT_INTERVAL_MS = 20_000;

/** Of several groups, the newest plan's. */
function limitNow(run: ActiveRun): Limit | null {
  const newest = run.history.plans.at(-1);
  if (newest === undefined) return null;
  const known = limitsOf.get(run);
  const nowMs = monotonicMs();
  if (known?.epoch === newest.epoch && nowMs < known.atMs + LIMIT_INTERVAL_MS) return known.limit;
  const found = limitOn(problemAtHand(run), newest.plan);
  const limit = found && { epoch: newest.epoch, ...found, peers: [...found.peers] };
  limitsOf.set(run, { epoch: newest.epoch, atMs: nowMs, limit });
  return limit;
}

export function operatorSource(
  run: ActiveRun,
  store: Store,
  rehearsals: Pick<Rehearsals, 'shown'>,
  now: () => number = monotonicMs,
  freeBytes: () => number | null = () => null,
): OperatorSource {
  let nextStep = 0;
  let metSteps = 0;
  const linksTold = { atMs: Number.NEGATIVE_INFINITY, count: 0 };
  let lastEvent = 0;
  const told = new Map<string, string>();
  /** Only where it is not what was told before. */
  const news = <Name extends string, T>(name: Name, value: T): Partial<Record<Name, T>> => {
    const text = JSON.stringify(value);
    if (told.get(name) === text) return {};
    told.set(name, text);
    return { [name]: value } as Partial<Record<Name, T>>;
  };
  const snapshot = (): Snapshot => {
    const { links = [], ...rest } = withLinks(run);
    if (links.length === linksTold.count && now() - linksTold.atMs < LINKS_INTERVAL_MS) return rest;
    Object.assign(linksTold, { atMs: now(), count: links.length });
    return { ...rest, links };
  };
  return () => {
    const { committedSteps } = run.kept;
    const [plan = null, ...plansBeside] = plansInForce(run);
    // After a roll-back steps have other values than those that were sent.
    const unsaid = nextStep > committedSteps ? 0 : nextStep;
    const met = store.run(run.name)?.metSteps ?? 0;
    // What a meeting of islands sent counts with the last step of its round, which was told of before.
    const changed = met > metSteps ? met - 1 : unsaid;
    const from = Math.max(Math.min(unsaid, changed), committedSteps - RECENT_STEPS);
    [nextStep, metSteps] = [committedSteps, met];
    const history = store.history(run.name, lastEvent, RECENT_EVENTS);
    lastEvent = history.at(-1)?.id ?? lastEvent;
    return {
      snapshot: snapshot(),
      recent: watchedSteps(run, store, from),
      events: history.flatMap(eventOf),
      ...news('evaluations', [...store.evaluations(run.name)].slice(-MOST_EVALUATIONS)),
      ...news('rightAnswers', watchedAnswers(store, run.name)),
      ...news('peers', peerFacts(run, store)),
      ...news('plan', plan),
      ...news('plansBeside', plansBeside),
      ...news('traces', run.history.range() as WatchMessage['traces']),
      ...news('alertLimits', alertLimitsOf(store, run.name)),
      ...news('freeBytes', freeBytes()),
      ...news('served', run.counts.servedBytes),
      ...news('rehearsals', rehearsals.shown()),
    };
  };
}

const watchedAnswers = (store: Store, name: string): WatchedAnswers[] =>
  [...store.rightAnswers(name)].slice(-MOST_EVALUATIONS).map(([committedSteps, of]) => ({ committedSteps, ...of }));

/** Of a kind that only the server knows, or written by another version: nothing. */
export function eventOf({ detail, ...row }: EventRow): WatchedEvent[] {
  const event = watchedEventSchema.safeParse({ ...JSON.parse(detail), ...row });
  return event.success ? [event.data] : [];
}

export function alertLimitsOf(store: Store, name: string): AlertLimits {
  const kept = store.setting(`alertLimits ${name}`);
  return alertLimitsSchema.safeParse(JSON.parse(kept ?? 'null')).data ?? INITIAL_ALERT_LIMITS;
}

export function watchedSteps(run: ActiveRun, store: Store, from: number): WatchedStep[] {
  const bubbles = run.history.bubbles(from);
  const steps = withNumbers(run.document.file.train, store.steps(run.name, from));
  return withTraffic(run, steps).map((record) => {
    const bubble = bubbles.get(record.step);
    return bubble === undefined ? record : { ...record, bubble };
  });
}

/** Of the active run, whose plans are known by their epochs. */
export const withTraffic = (run: ActiveRun, steps: readonly WatchedStep[]): WatchedStep[] =>
  steps.map((step) => {
    const traffic = run.trafficOf(step.plan);
    return traffic === null ? step : { ...step, traffic };
  });

function peerFacts(run: ActiveRun, store: Store): PeerFacts[] {
  return run.donors().map(({ peer, adapter, limits, profile, member }) => {
    const name = (member && store.member(member)?.name) ?? null;
    const memory = run.memory.of(peer);
    const { predictedBytes = null, peakBytes = null } = memory ?? {};
    const compute = computeOf(run.facts.compute ?? 'f32', adapter.halves === true);
    return { peer, name, limits, profile, compute, faults: run.history.faults(peer), predictedBytes, peakBytes };
  });
}

/** The newest first. */
const plansInForce = ({ history }: ActiveRun): PlanInForce[] =>
  history.plans.map(({ epoch, plan, reason }) => watchedPlan(epoch, plan, reason)).toReversed();

export function watchedPlan(epoch: number, plan: Plan, reason: string): PlanInForce {
  return {
    epoch,
    reason,
    schedule: plan.schedule,
    microBatches: plan.microBatches.map(({ id, samples: [from, to] }) => ({ id, samples: [from, to] })),
    stages: plan.stages.map(({ layers: [from, to], members }, stage) => ({
      layers: [from, to],
      copies: copiesOf(plan, stage),
      members: members.map(({ peer, microBatches, samples, recompute }) => ({
        peer,
        microBatches: [...microBatches],
        samples,
        recompute: [...recompute],
      })),
    })),
  };
}

function copiesOf(plan: Plan, stage: number): string[] {
  const blocks = plan.state.filter(({ block }) => homeStage(plan, block) === stage);
  return [...new Set(blocks.flatMap(({ shards }) => shards.flatMap(({ replicas }) => replicas)))];
}

/** The step's own timeline, or that of the newest one before it that is kept; null where there is none. */
export function stepTimeline(run: ActiveRun, store: Store, step: number): StepTimeline | null {
  const trace = run.history.trace(step);
  if (trace === null) return null;
  const measured = JSON.parse(trace.spans) as StepTimeline['measured']; // the store's own words
  const { epoch, bubble } = trace;
  const stored = store.epoch(run.name, epoch);
  const plan = stored && (JSON.parse(stored.plan) as Plan); // the store's own words
  const predicted = plan === null ? [] : predictedSpans(problemAtHand(run), plan);
  const watched = plan && watchedPlan(epoch, plan, stored?.reason ?? '');
  return { step: trace.step, epoch, bubble, measured, predicted, plan: watched };
}
