/**
 * What a predicted step has beside its work on micro-batches, in the words of measured spans: what is handed on, layers that
 * are gathered, slices, updates and new values. A send lasts as long as it does on a line that has nothing else to carry.
 */
import { at, type PeerId } from '../base.ts';
import { owner, type Plan } from '../plan/plan.ts';
import type { BesideAction, BesideSpan } from '../timeline/beside.ts';
import { type Interval, lengthSeconds, type Span, type Timeline } from '../timeline/timeline.ts';
import type { ClusterCosts } from './clusterCosts.ts';
import type { PredictedStep } from './forecast.ts';

export const predictedBeside = (costs: ClusterCosts, plan: Plan, step: PredictedStep): BesideSpan[] =>
  [
    ...step.timeline.flatMap((span) => ofWork(plan, step, span)),
    ...sumsOfGathered(costs, plan, step),
    ...ofState(costs, plan, step),
  ].filter((span) => lengthSeconds(span) > 0);

/** The gathers that a forward or a backward waits for, and where its outcome goes. */
function ofWork(plan: Plan, { times, gathers, timeline }: PredictedStep, span: Span): BesideSpan[] {
  const { peer, action, startSeconds } = span;
  if (action.op !== 'F' && action.op !== 'B') return [];
  const { op, stage, microBatch } = action;
  const found: BesideSpan[] = [];
  const gathering = gathers.stages[stage];
  const pass = gathering ? passOf(plan, timeline, span) : null;
  if (gathering && pass) {
    const [from, to] = at(plan.stages, stage).layers;
    const endSeconds = Math.min(pass.endSeconds, startSeconds + gathering.gatherSeconds(op, to - from));
    found.push({ peer, action: { op: `GATHER_${op}`, stage, microBatch }, startSeconds, endSeconds });
  }
  const next = stage + (op === 'F' ? 1 : -1);
  const receiver = next < 0 || next >= plan.stages.length ? peer : owner(plan, next, microBatch);
  if (receiver === peer) return found;
  const { latencySeconds, bytesPerSecond } = times.link(peer, receiver, action);
  const bytes = (op === 'F' ? times.activationBytes : times.gradientBytes)(stage, microBatch);
  // Who gives a share of its time rests after it has handed on.
  const sent = span.endSeconds - (times.rest?.seconds(peer, lengthSeconds(span), action) ?? 0);
  const endSeconds = sent + latencySeconds + (bytesPerSecond === null ? 0 : bytes / bytesPerSecond);
  return [...found, { peer, action: { op: `SEND_${op}`, stage, microBatch }, startSeconds: sent, endSeconds }];
}

/** The span of a micro-batch by itself; of those that pass together all of it, by the first one alone. */
function passOf(plan: Plan, timeline: Timeline, span: Span): Interval | null {
  const { op } = span.action;
  const [stage] = plan.stages;
  if (!stage?.layered) return span;
  const own = timeline.filter(({ peer, action }) => peer === span.peer && action.op === op);
  return own[0] === span ? { ...span, endSeconds: at(own, own.length - 1).endSeconds } : null;
}

/** What is gathered sends its gradients as they are made, unit by unit, from the first of a step to the last; the head's at its forward's end. */
function sumsOfGathered(costs: ClusterCosts, plan: Plan, { gathers, timeline }: PredictedStep): BesideSpan[] {
  return plan.stages.flatMap(({ members, layered }, stage) => {
    const gathering = gathers.stages[stage];
    if (!gathering || gathering.sumSeconds.layer === 0) return [];
    return members.flatMap(({ peer }): BesideSpan[] => {
      const own = timeline.flatMap(({ action, ...span }): Pass[] =>
        span.peer === peer && (action.op === 'F' || action.op === 'B') && action.stage === stage
          ? [{ ...span, op: action.op, microBatch: action.microBatch }]
          : [],
      );
      const first = (op: Pass['op']) => own.find((pass) => pass.op === op);
      const forward = layered ? own.findLast(({ op }) => op === 'F') : first('F');
      const backward = first('B');
      const last = own.findLast(({ op }) => op === 'B');
      if (!forward || !backward || !last) return [];
      const { head } = gathering.sumSeconds;
      const startSeconds = head === null ? firstLayerSum(costs, plan, gathering, backward) : forward.endSeconds - head;
      return [{ peer, action: { op: 'REDUCE', stage }, startSeconds, endSeconds: last.endSeconds }];
    });
  });
}

/** A forward or a backward of a stage. */
interface Pass extends Interval {
  readonly peer: PeerId;
  readonly op: 'F' | 'B';
  readonly microBatch: number;
}

type Gathering = NonNullable<PredictedStep['gathers']['stages'][number]>;

/** Once a layer was gathered and computed back. */
function firstLayerSum(
  costs: ClusterCosts,
  { stages, microBatches }: Plan,
  { gatherSeconds }: Gathering,
  { peer, microBatch, startSeconds }: Pass,
): number {
  const layer = { first: false, last: false, layers: 1 };
  const own = stages[0]?.layered ? stages[0].members.find((member) => member.peer === peer)?.microBatches : undefined;
  const together = new Set(own ?? [microBatch]);
  const computed = microBatches.reduce((sum, { id, samples: [from, to] }) => {
    const seconds = () => costs.backwardSeconds(at(costs.peers, costs.placeOf(peer)), layer, to - from);
    return together.has(id) ? sum + seconds() : sum;
  }, 0);
  return startSeconds + gatherSeconds('B', 1) + computed;
}

/** Slices before the commit, updates and values after it. */
function ofState(costs: ClusterCosts, plan: Plan, { forecast }: PredictedStep): BesideSpan[] {
  const { committedSeconds, peers } = forecast.exchange;
  return peers.flatMap(({ place, reportedSeconds, reduce, onGpu, onHost, updated, passed }) => {
    const { id: peer, serverSeconds } = at(costs.peers, place);
    const span = (action: BesideAction, startSeconds: number, seconds: number): BesideSpan => ({
      ...{ peer, action, startSeconds, endSeconds: startSeconds + seconds },
    });
    const isOwn = ({ members }: Plan['stages'][number]): boolean => members.some((member) => member.peer === peer);
    const stage = plan.stages.findIndex(isOwn);
    const whole = plan.stages.findIndex((one) => isOwn(one) && !one.gathered);
    const begun = committedSeconds + serverSeconds;
    return [
      ...(whole < 0 ? [] : [span({ op: 'REDUCE', stage: whole }, reportedSeconds - reduce, reduce)]),
      span({ op: 'UPDATE' }, begun, onGpu),
      span({ op: 'UPDATE_HOST' }, begun, onHost),
      span(stage < 0 ? { op: 'SEND_V' } : { op: 'GATHER', stage }, begun + updated, passed),
    ];
  });
}
