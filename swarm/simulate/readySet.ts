/**
 * The clock by time: for orders that follow messages, and where several peers share a line, it matters what is here first.
 * What is still to come is kept by when it comes: needs that are met, peers that are free, lines that move on. All of one
 * instant comes first; then each free peer of which something has changed starts what its chooser says. See SPEC.md, SI4.
 */
import { at, float, got, int, invariant, type PeerId } from '../base.ts';
import { isTransfer } from '../schedule/action.ts';
import { type Chooser, NO_WORK, type Policy } from '../schedule/policy.ts';
import { arrival, type SimulationClock, start } from './clock.ts';
import { instantEnd, type LineCost, type SharedLine, sharedLine } from './sharedLine.ts';

interface Run {
  readonly clock: SimulationClock;
  readonly chooser: Chooser;
  readonly coming: ReturnType<typeof byTime>;
  /** Needs of each piece of work that are not met. */
  readonly open: Int32Array;
  /** What each peer is at, or NO_WORK. */
  readonly busyWith: Int32Array;
  /** 1: something of this peer has changed. */
  readonly awake: Uint8Array;
  /** Those with several senders, by their place in the costs. */
  readonly lines: ReadonlyMap<number, SharedLine>;
  /** Places of lines with a message that is new or through. */
  readonly moved: Set<number>;
  now: number;
}

/** Answers when the last of it was. */
export function runByTime(clock: SimulationClock, costs: readonly LineCost[], policy: Policy): number {
  const run = begin(clock, costs, policy);
  const { coming, moved } = run;
  choose(run);
  moveLines(run);
  while (coming.count() > 0) {
    const until = instantEnd(coming.seconds());
    invariant(until >= run.now, 'a time of this simulation is not a number');
    while (coming.count() > 0 && coming.seconds() <= until) {
      run.now = coming.seconds();
      handle(run, coming.take());
      // Only where the instant has nothing else: all that is sent in it is weighed together.
      if (moved.size > 0 && !(coming.count() > 0 && coming.seconds() <= until)) moveLines(run);
    }
    choose(run);
    moveLines(run);
  }
  return run.now;
}

function begin(clock: SimulationClock, costs: readonly LineCost[], policy: Policy): Run {
  const { graph, messages } = clock;
  const open = graph.needs.slice();
  const awake = new Uint8Array(graph.peers.length).fill(1);
  const chooser = policy({
    graph,
    open,
    wake: (peer) => {
      awake[peer] = 1;
    },
  });
  for (let work = 0; work < open.length; work++) if (open[work] === 0) chooser.ready(work);
  const placeOf = (peer: PeerId): number => got(graph.placeOf, peer);
  const lines = Array.from(messages.shared, (place): [number, SharedLine] => {
    const { sharing, order } = at(costs, place);
    return [place, sharedLine(sharing, order?.map(placeOf))];
  });
  return {
    ...{ clock, chooser, open, awake },
    // Each arrow comes once, and has its line move on at most once more.
    coming: byTime(2 * graph.dependants.length + graph.peers.length),
    busyWith: new Int32Array(graph.peers.length).fill(NO_WORK),
    lines: new Map(lines),
    moved: new Set(),
    now: 0,
  };
}

/** Free peers start what their chooser says, the last one first, until none has anything to start at this instant. */
function choose(run: Run): void {
  const { awake, busyWith, chooser } = run;
  for (let peer = awake.lastIndexOf(1); peer >= 0; peer = awake.lastIndexOf(1)) {
    awake[peer] = 0;
    while (busyWith[peer] === NO_WORK) {
      const work = chooser.next(peer);
      if (work === NO_WORK) break;
      startNow(run, work, peer);
    }
  }
}

function startNow(run: Run, work: number, peer: number): void {
  const { clock, chooser, coming, busyWith } = run;
  const { graph } = clock;
  chooser.started?.(work);
  start(clock, work, peer, run.now, {
    // The peer itself goes on when it is free, whatever it has until then.
    met: (dependant, seconds) => {
      if (int(graph.peerOf, dependant) === peer) meet(run, dependant);
      else coming.add(seconds, dependant);
    },
    queued: (dependant, seconds) => coming.add(seconds, -dependant - 1),
  });
  if (isTransfer(at(graph.actions, work))) return;
  busyWith[peer] = work;
  coming.add(float(clock.freeSeconds, peer), graph.actions.length + peer);
}

// What comes is a number: a need of work n that is met n, the message for it that comes to its line -n - 1; after the work
// come peers that are free, and after them lines that move on.

function handle(run: Run, event: number): void {
  const { clock, chooser, busyWith, awake, moved } = run;
  const { actions, peers, peerOf, listFrom } = clock.graph;
  const { sender, channel, heldSeconds } = clock.messages;
  const [peer, line] = [event - actions.length, event - actions.length - peers.length];
  if (event < 0) {
    const work = -event - 1;
    const place = int(channel, work);
    const neededAt = work - int(listFrom, int(peerOf, work));
    got(run.lines, place).add(int(peerOf, int(sender, work)), { work, seconds: float(heldSeconds, work), neededAt });
    moved.add(place);
  } else if (peer < 0) meet(run, event);
  else if (line < 0) {
    chooser.ended?.(int(busyWith, peer));
    busyWith[peer] = NO_WORK;
    awake[peer] = 1;
  } else moved.add(line);
}

function meet({ open, chooser, awake, clock }: Run, work: number): void {
  const left = int(open, work) - 1;
  open[work] = left;
  if (left > 0) return;
  chooser.ready(work);
  awake[int(clock.graph.peerOf, work)] = 1;
}

/** What is through arrives a latency later. */
function moveLines({ clock, coming, lines, moved, now }: Run): void {
  const { actions, peers } = clock.graph;
  for (const place of moved) {
    const line = got(lines, place);
    for (const work of line.goOn(now)) coming.add(arrival(clock, work, now), work);
    const next = line.nextSeconds();
    if (next < Infinity) coming.add(next, actions.length + peers.length + place);
  }
  moved.clear();
}

/** Numbers that come out by their times: a heap. */
function byTime(capacity: number) {
  const [times, events] = [new Float64Array(capacity), new Int32Array(capacity)];
  let count = 0;
  const put = (index: number, seconds: number, event: number): void => {
    times[index] = seconds;
    events[index] = event;
  };
  return {
    count: () => count,
    /** When the first of some is. */
    seconds: () => float(times, 0),
    add(seconds: number, event: number): void {
      let index = count++;
      for (let parent = (index - 1) >> 1; index > 0 && float(times, parent) > seconds; parent = (index - 1) >> 1) {
        put(index, float(times, parent), int(events, parent));
        index = parent;
      }
      put(index, seconds, event);
    },
    take(): number {
      const first = int(events, 0);
      count--;
      const [seconds, event] = [float(times, count), int(events, count)];
      let index = 0;
      for (let child = 1; child < count; child = 2 * index + 1) {
        if (child + 1 < count && float(times, child + 1) < float(times, child)) child++;
        if (float(times, child) >= seconds) break;
        put(index, float(times, child), int(events, child));
        index = child;
      }
      put(index, seconds, event);
      return first;
    },
  };
}
