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
  const actions = [...schedule.values()].flat();
  const peerOf = new Int32Array(actions.length);
  const listFrom = new Int32Array(peers.length + 1);
  peers.forEach((peer, index) => {
    const from = listFrom[index] ?? 0;
    const to = from + (schedule.get(peer)?.length ?? 0);
    peerOf.fill(index, from, to);
    listFrom[index + 1] = to;
  });
  return { wires, peers, actions, peerOf, listFrom, ...arrows(wires, peers, actions, peerOf) };
}

type Arrows = Pick<WorkGraph, 'needs' | 'dependantsFrom' | 'dependants'>;

/** Every need as an arrow, sorted by where it starts (a counting sort: there may be millions). */
function arrows(wires: Wiring, peers: readonly PeerId[], actions: readonly Action[], peerOf: Int32Array): Arrows {
  const needs = new Int32Array(actions.length);
  const counts = new Int32Array(actions.length + 1);
  const from: number[] = [];
  const to: number[] = [];
  for (let number = 0; number < actions.length; number++) {
    const work = workAt(peers, actions, peerOf, number);
    for (const need of before(work, wires)) {
      needs[number] = (needs[number] ?? 0) + 1;
      // Work that is nowhere in the schedule never ends: what needs it stays open.
      const first = wires.find(need);
      if (first === -1) continue;
      from.push(first);
      to.push(number);
      counts[first + 1] = (counts[first + 1] ?? 0) + 1;
    }
  }
  for (let number = 0; number < actions.length; number++)
    counts[number + 1] = (counts[number + 1] ?? 0) + (counts[number] ?? 0);
  const dependants = new Int32Array(from.length);
  const next = counts.slice();
  from.forEach((first, index) => {
    const slot = next[first] ?? 0;
    dependants[slot] = to[index] ?? 0;
    next[first] = slot + 1;
  });
  return { needs, dependantsFrom: counts, dependants };
}

function workAt(peers: readonly PeerId[], actions: readonly Action[], peerOf: Int32Array, number: number): Work {
  const peer = peers[peerOf[number] ?? -1];
  const action = actions[number];
  invariant(peer !== undefined && action !== undefined, `there is no work ${number}`);
  return { peer, action };
}

export const workOf = ({ peers, actions, peerOf }: WorkGraph, number: number): Work =>
  workAt(peers, actions, peerOf, number);
