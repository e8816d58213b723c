/**
 * The simulator's one clock: what each piece of work takes and what its messages take, and from that, where a piece starts,
 * when it ends and when its outcome is at those who need it. Who asks decides only which piece comes next. See SPEC.md,
 * rules SI.
 *
 * Work and peers are numbers, as in the graph. What hands one message on after the other is a channel: the direction of a
 * link that has a rate, or a line. A channel with one sender carries what it is given in that order, so that a message's
 * arrival is known as it leaves; a line with several senders decides by time (sharedLine.ts).
 */
import { at, float, int, outside, type PeerId } from '../base.ts';
import { type Action, isTransfer, OP_INDEX, type StateAction } from '../schedule/action.ts';
import { type WorkGraph, workOf } from '../schedule/graph.ts';
import type { LinkCost } from './links.ts';
import type { LineCost } from './sharedLine.ts';

/** Each function is called once for each action, or once for each message, before time begins; only `rest` as work starts. */
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

const NONE = -1;
const { SEND_F, SEND_B, RECV_F, RECV_B } = OP_INDEX;
const isSend = (op: number): boolean => op === SEND_F || op === SEND_B;
const isReceive = (op: number): boolean => op === RECV_F || op === RECV_B;

/** The message that brings each piece of work its input, by that piece's number: it has one at most. */
interface Messages {
  /** The work whose outcome it is, or NONE. */
  readonly sender: Int32Array;
  /** Lines first, by their place in the costs; NONE: it waits for no other. */
  readonly channel: Int32Array;
  /** So long it holds its channel. */
  readonly heldSeconds: Float64Array;
  readonly latencySeconds: Float64Array;
  /** When each channel is free. */
  readonly freeSeconds: Float64Array;
  /** Places of lines that several peers send over. */
  readonly shared: ReadonlySet<number>;
}

export interface SimulationClock {
  readonly graph: WorkGraph;
  readonly rest: Rest | undefined;
  readonly messages: Messages;
  /** What each piece of work takes; transfers take what their message does. */
  readonly seconds: Float64Array;
  readonly startSeconds: Float64Array;
  /** NaN: has not started. A send ends when it has arrived. */
  readonly endSeconds: Float64Array;
  /** When each peer is through with what it has started. */
  readonly freeSeconds: Float64Array;
  /** Until when each peer rests from its work so far. */
  readonly restedSeconds: Float64Array;
}

export function clockOf(graph: WorkGraph, costs: Costs): SimulationClock {
  const count = graph.actions.length;
  return {
    graph,
    rest: costs.rest,
    messages: messagesOf(graph, costs),
    seconds: durations(graph, costs),
    startSeconds: new Float64Array(count),
    endSeconds: new Float64Array(count).fill(Number.NaN),
    freeSeconds: new Float64Array(graph.peers.length),
    restedSeconds: Float64Array.from(graph.peers, (peer) => costs.rest?.restedSeconds?.(peer) ?? 0),
  };
}

