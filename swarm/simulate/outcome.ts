/** From a problem to its timeline: the placement, the order and the costs that it names, put together. */
import { at, float, int, invariant, normal, type Result, refusal, seededRandom, success, totalOf } from '../base.ts';
import { type Action, formatAction, MICRO_OPS, type MicroAction } from '../schedule/action.ts';
import { deadlock } from '../schedule/check.ts';
import { type WorkGraph, workGraph } from '../schedule/graph.ts';
import { wiring } from '../schedule/order.ts';
import { inStartOrder, peerLoads, type TimelineColumns } from '../timeline/columns.ts';
import type { Costs } from './clock.ts';
import { type LinkCost, linkRate } from './links.ts';
import { problemPipelines } from './pipelines.ts';
import { chunksOf, type ProblemLink, type SimulateProblem } from './problem.ts';
import { type Served, serve } from './served.ts';
import type { LineCost } from './sharedLine.ts';
import { simulateEnds } from './simulate.ts';

export interface SimulationOutcome {
  readonly makespanSeconds: number;
  readonly bubbleRatio: number;
  readonly peers: readonly {
    readonly busySeconds: number;
    readonly idleSeconds: number;
    readonly peakInFlight: number;
  }[];
  /** Of a problem with requests: what of them goes into the idle time. */
  readonly served?: Served;
  /** The timeline, as columns by the number of the work: see barsOf. */
  readonly work: Pick<WorkGraph, 'actions' | 'peerOf'> &
    TimelineColumns & {
      /** Of one pipeline: the next one's numbers go on from there. */
      readonly microBatches: number;
    };
}

/** An action in the timeline: who does it, and from when to when. */
export interface Bar {
  readonly peer: number;
  readonly action: MicroAction;
  readonly start: number;
  readonly end: number;
}

/** What the problem comes to, or why it cannot run. */
export function outcomeOf(problem: SimulateProblem): Result<SimulationOutcome> {
  const { plan, schedule, policy } = problemPipelines(problem);
  const graph = workGraph(wiring({ tied: false }, plan, schedule), schedule);
  // The lists of a policy have no order to be judged.
  const [wrong] = policy ? [] : deadlock(graph, schedule);
  if (wrong) return refusal(`this order cannot run: ${wrong.text}`);
  const outcome = summary(problem, graph, simulateEnds(graph, costsOf(problem), policy));
  if (!Number.isFinite(outcome.makespanSeconds)) return refusal('the times are too long to add up');
  const { pieces = 0 } = outcome.served ?? {};
  if (!Number.isFinite(pieces)) return refusal('requests.pieceSeconds is too short for its pieces to be counted');
  return success(outcome);
}

/** By start, then peer. */
export const barsOf = (outcome: SimulationOutcome): Bar[] =>
  barList(outcome, (peer, action, start, end): Bar => ({ peer, action, start, end }));

export function outcomeDocument(outcome: SimulationOutcome) {
  const { makespanSeconds, bubbleRatio, peers, served } = outcome;
  const timeline = barList(outcome, (peer, action, start, end) => ({ peer, action: formatAction(action), start, end }));
  const answered = served === undefined ? {} : { served: { pieces: served.pieces, busyRatio: served.busyRatio } };
  return { makespanSeconds, bubbleRatio, peers, ...answered, timeline };
}

function barList<T>(
  { work }: SimulationOutcome,
  bar: (peer: number, action: MicroAction, start: number, end: number) => T,
): T[] {
  const { microBatches, actions, peerOf, startSeconds, endSeconds } = work;
  return inStartOrder(work).map((number) => {
    const action = actions[number];
    invariant(action && 'microBatch' in action, 'a problem has work on micro-batches alone');
    const own = { ...action, microBatch: action.microBatch % microBatches };
    return bar(int(peerOf, number), own, float(startSeconds, number), float(endSeconds, number));
  });
}

