/** From a problem to its timeline: the placement, the order and the costs that it names, put together. */
import { assertNever, at, got, invariant, type PeerId, peerId, type Result, refusal, success } from '../base.ts';
import type { Plan } from '../plan/plan.ts';
import { formatAction, type MicroAction, type Schedule } from '../schedule/action.ts';
import { breadthFirst } from '../schedule/breadthFirst.ts';
import { deadlock } from '../schedule/check.ts';
import { chimera } from '../schedule/chimera.ts';
import { eager } from '../schedule/eager.ts';
import { gpipe } from '../schedule/gpipe.ts';
import { type WorkGraph, workGraph } from '../schedule/graph.ts';
import { interleaved } from '../schedule/interleaved.ts';
import { inFlightBounds } from '../schedule/messageDriven.ts';
import { oneForwardOneBackward } from '../schedule/oneForwardOneBackward.ts';
import { wiring } from '../schedule/order.ts';
import { bidirectionalPlan, loopedPlan } from '../schedule/placement.ts';
import type { Policy } from '../schedule/policy.ts';
import { varuna, varunaWork } from '../schedule/varuna.ts';
import { peerLoads, type TimelineColumns } from '../timeline/columns.ts';
import { jitterSeconds } from './jitter.ts';
import { type LinkCost, linkRate } from './links.ts';
import { chunksOf, type ProblemLink, type SimulateProblem } from './problem.ts';
import { type Costs, simulateColumns } from './simulate.ts';

export interface Outcome {
  readonly makespanSeconds: number;
  readonly bubbleRatio: number;
  readonly peers: readonly {
    readonly busySeconds: number;
    readonly idleSeconds: number;
    readonly peakInFlight: number;
  }[];
  /** The timeline, as columns by the number of the work: see barsOf. */
  readonly work: Pick<WorkGraph, 'actions' | 'peerOf'> & TimelineColumns;
}

/** An action in the timeline: who does it, and from when to when. */
export interface Bar {
  readonly peer: number;
  readonly action: MicroAction;
  readonly start: number;
  readonly end: number;
}

/** What the problem comes to, or why it cannot run. */
export function outcomeOf(problem: SimulateProblem): Result<Outcome> {
  const peers = problem.stages.map((_, index) => peerId(String(index)));
  const { plan, schedule: lists, policy } = pipelineOf(problem, peers);
  const schedule = seated(lists, peers);
  const graph = workGraph(wiring({ tied: false }, plan, schedule), schedule);
  // The lists of a policy have no order to be judged.
  const [wrong] = policy ? [] : deadlock(graph, schedule);
  if (wrong) return refusal(`this order cannot run: ${wrong.text}`);
  const outcome = summary(graph, simulateColumns(graph, costsOf(problem), policy));
  return Number.isFinite(outcome.makespanSeconds) ? success(outcome) : refusal('the times are too long to add up');
}

/** By start, then peer. */
export const barsOf = (outcome: Outcome): Bar[] =>
  barList(outcome, (peer, action, start, end): Bar => ({ peer, action, start, end }));

export function outcomeDocument(outcome: Outcome) {
  const { makespanSeconds, bubbleRatio, peers } = outcome;
  const timeline = barList(outcome, (peer, action, start, end) => ({ peer, action: formatAction(action), start, end }));
  return { makespanSeconds, bubbleRatio, peers, timeline };
}

function barList<T>(
  { work: { actions, peerOf, order, startSeconds, endSeconds } }: Outcome,
  bar: (peer: number, action: MicroAction, start: number, end: number) => T,
): T[] {
  const bars: T[] = [];
  for (const number of order) {
    const action = actions[number];
    invariant(action && 'microBatch' in action, 'a problem has work on micro-batches alone');
    bars.push(bar(at(peerOf, number), action, at(startSeconds, number), at(endSeconds, number)));
  }
  return bars;
}

interface Pipeline {
  readonly plan: Plan;
  readonly schedule: Schedule;
  /** In list order, where there is none. */
  readonly policy?: Policy;
}

