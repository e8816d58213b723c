/** From a problem to its timeline: the placement, the order and the costs that it names, put together. */
import { assertNever, invariant, type PeerId, peerId, type Result, refusal, success } from '../base.ts';
import type { Plan } from '../plan.ts';
import { type Action, formatAction, type Schedule } from '../schedule/action.ts';
import { breadthFirst } from '../schedule/breadthFirst.ts';
import { deadlock } from '../schedule/check.ts';
import { chimera } from '../schedule/chimera.ts';
import type { Policy } from '../schedule/dispatch.ts';
import { eager } from '../schedule/eager.ts';
import { gpipe } from '../schedule/gpipe.ts';
import { workGraph } from '../schedule/graph.ts';
import { interleaved } from '../schedule/interleaved.ts';
import { inFlightBounds } from '../schedule/messageDriven.ts';
import { oneForwardOneBackward } from '../schedule/oneForwardOneBackward.ts';
import { wiring } from '../schedule/order.ts';
import { bidirectionalPlan, loopedPlan } from '../schedule/placement.ts';
import { varuna, varunaWork } from '../schedule/varuna.ts';
import { type Costs, simulateGraph } from '../simulate.ts';
import { makespanSeconds, type Timeline, tallies } from '../timeline.ts';
import { jitterSeconds } from './jitter.ts';
import { type LinkCost, linkRate } from './links.ts';
import { chunksOf, type ProblemLink, type SimulateProblem } from './problem.ts';

export interface Outcome {
  readonly makespanSeconds: number;
  readonly bubbleRatio: number;
  readonly peers: readonly {
    readonly busySeconds: number;
    readonly idleSeconds: number;
    readonly peakInFlight: number;
  }[];
  /** By start, then peer. */
  readonly timeline: readonly {
    readonly peer: number;
    readonly action: Action;
    readonly start: number;
    readonly end: number;
  }[];
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
  const timeline = simulateGraph(graph, costsOf(problem), policy);
  return Number.isFinite(makespanSeconds(timeline))
    ? success(summary(timeline, peers))
    : refusal('the times are too long to add up');
}

export const outcomeDocument = ({ timeline, ...totals }: Outcome) => ({
  ...totals,
  timeline: timeline.map(({ peer, action, start, end }) => ({ peer, action: formatAction(action), start, end })),
});

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
  new Map(peers.map((peer) => [peer, schedule.get(peer) ?? []]));

/** Also for planners that try a problem's costs on orders of their own. */
export function costsOf(problem: SimulateProblem): Costs {
  const { stages, link, jitter, activationBytes, gradientBytes } = problem;
  const chunks = chunksOf(problem);
  const seconds =
    (field: 'forwardSeconds' | 'backwardSeconds', op: 'F' | 'R' | 'B') =>
    (stage: number, microBatch: number): number => {
      const action: Action = { op, stage, microBatch };
      const whole = stages[stage % stages.length]?.[field] ?? 0;
      return whole / chunks + jitterSeconds(jitter.seed, 'computing', action, jitter.computeSeconds);
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
      invariant(cost, `peers ${from} and ${to} have no link`);
      const late = jitterSeconds(jitter.seed, 'travelling', sent, jitter.linkSeconds);
      return late === 0 ? cost : { ...cost, latencySeconds: cost.latencySeconds + late };
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

function summary(timeline: Timeline, peers: readonly PeerId[]): Outcome {
  const own = tallies(timeline);
  const makespan = makespanSeconds(timeline);
  const totals = peers.map((peer) => {
    const { busySeconds, peakInFlight } = own.get(peer) ?? { busySeconds: 0, peakInFlight: 0 };
    return { busySeconds, idleSeconds: Math.max(0, makespan - busySeconds), peakInFlight };
  });
  // Sums in another order may differ in their last bits.
  const busy = totals.reduce((sum, peer) => sum + peer.busySeconds, 0);
  const number = new Map(peers.map((peer, index) => [peer, index]));
  return {
    makespanSeconds: makespan,
    bubbleRatio: makespan === 0 ? 0 : Math.max(0, 1 - busy / (peers.length * makespan)),
    peers: totals,
    timeline: timeline.map(({ peer, action, startSeconds, endSeconds }) => ({
      peer: number.get(peer) ?? 0,
      action,
      start: startSeconds,
      end: endSeconds,
    })),
  };
}
