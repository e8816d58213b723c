/**
 * Who was busy in a step, and who waited for whom: before each piece of work that came late, its owner waited for whoever
 * sends what it needs, the stage before for a forward, the stage behind for a backward.
 */
import { addToKey, type PeerId, peerId } from '../base.ts';
import { type Action, isCompute } from '../schedule/action.ts';
import { busySeconds, type Interval, lengthSeconds, makespanSeconds, spansByPeer, type Timeline } from './timeline.ts';

/** Shorter pauses are no waiting: clocks are no better, and kernels have to be handed in. */
export const LEAST_WAIT_SECONDS = 0.002;

/** Whom a wait was for; null: the step's end, or nobody that could be named. */
type Awaited = PeerId | null;

export interface Wait extends Interval {
  readonly peer: Awaited;
}

/** Seconds, by whom was waited for. */
type Waits = ReadonlyMap<Awaited, number>;

export interface PeerUse {
  readonly peer: PeerId;
  readonly busySeconds: number;
  readonly waits: Waits;
}

/** How a step used its peers' time. */
export interface StepUse {
  readonly seconds: number;
  readonly peers: readonly PeerUse[];
}

interface Owners {
  readonly stages: readonly {
    readonly members: readonly { readonly peer: string; readonly microBatches: readonly number[] }[];
  }[];
}

/** Of every peer that computes under the plan. */
export function useOf(timeline: Timeline, { stages }: Owners): StepUse {
  const owners = new Map(
    stages.flatMap(({ members }, stage) =>
      members.flatMap(({ peer, microBatches }) => microBatches.map((id) => [`${stage} ${id}`, peerId(peer)] as const)),
    ),
  );
  const spansOf = spansByPeer(timeline);
  const seconds = makespanSeconds(timeline);
  const peers = [...new Set(owners.values())].map((peer) => {
    const spans = spansOf.get(peer) ?? [];
    return { peer, busySeconds: busySeconds(spans), waits: waitsByPeer(waitsIn(spans, peer, owners, seconds)) };
  });
  return { seconds, peers };
}

/** Of a peer's spans in the order of their starts, in a step of so many seconds. */
function waitsIn(spans: Timeline, peer: PeerId, owners: ReadonlyMap<string, PeerId>, seconds: number): Wait[] {
  let free = 0;
  const waits = spans.flatMap(({ action, startSeconds, endSeconds }): Wait[] => {
    const wait = { peer: sourceOf(action, peer, owners), startSeconds: free, endSeconds: startSeconds };
    free = endSeconds;
    return lengthSeconds(wait) >= LEAST_WAIT_SECONDS ? [wait] : [];
  });
  const end = { peer: null, startSeconds: free, endSeconds: seconds };
  return spans.length > 0 && lengthSeconds(end) >= LEAST_WAIT_SECONDS ? [...waits, end] : waits;
}

/** Who sends what this work needs; null where it is the peer's own. */
function sourceOf(action: Action, peer: PeerId, owners: ReadonlyMap<string, PeerId>): Awaited {
  if (!isCompute(action)) return null;
  const source = owners.get(`${action.stage + (action.op === 'F' ? -1 : 1)} ${action.microBatch}`);
  return source === undefined || source === peer ? null : source;
}

export function waitsByPeer(waits: readonly Wait[]): Waits {
  const sums = new Map<Awaited, number>();
  for (const wait of waits) addToKey(sums, wait.peer, lengthSeconds(wait));
  return sums;
}

/** Null where nobody was waited for. */
export function longestWait(waits: Iterable<readonly [Awaited, number]>): { peer: Awaited; seconds: number } | null {
  const [longest] = [...waits].toSorted((a, b) => b[1] - a[1]);
  return longest ? { peer: longest[0], seconds: longest[1] } : null;
}
