/**
 * From a planner's draft (who is in which stage, how many layers each, how many micro-batches) to a plan that its peers
 * can hold. Its one idea, Cephalo's: batch follows speed, state follows the memory that is left. Micro-batches go to the
 * member that would end them first; layers are recomputed only where memory asks for it; each member keeps as much of
 * the stage's state as it has room for, the largest share as small as can be.
 */
import { evenRanges, type PeerId, type Range } from '../base.ts';
import { shardBuffers, type stagesOfPeer } from '../memory.ts';
import {
  type BlockState,
  holdersOfAll,
  type Member,
  type MicroBatch,
  type Plan,
  type PlanStage,
  peers as peersOf,
} from '../plan.ts';
import type { Schedule, ScheduleName } from '../schedule/action.ts';
import { slots as slotsOf } from '../schedule/check.ts';
import { build } from '../schedule/lower.ts';
import { firstLayers } from '../schedule/recompute.ts';
import type { ClusterCosts, PlannedPeer, StageShape } from './clusterCosts.ts';
import { shapeOf } from './forecast.ts';
import { sizedMicroBatches } from './laneSizes.ts';
import {
  blocksAtHome,
  type Keepers,
  memberShares,
  type Placement,
  type Shares,
  stateBytes,
  stateOf,
  takenByKeepers,
} from './statePlacement.ts';

/** What a shard takes beside its elements: partial sums, scalars, rounding. */
const SHARD_BYTES = 16_384;
/** What a keeper has beside its elements. */
const KEEPER_BYTES = 65_536;

export interface Draft {
  /** Peers of each stage, as places in the costs' list. */
  readonly groups: readonly (readonly number[])[];
  /** Layers of each stage. */
  readonly layers: readonly number[];
  /** Equal ones; 'sized' (of one stage): each peer's own size. */
  readonly microBatches: number | 'sized';
  readonly schedule: ScheduleName;
  /** By room, where it is absent. */
  readonly placement?: Placement;
  /** Peers who compute nothing, and keep what members have no room for. */
  readonly keepers?: readonly number[];
}

/** The plan, and how many bytes its peers lack for it; null where the draft is none. */
export interface Drafted {
  readonly plan: Plan;
  /** As its builder writes it. */
  readonly schedule: Schedule;
  readonly missingBytes: number;
}

export function planOf(costs: ClusterCosts, draft: Draft): Drafted | null {
  const compute = computePlan(costs, draft);
  if (compute === null) return null;
  const schedule = build(compute);
  const inFlight = slotsOf(schedule);
  let missing = 0;
  const shares: Shares[] = [];
  const keepers: Keepers = new Map(
    (draft.keepers ?? []).map((place) => [place, (costs.peers[place]?.memoryBytes ?? 0) - KEEPER_BYTES]),
  );
  const stages = compute.stages.map((stage, index): PlanStage => {
    const fitted = fitStage(costs, compute, index, inFlight, { placement: draft.placement ?? 'room', keepers });
    missing += fitted.missingBytes;
    shares.push(fitted.shares);
    return { ...stage, members: fitted.members };
  });
  const plan = { ...compute, stages };
  return { plan: { ...plan, state: stateOf(costs, plan, shares) }, schedule, missingBytes: missing };
}

function computePlan(costs: ClusterCosts, { groups, layers, microBatches, schedule }: Draft): Plan | null {
  const { samples } = costs.batch;
  const shape = (stage: number): StageShape => ({
    first: stage === 0,
    last: stage === groups.length - 1,
    layers: layers[stage] ?? 0,
  });
  const members = (stage: number): PlannedPeer[] => (groups[stage] ?? []).flatMap((place) => costs.peers[place] ?? []);
  let from = 0;
  const ranges = layers.map((count): Range => {
    from += count;
    return [from - count, from];
  });
  if (microBatches === 'sized') {
    const sized = groups.length === 1 ? sizedMicroBatches(costs, members(0), shape(0)) : null;
    if (sized === null) return null;
    return { ...sized, stages: [{ layers: ranges[0] ?? [0, 0], members: sized.members }], state: [], schedule };
  }
  if (microBatches > samples || groups.some((group) => group.length > microBatches)) return null;
  const batches = evenRanges(samples, microBatches).map((range, id): MicroBatch => ({ id, samples: range }));
  const stages = groups.map((_, stage) => ({
    layers: ranges[stage] ?? ([0, 0] as const),
    members: deal(costs, members(stage), shape(stage), batches),
  }));
  return { stages, microBatches: batches, state: [], schedule };
}

/** Each micro-batch to the member that would end it first. Who gets none is left out. */
function deal(
  costs: ClusterCosts,
  peers: readonly PlannedPeer[],
  shape: StageShape,
  batches: readonly MicroBatch[],
): Member[] {
  const hands = peers.map((peer) => ({
    peer,
    ids: [] as number[],
    samples: 0,
    seconds: 0,
    of: new Map<number, number>(),
  }));
  for (const { id, samples: range } of batches) {
    const samples = range[1] - range[0];
    let best: (typeof hands)[number] | null = null;
    let end = Number.POSITIVE_INFINITY;
    for (const hand of hands) {
      let own = hand.of.get(samples);
      if (own === undefined) {
        own = costs.forwardSeconds(hand.peer, shape, samples) + costs.backwardSeconds(hand.peer, shape, samples);
        hand.of.set(samples, own);
      }
      if (best !== null && hand.seconds + own >= end) continue;
      best = hand;
      end = hand.seconds + own;
    }
    if (best === null) continue;
    best.ids.push(id);
    best.samples += samples;
    best.seconds = end;
  }
  return hands
    .filter(({ ids }) => ids.length > 0)
    .map(({ peer, ids, samples }) => ({ peer: peer.id, microBatches: ids, samples, recompute: [] }));
}

