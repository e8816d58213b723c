/**
 * A schedule as numbered work and the arrows between it, for whoever walks all of it: the simulator, the checker. Work is
 * numbered through the schedule list by list, so that a peer's list is a range of numbers; what each one needs is asked
 * once and kept as plain arrays.
 */
import { got, int, outside, type PeerId } from '../base.ts';
import { type Action, OP_INDEX, type Schedule, type Work } from './action.ts';
import { type NeedsListener, tellNeeds, type Wiring } from './order.ts';

export interface WorkGraph {
  readonly wires: Wiring;
  readonly peers: readonly PeerId[];
  /** Place of a peer in `peers`. */
  readonly placeOf: ReadonlyMap<PeerId, number>;
  readonly actions: readonly Action[];
  /** Of each action by OP_INDEX: numbers side by side are looked at much faster than actions. */
  readonly opOf: Uint8Array;
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
    for (const action of got(schedule, peer)) actions.push(action);
    listFrom[index + 1] = actions.length;
  }
  const opOf = new Uint8Array(actions.length);
  actions.forEach(({ op }, number) => {
    opOf[number] = OP_INDEX[op];
  });
  const peerOf = new Int32Array(actions.length);
  for (const index of peers.keys()) peerOf.fill(index, listFrom[index], listFrom[index + 1]);
  const placeOf = new Map(peers.map((peer, index) => [peer, index]));
  return { wires, peers, placeOf, actions, opOf, peerOf, listFrom, ...arrows(wires, peers, actions, listFrom) };
}

type Arrows = Pick<WorkGraph, 'needs' | 'dependantsFrom' | 'dependants'>;

/** Every need as an arrow, sorted by where it starts (a counting sort: there may be millions). */
function arrows(wires: Wiring, peers: readonly PeerId[], actions: readonly Action[], listFrom: Int32Array): Arrows {
  const needs = new Int32Array(actions.length);
  const counts = new Int32Array(actions.length + 1);
  /** Where each arrow starts and ends, one after the other. */
  let ends = new Int32Array(4 * actions.length);
  let count = 0;
  let number = 0;
  const note = (start: number): void => {
    needs[number] = (needs[number] ?? outside(needs, number)) + 1;
    // Work that is nowhere in the schedule never ends: what needs it stays open.
    if (start === -1) return;
    if (count === ends.length) ends = doubled(ends);
    ends[count++] = start;
    ends[count++] = number;
    counts[start + 1] = (counts[start + 1] ?? outside(counts, start + 1)) + 1;
  };
  const listener: NeedsListener = {
    micro: (op, stage, microBatch) => note(wires.number(op, stage, microBatch)),
    state: (action, peer) => note(wires.stateNumber(action, peer)),
  };
  for (const [place, peer] of peers.entries()) {
    const to = listFrom[place + 1] ?? outside(listFrom, place + 1);
    for (; number < to; number++) tellNeeds(actions[number] ?? outside(actions, number), peer, wires, listener);
  }
  let sum = 0;
  for (let work = 0; work < counts.length; work++) {
    sum += counts[work] ?? outside(counts, work);
    counts[work] = sum;
  }
  const dependants = new Int32Array(count / 2);
  const next = counts.slice();
  for (let arrow = 0; arrow < count; arrow += 2) {
    const start = ends[arrow] ?? outside(ends, arrow);
    const slot = next[start] ?? outside(next, start);
    dependants[slot] = ends[arrow + 1] ?? outside(ends, arrow + 1);
    next[start] = slot + 1;
  }
  return { needs, dependantsFrom: counts, dependants };
}

function doubled(list: Int32Array): Int32Array<ArrayBuffer> {
  const larger = new Int32Array(2 * list.length);
  larger.set(list);
  return larger;
}

export function workOf({ peers, actions, peerOf }: WorkGraph, number: number): Work {
  const place = peerOf[number] ?? outside(peerOf, number);
  return { peer: peers[place] ?? outside(peers, place), action: actions[number] ?? outside(actions, number) };
}

/**
 * Goes along all lists at once, as far as they can be run: each piece of work comes after those before it in its list and
 * all that it needs. Answers how far each list was gone along: to its end, or to what waits in a circle.
 */
export function walk(
  { peers, peerOf, listFrom, needs, dependants, dependantsFrom }: WorkGraph,
  visit: (work: number, peer: number) => void,
): Int32Array {
  const reached = listFrom.slice(0, peers.length);
  const open = needs.slice();
  const awake = peers.map((_, index) => index);
  for (let peer = awake.pop(); peer !== undefined; peer = awake.pop()) {
    const to = int(listFrom, peer + 1);
    for (let work = int(reached, peer); work < to && open[work] === 0; work++) {
      visit(work, peer);
      reached[peer] = work + 1;
      const last = int(dependantsFrom, work + 1);
      for (let arrow = int(dependantsFrom, work); arrow < last; arrow++) {
        const dependant = int(dependants, arrow);
        const other = int(peerOf, dependant);
        const left = int(open, dependant) - 1;
        open[dependant] = left;
        if (left === 0 && other !== peer && reached[other] === dependant) awake.push(other);
      }
    }
  }
  return reached;
}
