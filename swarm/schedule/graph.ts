/**
 * A schedule as numbered work and the arrows between it, for whoever walks all of it: the simulator, the checker. Work is
 * numbered through the schedule list by list, so that a peer's list is a range of numbers; what `before` answers is asked
 * once and kept as plain arrays.
 */
import { invariant, type PeerId } from '../base.ts';
import type { Action, Schedule, Work } from './action.ts';
import { before, type Wiring } from './order.ts';

export interface WorkGraph {
  readonly wires: Wiring;
  readonly peers: readonly PeerId[];
  /** Place of a peer in `peers`. */
  readonly placeOf: ReadonlyMap<PeerId, number>;
  readonly actions: readonly Action[];
  /** Place in `peers` of who does it. */
  readonly peerOf: Int32Array;
  /** The list of peer i is the work numbered `[listFrom[i], listFrom[i + 1])`. */
  readonly listFrom: Int32Array;
  /** How much work must have ended before this. */
  readonly needs: Int32Array;
  /** Who waits for work n: `dependants[dependantsFrom[n]]` up to `dependants[dependantsFrom[n + 1] - 1]`. */
  readonly dependantsFrom: Int32Array;
  readonly dependants: Int32Array;
}

export function workGraph(wires: Wiring, schedule: Schedule): WorkGraph {
  const peers = [...schedule.keys()];
  const listFrom = new Int32Array(peers.length + 1);
  const actions: Action[] = [];
  for (const [index, peer] of peers.entries()) {
    for (const action of schedule.get(peer) ?? []) actions.push(action);
    listFrom[index + 1] = actions.length;
  }
  const peerOf = new Int32Array(actions.length);
  for (const index of peers.keys()) peerOf.fill(index, listFrom[index], listFrom[index + 1]);
  const placeOf = new Map(peers.map((peer, index) => [peer, index]));
  return { wires, peers, placeOf, actions, peerOf, listFrom, ...arrows(wires, peers, actions, peerOf) };
}

type Arrows = Pick<WorkGraph, 'needs' | 'dependantsFrom' | 'dependants'>;

/** Every need as an arrow, sorted by where it starts (a counting sort: there may be millions). */
function arrows(wires: Wiring, peers: readonly PeerId[], actions: readonly Action[], peerOf: Int32Array): Arrows {
  const needs = new Int32Array(actions.length);
  const counts = new Int32Array(actions.length + 1);
  /** Where each arrow starts and ends, one after the other. */
  let ends = new Int32Array(4 * actions.length);
  let count = 0;
  for (let number = 0; number < actions.length; number++) {
    const first = before(workAt(peers, actions, peerOf, number), wires);
    needs[number] = first.length;
    for (const need of first) {
      // Work that is nowhere in the schedule never ends: what needs it stays open.
      const start = wires.find(need);
      if (start === -1) continue;
      if (count === ends.length) ends = doubled(ends);
      ends[count++] = start;
      ends[count++] = number;
      counts[start + 1] = (counts[start + 1] ?? 0) + 1;
    }
  }
  for (let number = 0; number < actions.length; number++)
    counts[number + 1] = (counts[number + 1] ?? 0) + (counts[number] ?? 0);
  const dependants = new Int32Array(count / 2);
  const next = counts.slice();
  for (let arrow = 0; arrow < count; arrow += 2) {
    const start = ends[arrow] ?? 0;
    const slot = next[start] ?? 0;
    dependants[slot] = ends[arrow + 1] ?? 0;
    next[start] = slot + 1;
  }
  return { needs, dependantsFrom: counts, dependants };
}

function doubled(list: Int32Array): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(2 * list.length);
  larger.set(list);
  return larger;
}

function workAt(peers: readonly PeerId[], actions: readonly Action[], peerOf: Int32Array, number: number): Work {
  const peer = peers[peerOf[number] ?? -1];
  const action = actions[number];
  invariant(peer !== undefined && action !== undefined, `there is no work ${number}`);
  return { peer, action };
}

export const workOf = ({ peers, actions, peerOf }: WorkGraph, number: number): Work =>
  workAt(peers, actions, peerOf, number);
