/**
 * What a schedule would take: the same work that the executor runs, with durations from a cost model, answered with the
 * same type of timeline. Events are ends of actions and arrivals of messages; all events of one instant are handled
 * before any free peer asks its dispatcher for its next action: in list order, or by what has arrived. See SPEC.md,
 * rules SI.
 */
import { invariant, type PeerId } from './base.ts';
import type { Model } from './model.ts';
import type { Plan } from './plan.ts';
import { type Action, formatAction, isTransfer, type Schedule, type StageOp } from './schedule/action.ts';
import { type Dispatcher, inListOrder, NOTHING, type Policy } from './schedule/dispatch.ts';
import { type WorkGraph, workGraph, workOf } from './schedule/graph.ts';
import { receiver, wiring } from './schedule/order.ts';
import { type Events, eventHeap } from './simulate/events.ts';
import { type LinkCost, linkQueues } from './simulate/links.ts';
import type { Span, Timeline } from './timeline.ts';

/** Each function is called once for each action or message, in the order of events: they may draw seeded jitter. */
export interface Costs {
  readonly forwardSeconds: (stage: number, microBatch: number, peer: PeerId) => number;
  readonly backwardSeconds: (stage: number, microBatch: number, peer: PeerId) => number;
  /** As a forward, where it is absent. */
  readonly recomputeSeconds?: (stage: number, microBatch: number, peer: PeerId) => number;
  /** Nothing, where it is absent. */
  readonly stateSeconds?: (op: StageOp, stage: number, peer: PeerId) => number;
  /** Of these seconds of a piece of work, those after its outcome can leave: a peer that gives a share of its time rests. */
  readonly restSeconds?: (peer: PeerId, seconds: number) => number;
  /** `sent` is the action whose outcome travels. */
  readonly link: (from: PeerId, to: PeerId, sent: Action) => LinkCost;
  /** What a stage hands on to the next one, and as a gradient to the one before. */
  readonly activationBytes: (stage: number, microBatch: number) => number;
  readonly gradientBytes: (stage: number, microBatch: number) => number;
}

/** A simulation under way. Work and peers are numbers, as in the graph. */
interface Run {
  readonly graph: WorkGraph;
  readonly costs: Costs;
  readonly dispatcher: Dispatcher;
  readonly events: Events;
  readonly send: ReturnType<typeof linkQueues>;
  /** Needs of each piece of work that have not ended. */
  readonly open: Int32Array;
  readonly busy: Uint8Array;
  /** When each peer came to what it does or waits for now. */
  readonly reachedSeconds: Float64Array;
  readonly startSeconds: Float64Array;
  readonly endSeconds: Float64Array;
  /** Work whose outcome left for other peers before its peer had rested. */
  readonly handed: Uint8Array;
  /** Work in the order it started. */
  readonly started: Int32Array;
  startedCount: number;
  readonly awake: Awake;
}

/** Runs a schedule that has no scheduleProblems, lowered or not. Time 0 is the step's start. */
export function simulate(
  model: Pick<Model, 'tied'>,
  plan: Plan,
  schedule: Schedule,
  costs: Costs,
  policy: Policy = inListOrder,
): Timeline {
  return simulateGraph(workGraph(wiring(model, plan, schedule), schedule), costs, policy);
}

/** The same, of a schedule that is numbered already: for whoever tries several costs on one. */
export function simulateGraph(graph: WorkGraph, costs: Costs, policy: Policy = inListOrder): Timeline {
  return timelineOf(runToEnd(graph, costs, policy));
}

/** When each piece of work ends, by its number: for whoever tries many schedules and wants no timeline of them. */
export function simulateEnds(graph: WorkGraph, costs: Costs, policy: Policy = inListOrder): Float64Array {
  return runToEnd(graph, costs, policy).endSeconds;
}

function runToEnd(graph: WorkGraph, costs: Costs, policy: Policy): Run {
  const run = begin(graph, costs, policy);
  const handle = (event: number, seconds: number): void => {
    if (event < 0) hand(run, -event - 1, seconds);
    else if (event & 1) meet(run, event >> 1);
    else end(run, event >> 1, seconds);
  };
  choose(run, 0);
  for (let now = run.events.runInstant(handle); now !== null; now = run.events.runInstant(handle)) choose(run, now);
  const stuck = run.endSeconds.findIndex(Number.isNaN);
  if (stuck !== -1) {
    const { peer, action } = workOf(graph, stuck);
    invariant(false, `${peer} cannot start ${formatAction(action)}: see SC9`);
  }
  return run;
}

