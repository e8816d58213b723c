/**
 * What a schedule would take: the same work that the executor runs, with durations from a cost model, answered with the
 * same type of timeline. Events are ends of actions and arrivals of messages; all events of one instant are handled
 * before any free peer asks its chooser for its next action: in list order, or by what has arrived. See SPEC.md,
 * rules SI.
 */
import { at, got, invariant, outside, type PeerId } from '../base.ts';
import type { Model } from '../model/model.ts';
import type { Plan } from '../plan/plan.ts';
import { type Action, formatAction, OP_INDEX, type Schedule, type StateAction } from '../schedule/action.ts';
import { type WorkGraph, workGraph, workOf } from '../schedule/graph.ts';
import { receiver, wiring } from '../schedule/order.ts';
import { type Chooser, inListOrder, NOTHING, type Policy } from '../schedule/policy.ts';
import { inStartOrder, type TimelineColumns, timelineOf } from '../timeline/columns.ts';
import type { Timeline } from '../timeline/timeline.ts';
import { type Awake, awakePeers } from './awake.ts';
import { addEvent, type EventHeap, eventHeap, instantEnd, nextSeconds, takeEvent } from './events.ts';
import { type LinkCost, linkQueues } from './links.ts';
import { type LineCost, type SharedLine, sharedLine } from './sharedLine.ts';

/** Each function is called once for each action, before time begins, or once for each message, in the order of events. */
export interface Costs {
  readonly forwardSeconds: (stage: number, microBatch: number, peer: PeerId) => number;
  readonly backwardSeconds: (stage: number, microBatch: number, peer: PeerId) => number;
  /** As a forward, where it is absent. */
  readonly recomputeSeconds?: (stage: number, microBatch: number, peer: PeerId) => number;
  /** Nothing, where it is absent. */
  readonly stateSeconds?: (action: StateAction, peer: PeerId) => number;
  readonly rest?: Rest;
  /** `sent` is the action whose outcome travels. */
  readonly link: (from: PeerId, to: PeerId, sent: Action) => LinkCost;
  /** Lines that several links share, each in one direction. None, where they are absent. */
  readonly lines?: readonly LineCost[];
  /** What a stage hands on to the next one, and as a gradient to the one before. */
  readonly activationBytes: (stage: number, microBatch: number) => number;
  readonly gradientBytes: (stage: number, microBatch: number) => number;
}

/** How peers rest that give a share of their time. */
interface Rest {
  /** Of these seconds of a piece of work, those after its outcome can leave. */
  readonly seconds: (peer: PeerId, seconds: number, action: Action) => number;
  /** Whoever had nothing to do for a while rests so much less after it, and no more. */
  readonly slackSeconds: number;
  /** When a peer is rested from the step before: at time 0 where this is absent, less than 0 for one that waited since. */
  readonly restedSeconds?: (peer: PeerId) => number;
}

const { SEND_F, SEND_B, RECV_B } = OP_INDEX;
const isSend = (op: number): boolean => op === SEND_F || op === SEND_B;
const isTransfer = (op: number): boolean => op >= SEND_F && op <= RECV_B;

