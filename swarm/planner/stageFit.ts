/**
 * A stage of a plan within the memory of its members: as few layers computed twice as leave room, and the stage's state
 * where there is room for it (Cephalo: state follows the memory that the batch leaves).
 */
import type { Member, Plan } from '../plan/plan.ts';
import { firstLayers } from '../schedule/recompute.ts';
import type { slots } from '../schedule/slots.ts';
import type { ClusterCosts } from './clusterCosts.ts';
import { shapeOf } from './forecast.ts';
import { gatheredStateBytes, sparedBytes } from './gathering.ts';
import {
  besideBytes,
  blocksAtHome,
  type Keepers,
  memberShares,
  type Placement,
  type Shares,
  stateBytes,
  takenByKeepers,
  wayOut,
} from './statePlacement.ts';

export type Slots = ReturnType<typeof slots>;

interface Fitted {
  readonly members: Member[];
  /** Of the stage's state. */
  readonly shares: Shares;
  readonly missingBytes: number;
}

/** As few layers computed twice as leave room for the state. */
export function fitStage(
  costs: ClusterCosts,
  plan: Plan,
  index: number,
  slots: Slots,
  { placement, keepers: others }: { readonly placement: Placement; readonly keepers: Keepers },
): Fitted {
  const { members, layers, gathered } = plan.stages[index] ?? { members: [], layers: [0, 0] };
  // What is gathered lies with those who gather it.
  const keepers: Keepers = gathered ? new Map() : others;
  const shape = shapeOf(plan, index);
  const sizes = new Map(plan.microBatches.map(({ id, samples: [from, to] }) => [id, to - from]));
  const blocks = blocksAtHome(costs, index, plan, keepers);
  const places = members.map(({ peer }) => costs.placeOf(peer));
  const elements = blocks.map((block) => block.elements);
  const out = wayOut(elements);
  const state =
    out.shared + (gathered ? gatheredStateBytes(elements, gathered) : stateBytes(blocks, costs.hasMasters(places)));
  const beside = besideBytes(costs, blocks, members.length > 1 || keepers.size > 0);
  const recomputed = members.map(() => 0);
  const room = (at: number): number => {
    const member = members[at];
    const peer = member && costs.peers[costs.placeOf(member.peer)];
    if (!member || !peer) return 0;
    const largest = Math.max(...member.microBatches.map((id) => sizes.get(id) ?? 0));
    const inFlight = slots.get(peer.id)?.get(index) ?? member.microBatches.length;
    const load = { samples: largest, slots: inFlight, recomputed: recomputed[at] ?? 0 };
    const bytes = costs.memory.stageBytes(shape, load, peer.compute);
    const beyond = costs.extraBytes(peer, shape.layers, load);
    const spared = gathered ? sparedBytes(costs, shape, gathered, peer.compute) : 0;
    return peer.memoryBytes - bytes + spared - beyond - out.each - beside;
  };
  const rooms = members.map((_, at) => room(at));
  // Who has keepers need not compute layers twice to keep state.
  const lacks = () => keepers.size === 0 && rooms.reduce((sum, own) => sum + Math.max(0, own), 0) < state;
  for (let more = 1; more <= shape.layers; more++) {
    const short = lacks();
    for (const at of members.keys()) {
      if ((rooms[at] ?? 0) >= 0 && !(short && lacks())) continue;
      recomputed[at] = more;
      rooms[at] = room(at);
    }
  }
  const under = rooms.reduce((sum, own) => sum + Math.max(0, -own), 0);
  const free = rooms.map((own) => Math.max(0, own));
  const { shares, left } = placed(costs, { places, free, state, elements }, placement, keepers);
  return {
    members: members.map((member, at) => ({
      ...member,
      recompute: firstLayers(layers, recomputed[at] ?? 0),
    })),
    shares,
    missingBytes: Math.ceil(under + (left > 1 ? left : 0)),
  };
}

interface Placing {
  readonly places: readonly number[];
  /** What each of them has left. */
  readonly free: readonly number[];
  readonly state: number;
  readonly elements: readonly number[];
}

/** A stage's state with its members, and what these have no room for with keepers; `left` has no place. */
function placed(
  costs: ClusterCosts,
  { places, free, state, elements }: Placing,
  placement: Placement,
  keepers: Keepers,
): { readonly shares: Shares; readonly left: number } {
  const shares = new Map<number, number>();
  const own = memberShares(costs, places, free, state, placement);
  for (const [at, place] of places.entries()) shares.set(place, own[at] ?? 0);
  let left = Math.max(0, state - free.reduce((sum, room) => sum + room, 0));
  if (left > 0 && keepers.size > 0) {
    const all = elements.reduce((sum, one) => sum + one, 0);
    for (const [place, share] of takenByKeepers(keepers, left, state, all)) {
      shares.set(place, share);
      left -= share;
    }
  }
  return { shares, left };
}