function begin(graph: WorkGraph, costs: Costs, policy: Policy): Run {
  const count = graph.actions.length;
  const open = graph.needs.slice();
  const awake = awakePeers(graph.peers.length);
  const dispatcher = policy({ graph, open, wake: awake.wake });
  for (let work = 0; work < count; work++) if (open[work] === 0) dispatcher.ready(work);
  for (let peer = 0; peer < graph.peers.length; peer++) awake.wake(peer);
  return {
    graph,
    costs,
    dispatcher,
    events: eventHeap(),
    send: linkQueues(graph.peers.length),
    open,
    busy: new Uint8Array(graph.peers.length),
    reachedSeconds: new Float64Array(graph.peers.length),
    startSeconds: new Float64Array(count),
    endSeconds: new Float64Array(count).fill(Number.NaN),
    handed: new Uint8Array(count),
    started: new Int32Array(count),
    startedCount: 0,
    awake,
  };
}

type Awake = ReturnType<typeof awakePeers>;

/** Peers of which something has changed, the last one first: what a later stage starts, an earlier one sees at once. */
function awakePeers(count: number) {
  const waiting = new Uint8Array(count);
  const list = new Int32Array(count);
  let length = 0;
  return {
    wake(peer: number): void {
      if (waiting[peer] === 1) return;
      waiting[peer] = 1;
      let index = length++;
      for (; index > 0 && (list[index - 1] ?? 0) > peer; index--) list[index] = list[index - 1] ?? 0;
      list[index] = peer;
    },
    /** NOTHING, when all are asleep. */
    take(): number {
      if (length === 0) return NOTHING;
      const peer = list[--length] ?? 0;
      waiting[peer] = 0;
      return peer;
    },
  };
}

/** Free peers start what their dispatcher says, until none has anything to start at this instant. */
function choose(run: Run, now: number): void {
  const { awake, busy, dispatcher } = run;
  for (let peer = awake.take(); peer !== NOTHING; peer = awake.take()) {
    while (busy[peer] === 0) {
      const work = dispatcher.next(peer);
      if (work === NOTHING) break;
      start(run, work, peer, now);
    }
  }
}

function start(run: Run, work: number, peer: number, now: number): void {
  const { graph, costs, events, reachedSeconds, startSeconds } = run;
  const action = actionOf(graph, work);
  run.started[run.startedCount++] = work;
  run.dispatcher.started?.(work);
  if (action.op === 'SEND_F' || action.op === 'SEND_B') {
    startSeconds[work] = now;
    const to = receiver(action.op, action.stage, action.microBatch, graph.wires);
    const arrival = sendMessage(run, action, peer, graph.placeOf.get(to) ?? 0, now);
    events.add(arrival, work * 2);
    reachedSeconds[peer] = now;
  } else if (isTransfer(action)) {
    // A receive is awaited from the moment the peer comes to it.
    startSeconds[work] = reachedSeconds[peer] ?? 0;
    reachedSeconds[peer] = now;
    end(run, work, now);
  } else {
    startSeconds[work] = now;
    run.busy[peer] = 1;
    const seconds = actionSeconds(action, peerAt(graph, peer), costs);
    const rest = costs.restSeconds?.(peerAt(graph, peer), seconds) ?? 0;
    if (rest > 0) events.add(now + seconds - rest, -work - 1);
    events.add(now + seconds, work * 2);
  }
}

/** The work has ended (a send: has arrived). What it yields goes to who waits for it. */
function end(run: Run, work: number, seconds: number): void {
  const { graph } = run;
  const { dependants, dependantsFrom, peerOf } = graph;
  const action = actionOf(graph, work);
  const peer = peerOf[work] ?? 0;
  run.endSeconds[work] = seconds;
  if (!isTransfer(action)) {
    run.busy[peer] = 0;
    run.reachedSeconds[peer] = seconds;
    run.awake.wake(peer);
  }
  run.dispatcher.ended?.(work);
  const last = dependantsFrom[work + 1] ?? 0;
  for (let index = dependantsFrom[work] ?? 0; index < last; index++) {
    const dependant = dependants[index] ?? 0;
    const to = peerOf[dependant] ?? 0;
    if (to !== peer && run.handed[work] === 1) continue;
    pass(run, work, dependant, seconds);
  }
}