/** A simulation under way. Work and peers are numbers, as in the graph. */
interface Run {
  readonly graph: WorkGraph;
  readonly costs: Costs;
  readonly chooser: Chooser;
  readonly events: EventHeap;
  readonly send: ReturnType<typeof linkQueues>;
  readonly lines: readonly SharedLine[];
  /** Places of lines with a message that is new or through. */
  readonly movedLines: Set<number>;
  /** What each piece of work takes; transfers take what their link does. */
  readonly seconds: Float64Array;
  /** Needs of each piece of work that have not ended. */
  readonly open: Int32Array;
  readonly busy: Uint8Array;
  /** When each peer came to what it does or waits for now. */
  readonly reachedSeconds: Float64Array;
  readonly startSeconds: Float64Array;
  readonly endSeconds: Float64Array;
  /** Until when each peer rests from its work so far. */
  readonly restedSeconds: Float64Array;
  /** Work whose outcome left for other peers before its peer had rested. */
  readonly handed: Uint8Array;
  /** Work in the order it started. */
  readonly started: Int32Array;
  startedCount: number;
  readonly awake: Awake;
  now: number;
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
export const simulateGraph = (graph: WorkGraph, costs: Costs, policy: Policy = inListOrder): Timeline =>
  timelineOf(graph, simulateColumns(graph, costs, policy));

/** The same as columns, by the number of the work: for timelines of millions. */
export function simulateColumns(graph: WorkGraph, costs: Costs, policy: Policy = inListOrder): TimelineColumns {
  const { started, startSeconds, endSeconds } = runToEnd(graph, costs, policy);
  return { order: inStartOrder(started, startSeconds), startSeconds, endSeconds };
}

/** What each piece of work takes and when it ends, by its number: for whoever tries many schedules. */
export const simulateEnds = (
  graph: WorkGraph,
  costs: Costs,
  policy: Policy = inListOrder,
): Pick<Run, 'seconds' | 'endSeconds' | 'restedSeconds'> => runToEnd(graph, costs, policy);

function runToEnd(graph: WorkGraph, costs: Costs, policy: Policy): Run {
  const run = begin(graph, costs, policy);
  const { events } = run;
  choose(run);
  moveLines(run);
  while (events.count > 0) {
    const until = instantEnd(nextSeconds(events));
    invariant(until >= run.now, 'a time of this simulation is not a number');
    while (events.count > 0 && nextSeconds(events) <= until) {
      run.now = nextSeconds(events);
      handle(run, takeEvent(events));
      // Only where the instant has no other event: all that is sent in it is weighed together.
      if (run.movedLines.size > 0 && !(events.count > 0 && nextSeconds(events) <= until)) moveLines(run);
    }
    choose(run);
    // Sends that peers have just started.
    moveLines(run);
  }
  // Past all numbers nothing ends any more: that is no deadlock.
  const stuck = Number.isFinite(run.now) ? run.endSeconds.findIndex(Number.isNaN) : -1;
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
  const chooser = policy({ graph, open, wake: awake.wake });
  for (let work = 0; work < count; work++) if (open[work] === 0) chooser.ready(work);
  for (let peer = 0; peer < graph.peers.length; peer++) awake.wake(peer);
  return {
    graph,
    costs,
    chooser,
    events: eventHeap(),
    send: linkQueues(graph.peers.length),
    lines: (costs.lines ?? []).map((line) =>
      sharedLine(
        line,
        line.order?.map((peer) => got(graph.placeOf, peer)),
      ),
    ),
    movedLines: new Set(),
    seconds: durations(graph, costs),
    open,
    busy: new Uint8Array(graph.peers.length),
    reachedSeconds: new Float64Array(graph.peers.length),
    startSeconds: new Float64Array(count),
    endSeconds: new Float64Array(count).fill(Number.NaN),
    restedSeconds: Float64Array.from(graph.peers, (peer) => costs.rest?.restedSeconds?.(peer) ?? 0),
    handed: new Uint8Array(costs.rest ? count : 0),
    started: new Int32Array(count),
    startedCount: 0,
    awake,
    now: 0,
  };
}

function durations({ actions, peers, listFrom }: WorkGraph, costs: Costs): Float64Array {
  const seconds = new Float64Array(actions.length);
  for (const [place, peer] of peers.entries())
    for (let work = at(listFrom, place), to = at(listFrom, place + 1); work < to; work++)
      seconds[work] = actionSeconds(actions[work] ?? outside(actions, work), peer, costs);
  return seconds;
}

/** Free peers start what their chooser says, until none has anything to start at this instant. */
function choose(run: Run): void {
  const { awake, busy, chooser } = run;
  for (let peer = awake.take(); peer !== NOTHING; peer = awake.take()) {
    while (busy[peer] === 0) {
      const work = chooser.next(peer);
      if (work === NOTHING) break;
      start(run, work, peer);
    }
  }
}

// Events are numbers: the end of work n is 2n, the arrival of a message for it 2n + 1, the start of its rest -n - 1. After
// the work come the lines: a message of line n may be through.

const lineEvent = ({ graph }: Run, line: number): number => -(graph.actions.length + line) - 1;

function handle(run: Run, event: number): void {
  const line = -event - 1 - run.graph.actions.length;
  if (line >= 0) run.movedLines.add(line);
  else if (event < 0) hand(run, -event - 1);
  else if (event & 1) meet(run, event >> 1);
  else end(run, event >> 1);
}

function start(run: Run, work: number, peer: number): void {
  const { graph, costs, events, reachedSeconds, startSeconds, now } = run;
  const op = graph.opOf[work] ?? outside(graph.opOf, work);
  run.started[run.startedCount++] = work;
  run.chooser.started?.(work);
  if (!isTransfer(op)) {
    startSeconds[work] = now;
    run.busy[peer] = 1;
    const seconds = run.seconds[work] ?? outside(run.seconds, work);
    const { action } = workOf(graph, work);
    const done = now + seconds - (costs.rest?.seconds(peerAt(graph, peer), seconds, action) ?? 0);
    const free = done < now + seconds ? Math.max(done, rested(run, peer, seconds)) : done;
    if (done < free) addEvent(events, done, -work - 1);
    addEvent(events, free, work * 2);
  } else if (isSend(op)) {
    startSeconds[work] = now;
    reachedSeconds[peer] = now;
    sendMessage(run, work, receiverOf(graph, work), work * 2);
  } else {
    // A receive is awaited from the moment the peer comes to it.
    startSeconds[work] = reachedSeconds[peer] ?? outside(reachedSeconds, peer);
    reachedSeconds[peer] = now;
    end(run, work);
  }
}

/** Until when this peer rests, after work that takes so long with its rest and begins now. */
function rested({ restedSeconds, costs, now }: Run, peer: number, seconds: number): number {
  const before = restedSeconds[peer] ?? outside(restedSeconds, peer);
  const until = Math.max(before, now - (costs.rest?.slackSeconds ?? 0)) + seconds;
  restedSeconds[peer] = until;
  return until;
}

/** The work has ended (a send: has arrived). What it yields goes to who waits for it. */
function end(run: Run, work: number): void {
  const { dependants, dependantsFrom, peerOf, opOf } = run.graph;
  const peer = peerOf[work] ?? outside(peerOf, work);
  run.endSeconds[work] = run.now;
  if (!isTransfer(opOf[work] ?? outside(opOf, work))) {
    run.busy[peer] = 0;
    run.reachedSeconds[peer] = run.now;
    run.awake.wake(peer);
  }
  run.chooser.ended?.(work);
  const last = dependantsFrom[work + 1] ?? outside(dependantsFrom, work + 1);
  for (let index = dependantsFrom[work] ?? outside(dependantsFrom, work); index < last; index++) {
    const dependant = dependants[index] ?? outside(dependants, index);
    if (run.handed[work] === 1 && peerOf[dependant] !== peer) continue;
    pass(run, work, dependant);
  }
}

/** What other peers wait for leaves; this peer is still at rest. */
function hand(run: Run, work: number): void {
  const { dependants, dependantsFrom, peerOf } = run.graph;
  run.handed[work] = 1;
  const last = dependantsFrom[work + 1] ?? outside(dependantsFrom, work + 1);
  for (let index = dependantsFrom[work] ?? outside(dependantsFrom, work); index < last; index++) {
    const dependant = dependants[index] ?? outside(dependants, index);
    if (peerOf[dependant] !== peerOf[work]) pass(run, work, dependant);
  }
}

/** To one of those who wait for it. Before lowering, what changes peers travels although no action says so. */
function pass(run: Run, work: number, dependant: number): void {
  const { peerOf, opOf } = run.graph;
  const to = peerOf[dependant] ?? outside(peerOf, dependant);
  if (to !== peerOf[work] && opOf[dependant] === opOf[work]) sendMessage(run, work, to, dependant * 2 + 1);
  else meet(run, dependant);
}

function meet({ open, chooser, awake, graph }: Run, work: number): void {
  const left = (open[work] ?? outside(open, work)) - 1;
  open[work] = left;
  if (left > 0) return;
  chooser.ready(work);
  awake.wake(graph.peerOf[work] ?? outside(graph.peerOf, work));
}

/** The outcome of this work goes there, and its arrival is an event. */
function sendMessage(run: Run, work: number, to: number, event: number): void {
  const { graph, costs, events, send, now } = run;
  const { action, peer } = workOf(graph, work);
  const from = graph.peerOf[work] ?? outside(graph.peerOf, work);
  const cost = costs.link(peer, peerAt(graph, to), action);
  const bytes = messageBytes(action, costs);
  if (cost.line === undefined) {
    addEvent(events, send(from, to, bytes, cost, now), event);
    return;
  }
  const { latencySeconds } = cost;
  // The end of a send goes to whoever receives it, an arrival to the work that it is for.
  const needing = event & 1 ? event >> 1 : at(graph.dependants, at(graph.dependantsFrom, work));
  const neededAt = needing - at(graph.listFrom, to);
  at(run.lines, cost.line).add(from, { bytes, neededAt, latencySeconds, event });
  run.movedLines.add(cost.line);
}

/** What is through arrives a latency later. */
function moveLines(run: Run): void {
  for (const place of run.movedLines) {
    const line = at(run.lines, place);
    for (const { event, latencySeconds } of line.goOn(run.now)) addEvent(run.events, run.now + latencySeconds, event);
    const next = line.nextSeconds();
    if (next < Infinity) addEvent(run.events, next, lineEvent(run, place));
  }
  run.movedLines.clear();
}

function receiverOf(graph: WorkGraph, work: number): number {
  const { action } = workOf(graph, work);
  if (action.op !== 'SEND_F' && action.op !== 'SEND_B') throw new RangeError(`work ${work} is no send`);
  return got(graph.placeOf, receiver(action.op, action.stage, action.microBatch, graph.wires));
}

const peerAt = ({ peers }: WorkGraph, place: number): PeerId => peers[place] ?? outside(peers, place);

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
    case 'SEND_F':
    case 'RECV_F':
    case 'SEND_B':
    case 'RECV_B':
      return 0;
    default:
      return costs.stateSeconds?.(action, peer) ?? 0;
  }
}