interface Fitted {
  readonly members: Member[];
  /** Of the stage's state. */
  readonly shares: Shares;
  readonly missingBytes: number;
}

type Slots = ReturnType<typeof slotsOf>;

/** As few layers computed twice as leave room for the state. */
function fitStage(
  costs: ClusterCosts,
  plan: Plan,
  index: number,
  slots: Slots,
  { placement, keepers }: { readonly placement: Placement; readonly keepers: Keepers },
): Fitted {
  const { members, layers } = plan.stages[index] ?? { members: [], layers: [0, 0] };
  const shape = shapeOf(plan, index);
  const sizes = new Map(plan.microBatches.map(({ id, samples: [from, to] }) => [id, to - from]));
  const blocks = blocksAtHome(costs, index, plan, keepers);
  const places = members.map(({ peer }) => costs.placeOf(peer));
  const state = stateBytes(blocks, costs.hasMasters(places));
  const recomputed = members.map(() => 0);
  const room = (at: number): number => {
    const member = members[at];
    const peer = member && costs.peers[costs.placeOf(member.peer)];
    if (!member || !peer) return 0;
    const largest = Math.max(...member.microBatches.map((id) => sizes.get(id) ?? 0));
    const inFlight = slots.get(peer.id)?.get(index) ?? member.microBatches.length;
    const again = recomputed[at] ?? 0;
    const bytes = costs.memory.stageBytes(
      shape,
      { samples: largest, slots: inFlight, recomputed: again },
      peer.compute,
    );
    const beyond = costs.extraBytes(peer, shape.layers - again, largest, inFlight);
    return peer.memoryBytes - bytes - beyond - SHARD_BYTES * blocks.length;
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
  const free = rooms.map((own) => Math.max(0, own));
  const under = rooms.reduce((sum, own) => sum + Math.max(0, -own), 0);
  const shares = new Map<number, number>();
  const own = memberShares(costs, places, free, state, placement);
  for (const [at, place] of places.entries()) shares.set(place, own[at] ?? 0);
  let left = Math.max(0, state - free.reduce((sum, room) => sum + room, 0));
  if (left > 0 && keepers.size > 0) {
    const elements = blocks.reduce((sum, block) => sum + block.elements, 0);
    for (const [place, share] of takenByKeepers(keepers, left, state, elements)) {
      shares.set(place, share);
      left -= share;
    }
  }
  return {
    members: members.map((member, at) => ({
      ...member,
      recompute: firstLayers(layers, recomputed[at] ?? 0),
    })),
    shares,
    missingBytes: Math.ceil(under + (left > 1 ? left : 0)),
  };
}

/** What each peer of a plan allocates, buffer by buffer, and what it says it needs beyond that. */
export function memoryOf(costs: ClusterCosts, plan: Plan, schedule: Schedule = build(plan)): Map<PeerId, number> {
  const inFlight = slotsOf(schedule);
  const holders = holdersOfAll(costs.model, plan);
  const kept = stateByPeer(plan);
  return new Map(
    peersOf(plan).map((id) => {
      const peer = costs.peers[costs.placeOf(id)];
      const compute = peer?.compute ?? null;
      let bytes = shardBuffers(
        costs.model,
        { ...plan, state: kept.get(id) ?? [] },
        id,
        (name) => holders.get(name) ?? [],
        compute ?? costs.batch.compute,
      ).reduce((sum, buffer) => sum + buffer.bytes, 0);
      for (const [stage, { samples, slots, recompute = [] }] of sizesOf(plan, id, costs.batch.sequence, inFlight)) {
        const shape = shapeOf(plan, stage);
        bytes += costs.memory.stageBytes(shape, { samples, slots, recomputed: recompute.length }, compute);
        if (peer) bytes += costs.extraBytes(peer, shape.layers - recompute.length, samples, slots);
      }
      return [id, bytes];
    }),
  );
}

/** The state as each primary sees it: its own shards alone. */
function stateByPeer(plan: Plan): Map<PeerId, BlockState[]> {
  const found = new Map<PeerId, BlockState[]>();
  for (const { block, shards } of plan.state) {
    for (const shard of shards) {
      const own = found.get(shard.peer) ?? [];
      const latest = own.at(-1);
      if (latest?.block === block) own[own.length - 1] = { block, shards: [...latest.shards, shard] };
      else own.push({ block, shards: [shard] });
      found.set(shard.peer, own);
    }
  }
  return found;
}

/** As `stagesOfPeer`, with the schedule built once for all peers. */
function sizesOf(plan: Plan, id: PeerId, sequence: number, inFlight: Slots): ReturnType<typeof stagesOfPeer> {
  const sizes = new Map(plan.microBatches.map(({ id: batch, samples: [from, to] }) => [batch, to - from]));
  const found: ReturnType<typeof stagesOfPeer> = new Map();
  for (const [stage, { layers, members }] of plan.stages.entries()) {
    const member = members.find(({ peer }) => peer === id);
    if (!member) continue;
    const samples = Math.max(...member.microBatches.map((batch) => sizes.get(batch) ?? 0));
    const slots = inFlight.get(id)?.get(stage) ?? member.microBatches.length;
    found.set(stage, { layers, samples, sequence, slots, recompute: member.recompute });
  }
  return found;
}
