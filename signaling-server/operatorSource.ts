/**
 * What the dashboard is shown of the active run. Each dashboard has a source of its own, which remembers what it has
 * told already: steps and events go out once, the rest when it has become another.
 */
import type { Snapshot } from '../swarm/messages.ts';
import { batchOf } from '../swarm/runFile.ts';
import type { PeerFacts, PlanInForce, StepTimeline, WatchedStep, WatchMessage } from '../swarm/watch.ts';
import { eventOf } from './operatorHistory.ts';
import { clusterOf, predictedSpans } from './operatorPlan.ts';
import type { ActiveRun } from './run.ts';
import type { Store } from './store.ts';

/** Steps and events that a new dashboard is told of. */
export const RECENT_STEPS = 1_000;
const RECENT_EVENTS = 500;
const MOST_EVALUATIONS = 2_000;

export type OperatorSource = () => WatchMessage;

/** For the operator: donors are told nothing of the others' ways. */
export function withLinks(run: ActiveRun): Snapshot {
  const planning = run.planner?.planning ?? null;
  return { ...run.snapshot(), links: run.network.links(), ...(planning === null ? {} : { planning }) };
}

export function operatorSource(run: ActiveRun, store: Store): OperatorSource {
  let nextStep = 0;
  let lastEvent = 0;
  const told = new Map<string, string>();
  /** Only where it is not what was told before. */
  const news = <Name extends string, T>(name: Name, value: T): Partial<Record<Name, T>> => {
    const text = JSON.stringify(value);
    if (told.get(name) === text) return {};
    told.set(name, text);
    return { [name]: value } as Partial<Record<Name, T>>;
  };
  return () => {
    const { committedSteps } = run;
    // After a roll-back steps have other values than those that were sent.
    const from = Math.max(nextStep > committedSteps ? 0 : nextStep, committedSteps - RECENT_STEPS);
    nextStep = committedSteps;
    const history = store.history(run.name, lastEvent, RECENT_EVENTS);
    lastEvent = history.at(-1)?.id ?? lastEvent;
    return {
      snapshot: withLinks(run),
      recent: watchedSteps(run, store, from),
      events: history.flatMap(eventOf),
      ...news('evaluations', [...store.evaluations(run.name)].slice(-MOST_EVALUATIONS)),
      ...news('peers', peerFacts(run)),
      ...news('plan', planInForce(run, store)),
      ...news('traces', run.history.range() as WatchMessage['traces']),
    };
  };
}

function watchedSteps(run: ActiveRun, store: Store, from: number): WatchedStep[] {
  const bubbles = run.history.bubbles(from);
  return store.steps(run.name, from).map((record) => {
    const bubble = bubbles.get(record.step);
    return bubble === undefined ? record : { ...record, bubble };
  });
}

function peerFacts(run: ActiveRun): PeerFacts[] {
  return run.donors().map(({ peer, limits, profile }) => {
    const memory = run.memory.get(peer);
    const { predictedBytes = null, peakBytes = null } = memory ?? {};
    return { peer, limits, profile, faults: run.history.faults(peer), predictedBytes, peakBytes };
  });
}

function planInForce(run: ActiveRun, store: Store): PlanInForce | null {
  const current = run.history.plan;
  if (current === null) return null;
  const { epoch, plan } = current;
  return {
    epoch,
    reason: store.epoch(run.name, epoch)?.reason ?? '',
    schedule: plan.schedule,
    microBatches: plan.microBatches.map(({ id, samples: [from, to] }) => ({ id, samples: [from, to] })),
    stages: plan.stages.map(({ layers: [from, to], members }) => ({
      layers: [from, to],
      members: members.map(({ peer, microBatches, samples, recompute }) => ({
        peer,
        microBatches: [...microBatches],
        samples,
        recompute: [...recompute],
      })),
    })),
  };
}

/** The step's own timeline, or that of the newest one before it that is kept; null where there is none. */
export function stepTimeline(run: ActiveRun, store: Store, step: number): StepTimeline | null {
  const trace = run.history.trace(step);
  if (trace === null) return null;
  const measured = JSON.parse(trace.spans) as StepTimeline['measured']; // the store's own words
  const { epoch, bubble } = trace;
  const stored = store.epoch(run.name, epoch);
  const problem = { model: run.model, batch: batchOf(run.document.file), cluster: clusterOf(run) };
  const predicted = stored === null ? [] : predictedSpans(problem, stored.plan);
  return { step: trace.step, epoch, bubble, measured, predicted };
}