function pipelineOf(problem: SimulateProblem, peers: readonly PeerId[]): Pipeline {
  const { microBatches, pairs, warmup, maxInFlight } = problem;
  const plan = loopedPlan(peers, microBatches, chunksOf(problem));
  switch (problem.schedule) {
    case 'gpipe':
      return { plan, schedule: gpipe(plan) };
    case '1f1b':
      return { plan, schedule: oneForwardOneBackward(plan, warmup) };
    case 'interleaved':
      return { plan, schedule: interleaved(plan) };
    case 'breadth-first':
      return { plan, schedule: breadthFirst(plan) };
    case 'chimera': {
      const both = bidirectionalPlan(peers, microBatches, pairs);
      return { plan: both, schedule: chimera(both) };
    }
    case 'eager':
      return { plan, schedule: gpipe(plan), policy: eager(inFlightBounds(plan, warmup)) };
    case 'varuna':
      return { plan, schedule: varunaWork(plan), policy: varuna(inFlightBounds(plan, warmup), maxInFlight) };
    default:
      return assertNever(problem.schedule);
  }
}

/** The lists in the order of the peers' numbers. */
const seated = (schedule: Schedule, peers: readonly PeerId[]): Schedule =>
  new Map(peers.map((peer) => [peer, got(schedule, peer)]));

/** Also for planners that try a problem's costs on orders of their own. */
export function costsOf(problem: SimulateProblem): Costs {
  const { stages, link, jitter, activationBytes, gradientBytes } = problem;
  const chunks = chunksOf(problem);
  const seconds =
    (field: 'forwardSeconds' | 'backwardSeconds', op: 'F' | 'R' | 'B') =>
    (stage: number, microBatch: number): number => {
      const whole = at(stages, stage % stages.length)[field] / chunks;
      if (jitter.computeSeconds === 0) return whole;
      return whole + jitterSeconds(jitter.seed, 'computing', { op, stage, microBatch }, jitter.computeSeconds);
    };
  const hops = stages.map((_, hop): LinkCost => {
    const limits = 'length' in link ? (link[hop] ?? link[0]) : link;
    return limits ? hopCost(limits) : { latencySeconds: 0, bytesPerSecond: null };
  });
  return {
    forwardSeconds: seconds('forwardSeconds', 'F'),
    recomputeSeconds: seconds('forwardSeconds', 'R'),
    backwardSeconds: seconds('backwardSeconds', 'B'),
    link(from, to, sent) {
      const cost = hops[hopOf(Number(from), Number(to), stages.length)];
      if (!cost) throw new RangeError(`peers ${from} and ${to} have no link`);
      if (jitter.linkSeconds === 0) return cost;
      const late = jitterSeconds(jitter.seed, 'travelling', sent, jitter.linkSeconds);
      return { ...cost, latencySeconds: cost.latencySeconds + late };
    },
    activationBytes: () => activationBytes,
    gradientBytes: () => gradientBytes,
  };
}

const hopCost = (limits: ProblemLink): LinkCost => ({
  latencySeconds: limits.latencySeconds,
  bytesPerSecond: linkRate(limits),
});

/** Neighbours i and i + 1 are joined by link i, the last peer and the first one by the last link. */
const hopOf = (a: number, b: number, peers: number): number => (Math.abs(a - b) === 1 ? Math.min(a, b) : peers - 1);

function summary(graph: WorkGraph, columns: TimelineColumns): Outcome {
  const makespan = columns.endSeconds.reduce((latest, end) => Math.max(latest, end), 0);
  const peers = peerLoads(graph, columns).map((own) => ({
    busySeconds: own.busySeconds,
    idleSeconds: Math.max(0, makespan - own.busySeconds),
    peakInFlight: own.peakInFlight,
  }));
  // Sums in another order may differ in their last bits.
  const busy = peers.reduce((sum, { busySeconds }) => sum + busySeconds, 0);
  const bubbleRatio = makespan === 0 ? 0 : Math.max(0, 1 - busy / (peers.length * makespan));
  const { actions, peerOf } = graph;
  return { makespanSeconds: makespan, bubbleRatio, peers, work: { actions, peerOf, ...columns } };
}