/** What other peers wait for leaves; this peer is still at rest. */
function hand(run: Run, work: number, seconds: number): void {
  const { dependants, dependantsFrom, peerOf } = run.graph;
  const peer = peerOf[work] ?? 0;
  run.handed[work] = 1;
  const last = dependantsFrom[work + 1] ?? 0;
  for (let index = dependantsFrom[work] ?? 0; index < last; index++) {
    const dependant = dependants[index] ?? 0;
    const to = peerOf[dependant] ?? 0;
    if (to !== peer) pass(run, work, dependant, seconds);
  }
}

/** To one of those who wait for it. Before lowering, what changes peers travels although no action says so. */
function pass(run: Run, work: number, dependant: number, seconds: number): void {
  const { graph, events } = run;
  const [peer, to] = [graph.peerOf[work] ?? 0, graph.peerOf[dependant] ?? 0];
  const action = actionOf(graph, work);
  const travels = to !== peer && actionOf(graph, dependant).op === action.op;
  if (travels) events.add(sendMessage(run, action, peer, to, seconds), dependant * 2 + 1);
  else meet(run, dependant);
}

function meet({ open, dispatcher, awake, graph }: Run, work: number): void {
  const left = (open[work] ?? 0) - 1;
  open[work] = left;
  if (left > 0) return;
  dispatcher.ready(work);
  awake.wake(graph.peerOf[work] ?? 0);
}

function actionOf({ actions }: WorkGraph, work: number): Action {
  const action = actions[work];
  invariant(action, `there is no work ${work}`);
  return action;
}

function peerAt({ peers }: WorkGraph, place: number): PeerId {
  const peer = peers[place];
  invariant(peer !== undefined, `there is no peer ${place}`);
  return peer;
}

/** When the outcome of this action arrives there. */
function sendMessage({ graph, costs, send }: Run, action: Action, from: number, to: number, now: number): number {
  const cost = costs.link(peerAt(graph, from), peerAt(graph, to), action);
  return send(from, to, messageBytes(action, costs), cost, now);
}

function messageBytes(action: Action, costs: Costs): number {
  switch (action.op) {
    case 'F':
    case 'SEND_F':
      return costs.activationBytes(action.stage, action.microBatch);
    case 'B':
    case 'SEND_B':
      return costs.gradientBytes(action.stage, action.microBatch);
    default:
      return 0;
  }
}

function actionSeconds(action: Action, peer: PeerId, costs: Costs): number {
  switch (action.op) {
    case 'F':
      return costs.forwardSeconds(action.stage, action.microBatch, peer);
    case 'R':
      return (costs.recomputeSeconds ?? costs.forwardSeconds)(action.stage, action.microBatch, peer);
    case 'B':
      return costs.backwardSeconds(action.stage, action.microBatch, peer);
    case 'REDUCE':
    case 'UPDATE':
    case 'GATHER':
      return costs.stateSeconds?.(action.op, action.stage, peer) ?? 0;
    default:
      return 0;
  }
}

/** By start, then peer in the schedule's order, then place in the peer's list: work is numbered that way. */
function timelineOf({ graph, started, startSeconds, endSeconds }: Run): Timeline {
  // At one instant peers chose from the last to the first.
  reverseInstants(started, startSeconds);
  sortNearlySorted(started, startSeconds);
  const timeline: Span[] = [];
  for (const work of started)
    timeline.push({
      peer: peerAt(graph, graph.peerOf[work] ?? 0),
      action: actionOf(graph, work),
      startSeconds: startSeconds[work] ?? 0,
      endSeconds: endSeconds[work] ?? 0,
    });
  return timeline;
}

function reverseInstants(list: Int32Array, seconds: Float64Array): void {
  for (let from = 0, to = 1; from < list.length; from = to++) {
    const now = seconds[list[from] ?? 0];
    while (to < list.length && seconds[list[to] ?? 0] === now) to++;
    for (let low = from, high = to - 1; low < high; low++, high--) {
      const item = list[low] ?? 0;
      list[low] = list[high] ?? 0;
      list[high] = item;
    }
  }
}

/** By seconds, then number. By insertion: work is noted as it starts, so that little has to move. */
function sortNearlySorted(list: Int32Array, seconds: Float64Array): void {
  for (let end = 1; end < list.length; end++) {
    const item = list[end] ?? 0;
    const own = seconds[item] ?? 0;
    let index = end;
    for (; index > 0; index--) {
      const other = list[index - 1] ?? 0;
      const before = (seconds[other] ?? 0) - own;
      if (before < 0 || (before === 0 && other < item)) break;
      list[index] = other;
    }
    list[index] = item;
  }
}
