/**
 * What a schedule would take: the same lists the executor runs, with durations from a cost model, answered with the
 * same type of timeline. Events are ends of actions and arrivals of messages; all events of one instant are handled
 * before any peer chooses its next action. See SPEC.md, rules SI.
 */
import { invariant, type PeerId } from './base.ts';
import type { Model } from './model.ts';
import { type Plan, peers } from './plan.ts';
import {
  type Action,
  formatAction,
  isTransfer,
  type Schedule,
  type StageOp,
  type Work,
  workKey,
} from './schedule/action.ts';
import { before, receiver, type Wiring, wiring } from './schedule/order.ts';
import type { Span, Timeline } from './timeline.ts';

export interface LinkCost {
  /** One way. */
  readonly latencySeconds: number;
  /** Null: unlimited. */
  readonly bytesPerSecond: number | null;
}

/** Each function is called once for each action or message, in the order of events: they may draw seeded jitter. */
export interface Costs {
  readonly forwardSeconds: (stage: number, microBatch: number, peer: PeerId) => number;
  readonly backwardSeconds: (stage: number, microBatch: number, peer: PeerId) => number;
  /** As a forward, where it is absent. */
  readonly recomputeSeconds?: (stage: number, microBatch: number, peer: PeerId) => number;
  /** Nothing, where it is absent. */
  readonly stateSeconds?: (op: StageOp, stage: number, peer: PeerId) => number;
  readonly link: (from: PeerId, to: PeerId) => LinkCost;
  /** What a stage hands on to the next one, and as a gradient to the one before. */
  readonly activationBytes: (stage: number, microBatch: number) => number;
  readonly gradientBytes: (stage: number, microBatch: number) => number;
}

interface PeerState {
  readonly peer: PeerId;
  readonly list: readonly Action[];
  next: number;
  /** When the action at `next` came to the head of the list. */
  reachedSeconds: number;
  busy: boolean;
}

/** Runs a schedule that has no scheduleProblems, lowered or not. Time 0 is the step's start. */
export function simulate(model: Pick<Model, 'tied'>, plan: Plan, schedule: Schedule, costs: Costs): Timeline {
  const wires = wiring(model, plan, schedule);
  const needs = indexNeeds(schedule, wires);
  const queue = eventQueue();
  const links = linkTimes(costs);
  const spans: Span[] = [];
  const states = [...schedule].map(
    ([peer, list]): PeerState => ({ peer, list, next: 0, reachedSeconds: 0, busy: false }),
  );

  const end = (work: Work, startSeconds: number, endSeconds: number): void => {
    spans.push({ ...work, startSeconds, endSeconds });
    for (const dependant of needs.dependants(work)) {
      if (!impliesMessage(work, dependant)) needs.meet(dependant);
      else
        queue.add(links.send(work.peer, dependant.peer, messageBytes(work.action, costs), endSeconds), () =>
          needs.meet(dependant),
        );
    }
  };

  const advance = (state: PeerState, now: number): void => {
    state.next++;
    state.reachedSeconds = now;
  };

  const start = (state: PeerState, action: Action, now: number): void => {
    const { peer } = state;
    const work = { peer, action };
    if (action.op === 'SEND_F' || action.op === 'SEND_B') {
      const to = receiver(action.op, action.stage, action.microBatch, wires);
      const arrival = links.send(peer, to, messageBytes(action, costs), now);
      queue.add(arrival, () => end(work, now, arrival));
      advance(state, now);
    } else if (isTransfer(action)) {
      end(work, state.reachedSeconds, now);
      advance(state, now);
    } else {
      const endSeconds = now + actionSeconds(work, costs);
      state.busy = true;
      queue.add(endSeconds, () => {
        state.busy = false;
        advance(state, endSeconds);
        end(work, now, endSeconds);
      });
    }
  };

  const startAll = (now: number): void => {
    for (const state of states) {
      for (
        let action = state.list[state.next];
        action && !state.busy && needs.met({ peer: state.peer, action });
        action = state.list[state.next]
      )
        start(state, action, now);
    }
  };

  startAll(0);
  for (let now = queue.runInstant(); now !== null; now = queue.runInstant()) startAll(now);
  for (const { peer, list, next } of states)
    invariant(next === list.length, `${peer} cannot start ${list[next] ? formatAction(list[next]) : ''}: see SC9`);
  return ordered(spans, plan, schedule);
}

/** How many needs of each piece of work are still open, and who waits for it. */
function indexNeeds(schedule: Schedule, wires: Wiring) {
  const open = new Map<string, number>();
  const waiting = new Map<string, Work[]>();
  for (const [peer, actions] of schedule) {
    for (const action of actions) {
      const work = { peer, action };
      const first = before(work, wires);
      open.set(workKey(work), first.length);
      for (const need of first) {
        const key = workKey(need);
        const list = waiting.get(key);
        if (list) list.push(work);
        else waiting.set(key, [work]);
      }
    }
  }
  return {
    dependants: (work: Work): readonly Work[] => waiting.get(workKey(work)) ?? [],
    met: (work: Work): boolean => open.get(workKey(work)) === 0,
    meet: (work: Work): void => void open.set(workKey(work), (open.get(workKey(work)) ?? 0) - 1),
  };
}

/** Actions to do at given times; those of one instant in the order they were added. */
function eventQueue() {
  const events: { readonly seconds: number; readonly run: () => void }[] = [];
  return {
    add(seconds: number, run: () => void): void {
      let low = 0;
      for (let high = events.length; low < high; ) {
        const middle = (low + high) >> 1;
        if ((events[middle]?.seconds ?? 0) <= seconds) low = middle + 1;
        else high = middle;
      }
      events.splice(low, 0, { seconds, run });
    },
    /** Does all events of the next instant; answers its time, or null when there are none. */
    runInstant(): number | null {
      const now = events[0]?.seconds;
      if (now === undefined) return null;
      for (let event = events[0]; event?.seconds === now; event = events[0]) {
        events.shift();
        event.run();
      }
      return now;
    },
  };
}

/** When a message arrives. First produced is first sent, because messages are handed over in the order of events. */
function linkTimes(costs: Costs) {
  const freeSeconds = new Map<string, number>();
  return {
    send(from: PeerId, to: PeerId, bytes: number, now: number): number {
      const { latencySeconds, bytesPerSecond } = costs.link(from, to);
      const key = JSON.stringify([from, to]);
      const sent = Math.max(now, freeSeconds.get(key) ?? 0) + (bytesPerSecond === null ? 0 : bytes / bytesPerSecond);
      freeSeconds.set(key, sent);
      return sent + latencySeconds;
    },
  };
}

/** Before lowering, an activation or gradient that changes peers travels although no action says so. */
const impliesMessage = (from: Work, to: Work): boolean => from.action.op === to.action.op && from.peer !== to.peer;

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

function actionSeconds({ peer, action }: Work, costs: Costs): number {
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

/** By start, then peer in the plan's order, then place in the peer's list. */
function ordered(spans: readonly Span[], plan: Plan, schedule: Schedule): Timeline {
  const rank = new Map(peers(plan).map((peer, index) => [peer, index]));
  const place = new Map(
    [...schedule].flatMap(([peer, list]) => list.map((action, index) => [workKey({ peer, action }), index] as const)),
  );
  return spans.toSorted(
    (a, b) =>
      a.startSeconds - b.startSeconds ||
      (rank.get(a.peer) ?? 0) - (rank.get(b.peer) ?? 0) ||
      (place.get(workKey(a)) ?? 0) - (place.get(workKey(b)) ?? 0),
  );
}