function durations({ actions, peers, listFrom }: WorkGraph, costs: Costs): Float64Array {
  const seconds = new Float64Array(actions.length);
  for (const [place, peer] of peers.entries())
    for (let work = int(listFrom, place), to = int(listFrom, place + 1); work < to; work++)
      seconds[work] = actionSeconds(at(actions, work), peer, costs);
  return seconds;
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

/** What a send sends travels, and before lowering whatever goes on at another peer, although no action says so. */
function messagesOf(graph: WorkGraph, costs: Costs): Messages {
  const { actions, peers, peerOf, opOf, listFrom, dependants, dependantsFrom } = graph;
  const { lines = [] } = costs;
  const column = () => new Int32Array(actions.length).fill(NONE);
  const [sender, channel, heldSeconds, latencySeconds] = [
    ...[column(), column()],
    ...[new Float64Array(actions.length), new Float64Array(actions.length)],
  ] as const;
  const lineSender = new Int32Array(lines.length).fill(NONE);
  const shared = new Set<number>();
  let channels = lines.length;
  const channelTo = new Int32Array(peers.length);
  const note = (work: number, from: number, dependant: number): void => {
    const to = int(peerOf, dependant);
    const action = at(actions, work);
    const { line, bytesPerSecond, latencySeconds: latency } = costs.link(at(peers, from), at(peers, to), action);
    const bytes = messageBytes(action, costs);
    sender[dependant] = work;
    latencySeconds[dependant] = latency;
    if (line !== undefined) {
      channel[dependant] = line;
      heldSeconds[dependant] = bytes / at(lines, line).bytesPerSecond;
      if (lineSender[line] === NONE) lineSender[line] = from;
      else if (lineSender[line] !== from) shared.add(line);
    } else if (bytesPerSecond !== null) {
      if (channelTo[to] === NONE) channelTo[to] = channels++;
      channel[dependant] = int(channelTo, to);
      heldSeconds[dependant] = bytes / bytesPerSecond;
    }
  };
  for (let from = 0; from < peers.length; from++) {
    channelTo.fill(NONE);
    for (let work = int(listFrom, from), to = int(listFrom, from + 1); work < to; work++) {
      const op = opOf[work] ?? outside(opOf, work);
      for (let arrow = int(dependantsFrom, work), last = int(dependantsFrom, work + 1); arrow < last; arrow++) {
        const dependant = int(dependants, arrow);
        if (int(peerOf, dependant) !== from && (isSend(op) || opOf[dependant] === op)) note(work, from, dependant);
      }
    }
  }
  return { sender, channel, heldSeconds, latencySeconds, freeSeconds: new Float64Array(channels), shared };
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

/** Who is told, as a piece of work starts, what comes of it. */
interface Listener {
  /** One of this work's needs will be met then. */
  readonly met: (work: number, seconds: number) => void;
  /** The message for this work comes to a line then that several peers send over. */
  readonly queued: (work: number, seconds: number) => void;
}

/** The peer starts this work now: it is free, and what the work needs is here. */
export function start(clock: SimulationClock, work: number, peer: number, now: number, listener: Listener): void {
  const { graph, messages, startSeconds, endSeconds, freeSeconds } = clock;
  const { dependants, dependantsFrom, opOf } = graph;
  // A receive is awaited from the moment the peer comes to it.
  startSeconds[work] = isReceive(opOf[work] ?? NONE) ? float(freeSeconds, peer) : now;
  const seconds = float(clock.seconds, work);
  const resting = clock.rest ? restSeconds(clock.rest, graph, work, seconds) : 0;
  // What others need leaves before the peer has rested; itself it goes on only then.
  const done = now + seconds - resting;
  const free = done < now + seconds ? Math.max(done, rested(clock, peer, now, seconds)) : done;
  freeSeconds[peer] = free;
  endSeconds[work] = free;
  for (let arrow = int(dependantsFrom, work), last = int(dependantsFrom, work + 1); arrow < last; arrow++) {
    const dependant = int(dependants, arrow);
    if (messages.sender[dependant] !== work) listener.met(dependant, done);
    else if (messages.shared.has(int(messages.channel, dependant))) listener.queued(dependant, done);
    else listener.met(dependant, arrival(clock, dependant, through(messages, dependant, done)));
  }
}

const restSeconds = (rest: Rest, graph: WorkGraph, work: number, seconds: number): number => {
  const { peer, action } = workOf(graph, work);
  return isTransfer(action) ? 0 : rest.seconds(peer, seconds, action);
};

/** Until when this peer rests, after work that takes so long with its rest and begins now. */
function rested({ restedSeconds, rest }: SimulationClock, peer: number, now: number, seconds: number): number {
  const until = Math.max(float(restedSeconds, peer), now - (rest?.slackSeconds ?? 0)) + seconds;
  restedSeconds[peer] = until;
  return until;
}

/** When the message for this work has left its channel, which it comes to now. */
function through({ channel, heldSeconds, freeSeconds }: Messages, work: number, now: number): number {
  const place = int(channel, work);
  if (place === NONE) return now;
  const until = Math.max(now, float(freeSeconds, place)) + float(heldSeconds, work);
  freeSeconds[place] = until;
  return until;
}

/** When the message for this work is here, which leaves its channel now. */
export function arrival({ messages, graph, endSeconds }: SimulationClock, work: number, now: number): number {
  const seconds = now + float(messages.latencySeconds, work);
  const sender = int(messages.sender, work);
  if (isSend(graph.opOf[sender] ?? NONE)) endSeconds[sender] = seconds;
  return seconds;
}
