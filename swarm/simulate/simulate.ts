/**
 * What a schedule would take: the same work that the executor runs, with durations from a cost model, answered with the
 * same type of timeline. Where each peer runs its list and no line has several senders, a piece of work starts when its peer
 * is free and what it needs has come, whatever others do meanwhile: one walk along the lists says when everything starts
 * and ends. Else it matters what is here first, and the same is done by time (readySet.ts). See SPEC.md, rules SI.
 */
import { float, invariant } from '../base.ts';
import type { Model } from '../model/model.ts';
import type { Plan } from '../plan/plan.ts';
import { formatAction, type Schedule } from '../schedule/action.ts';
import { type WorkGraph, walk, workGraph, workOf } from '../schedule/graph.ts';
import { wiring } from '../schedule/order.ts';
import { inListOrder, type Policy } from '../schedule/policy.ts';
import { timelineOf } from '../timeline/columns.ts';
import type { Timeline } from '../timeline/timeline.ts';
import { type Costs, clockOf, type SimulationClock, start } from './clock.ts';
import { runByTime } from './readySet.ts';

/** Runs a schedule that has no scheduleProblems, lowered or not. Time 0 is the step's start. */
export const simulate = (
  model: Pick<Model, 'tied'>,
  plan: Plan,
  schedule: Schedule,
  costs: Costs,
  policy?: Policy,
): Timeline => simulateGraph(workGraph(wiring(model, plan, schedule), schedule), costs, policy);

/** The same, of a schedule that is numbered already: for whoever tries several costs on one. */
export const simulateGraph = (graph: WorkGraph, costs: Costs, policy?: Policy): Timeline =>
  timelineOf(graph, simulateEnds(graph, costs, policy));

/** The same as columns, by the number of the work: for timelines of millions. */
export function simulateEnds(graph: WorkGraph, costs: Costs, policy?: Policy): Omit<SimulationClock, 'messages'> {
  const clock = clockOf(graph, costs);
  const isFixed = policy === undefined && clock.messages.shared.size === 0;
  const lastSeconds = isFixed ? runInOrder(clock) : runByTime(clock, costs.lines ?? [], policy ?? inListOrder);
  invariant(!clock.freeSeconds.includes(Number.NaN), 'a time of this simulation is not a number');
  // Past all numbers nothing ends any more: that is no deadlock.
  if (Number.isFinite(lastSeconds) && clock.endSeconds.includes(Number.NaN)) {
    const { peer, action } = workOf(graph, clock.endSeconds.findIndex(Number.isNaN));
    invariant(false, `${peer} cannot start ${formatAction(action)}: see SC9`);
  }
  return clock;
}

function runInOrder(clock: SimulationClock): number {
  const { graph, freeSeconds } = clock;
  /** When what each piece of work needs is here, as far as that is known. */
  const hereSeconds = new Float64Array(graph.actions.length);
  const listener = {
    met: (work: number, seconds: number): void => {
      hereSeconds[work] = Math.max(float(hereSeconds, work), seconds);
    },
    queued: () => invariant(false, 'no line has several senders'),
  };
  walk(graph, (work, peer) =>
    start(clock, work, peer, Math.max(float(freeSeconds, peer), float(hereSeconds, work)), listener),
  );
  return 0;
}
