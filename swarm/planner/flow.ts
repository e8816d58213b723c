/** Bytes from peer to peer, by their places: what a plan sends over each link, and each peer in all. */
import { at } from '../base.ts';
import { type ClusterCosts, downloadFrom, type PlannedPeer, uploadTo } from './clusterCosts.ts';

export interface Flow {
  readonly add: (from: number, to: number, bytes: number) => void;
  /** By the peer at the other end. */
  readonly from: (place: number) => ReadonlyMap<number, number>;
  readonly to: (place: number) => ReadonlyMap<number, number>;
  readonly sentBy: (place: number) => number;
  readonly receivedBy: (place: number) => number;
  /** How many peers it sends to. */
  readonly partners: (place: number) => number;
}

const NOTHING: ReadonlyMap<number, number> = new Map();

export function flow(): Flow {
  const outgoing = new Map<number, Map<number, number>>();
  const incoming = new Map<number, Map<number, number>>();
  const put = (table: Map<number, Map<number, number>>, own: number, other: number, bytes: number): void => {
    let row = table.get(own);
    if (row === undefined) {
      row = new Map();
      table.set(own, row);
    }
    row.set(other, (row.get(other) ?? 0) + bytes);
  };
  const total = (row: ReadonlyMap<number, number> = NOTHING): number => {
    let sum = 0;
    for (const bytes of row.values()) sum += bytes;
    return sum;
  };
  return {
    add(from, to, bytes) {
      put(outgoing, from, to, bytes);
      put(incoming, to, from, bytes);
    },
    from: (place) => outgoing.get(place) ?? NOTHING,
    to: (place) => incoming.get(place) ?? NOTHING,
    sentBy: (place) => total(outgoing.get(place)),
    receivedBy: (place) => total(incoming.get(place)),
    partners: (place) => outgoing.get(place)?.size ?? 0,
  };
}

/**
 * Until this peer has sent and received what it has to: over one link after the other, as DT-FM has it, so that a slow link
 * costs what it carries although fast ones stand beside it. The two directions are apart. Of its caps one part of `parts`.
 */
export function flowSeconds(costs: ClusterCosts, place: number, sent: Flow, parts = 1): number {
  const own = costs.peers[place];
  const along = (
    bytesOf: ReadonlyMap<number, number>,
    cap: (own: PlannedPeer, other: PlannedPeer) => number,
  ): number => {
    let [latency, seconds] = [0, 0];
    for (const [other, bytes] of bytesOf) {
      const { latencySeconds, bytesPerSecond } = costs.linkAt(place, other);
      const [peer, most] = [costs.peers[other], bytesPerSecond ?? Number.POSITIVE_INFINITY];
      latency = Math.max(latency, latencySeconds);
      seconds += bytes / Math.min(own && peer ? cap(own, peer) / parts : 0, most);
    }
    return latency + seconds;
  };
  return Math.max(along(sent.from(place), uploadTo), along(sent.to(place), downloadFrom));
}

/** When all that is sent to a peer is there, where each sender begins as its work ends. */
export function arrivedSeconds(
  costs: ClusterCosts,
  place: number,
  sent: Flow,
  begin: ReadonlyMap<number, number>,
): number {
  const own = at(costs.peers, place);
  const parts = [...sent.to(place)].map(([from, bytes]) => ({ bytes, from, begins: begin.get(from) ?? 0 }));
  let [seconds, latency] = [0, 0];
  for (const { bytes, from, begins } of parts.toSorted((one, other) => one.begins - other.begins)) {
    const { latencySeconds, bytesPerSecond } = costs.linkAt(place, from);
    latency = Math.max(latency, latencySeconds);
    seconds =
      Math.max(seconds, begins) +
      bytes / Math.min(downloadFrom(own, at(costs.peers, from)), bytesPerSecond ?? Infinity);
  }
  return seconds + latency;
}