/** Also for planners that try a problem's costs on orders of their own. */
export function costsOf(problem: SimulateProblem): Costs {
  const { stages, link, jitter, microBatches, activationBytes, gradientBytes } = problem;
  const chunks = chunksOf(problem);
  // Every pipeline meets with the same weather.
  const weather = (what: 'computing' | 'travelling', action: MicroAction, seconds: number): number =>
    jitterSeconds(jitter.seed, what, { ...action, microBatch: action.microBatch % microBatches }, seconds);
  const seconds =
    (field: 'forwardSeconds' | 'backwardSeconds', op: 'F' | 'R' | 'B') =>
    (stage: number, microBatch: number): number => {
      const whole = at(stages, stage % stages.length)[field] / chunks;
      if (jitter.computeSeconds === 0) return whole;
      return whole + weather('computing', { op, stage, microBatch }, jitter.computeSeconds);
    };
  const hops = stages.map((_, hop): LinkCost => {
    const limits = 'length' in link ? (link[hop] ?? link[0]) : link;
    return limits ? hopCost(limits) : { latencySeconds: 0, bytesPerSecond: null };
  });
  const { lines, lineOf } = sharedLinesOf(problem, hops);
  return {
    forwardSeconds: seconds('forwardSeconds', 'F'),
    recomputeSeconds: seconds('forwardSeconds', 'R'),
    backwardSeconds: seconds('backwardSeconds', 'B'),
    lines,
    link(from, to, sent) {
      const [a, b] = [Number(from) % stages.length, Number(to) % stages.length];
      const hop = hopOf(a, b, stages.length);
      const line = lineOf(hop, a < b);
      const cost = line === undefined ? at(hops, hop) : { ...at(hops, hop), line };
      if (jitter.linkSeconds === 0 || !('microBatch' in sent)) return cost;
      return { ...cost, latencySeconds: cost.latencySeconds + weather('travelling', sent, jitter.linkSeconds) };
    },
    activationBytes: () => activationBytes,
    gradientBytes: () => gradientBytes,
  };
}

/** A line each way for each shared link that has a limit. */
function sharedLinesOf({ sharedLinks, sharing = 'mixed' }: SimulateProblem, hops: readonly LinkCost[]) {
  const lines: LineCost[] = [];
  const places = new Map<number, number>();
  for (const hop of sharedLinks) {
    const { bytesPerSecond } = at(hops, hop);
    if (bytesPerSecond === null) continue;
    places.set(hop, lines.length);
    lines.push({ sharing, bytesPerSecond }, { sharing, bytesPerSecond });
  }
  const lineOf = (hop: number, onward: boolean): number | undefined => {
    const place = places.get(hop);
    return place === undefined || onward ? place : place + 1;
  };
  return { lines, lineOf };
}

const hopCost = (limits: ProblemLink): LinkCost => ({
  latencySeconds: limits.latencySeconds,
  bytesPerSecond: linkRate(limits),
});

/** Neighbours i and i + 1 are joined by link i, the last peer and the first one by the last link. */
const hopOf = (a: number, b: number, peers: number): number => (Math.abs(a - b) === 1 ? Math.min(a, b) : peers - 1);

function summary(problem: SimulateProblem, graph: WorkGraph, columns: TimelineColumns): SimulationOutcome {
  const { microBatches, requests } = problem;
  const makespan = columns.endSeconds.reduce((latest, end) => Math.max(latest, end), 0);
  const peers = peerLoads(graph, columns).map((own) => ({
    busySeconds: own.busySeconds,
    idleSeconds: Math.max(0, makespan - own.busySeconds),
    peakInFlight: own.peakInFlight,
  }));
  // Sums in another order may differ in their last bits.
  const busy = totalOf(peers, ({ busySeconds }) => busySeconds);
  const bubbleRatio = makespan === 0 ? 0 : Math.max(0, 1 - busy / (peers.length * makespan));
  const { actions, peerOf } = graph;
  const { startSeconds, endSeconds } = columns;
  const work = { microBatches, actions, peerOf, startSeconds, endSeconds };
  const outcome = { makespanSeconds: makespan, bubbleRatio, peers, work };
  if (requests === undefined) return outcome;
  const trained = { peers: peers.length, makespanSeconds: makespan, busySeconds: busy, columns, peerOf };
  return { ...outcome, served: serve(trained, requests) };
}

type Delayed = 'computing' | 'travelling';

/**
 * Seeded delays: |N(0, 1)| times so many seconds, zero for work of no micro-batch. Each is a function of the seed and of what
 * it delays, never of the order in which things happen, so that two schedules of one problem meet with the same weather.
 */
function jitterSeconds(seed: number, what: Delayed, action: Action, seconds: number): number {
  if (seconds === 0 || !('microBatch' in action)) return 0;
  let hash = mix(seed);
  // A seed may have more than 32 bits.
  for (const part of [
    Math.floor(seed / 2 ** 32),
    MICRO_OPS.indexOf(action.op) * 2 + (what === 'travelling' ? 1 : 0),
    action.stage,
    action.microBatch,
  ])
    hash = mix(hash ^ mix(part + 1));
  return Math.abs(normal(seededRandom(hash))) * seconds;
}

/** Spreads 32 bits over 32 bits (MurmurHash3's finalizer). */
function mix(value: number): number {
  let bits = (value ^ (value >>> 16)) + 0x9e3779b9;
  bits = Math.imul(bits ^ (bits >>> 16), 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}
