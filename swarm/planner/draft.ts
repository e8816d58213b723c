/** The plan of a draft, and what a plan's peers allocate. */
import { at, got, type PeerId, type Range } from '../base.ts';
import { hostBytes, stagesOfPeer, wiresOf } from '../memory/memory.ts';
import { shardBuffers } from '../memory/shardMemory.ts';
import { withStateWire } from '../plan/codedState.ts';
import {
  type BlockState,
  holders,
  homeStage,
  keepersOf,
  type Member,
  type MicroBatch,
  owner,
  type Plan,
  type PlanStage,
  peers as peersOf,
} from '../plan/plan.ts';
import { FLOAT_BYTES } from '../plan/stateKinds.ts';
import type { Schedule } from '../schedule/action.ts';
import { build } from '../schedule/lower.ts';
import { firstLayers } from '../schedule/recompute.ts';
import { planSlots } from '../schedule/slots.ts';
import { WIRE_ENCODINGS, type WireEncoding } from '../wire.ts';
import { withAllowedCuts } from './allowedCuts.ts';
import type { ClusterCosts } from './clusterCosts.ts';
import { forecast, linksCountedOn, shapeOf } from './forecast.ts';
import { isFast, sparedBytes } from './gathering.ts';
import { fitDraft, hasFastLinks, type Sketch } from './judge.ts';
import { type Draft, layoutOf, orderOf } from './layout.ts';
import { sharedAmong } from './lines.ts';
import { inMainMemory } from './mainMemory.ts';
import type { Shares } from './stageFit.ts';
import { withChosenWires, withTightestWires } from './streamWires.ts';

/** Shards begin at multiples of this many elements, the alignment of tensors on a GPU. */
const SHARD_ALIGNMENT = 64;
/** Units that a shard's array may have between its tensors: each begins at one. */
const GAP_UNITS = 32;
/** Of a block's shards: more cost more than they help. */
const MOST_PIECES = 64;
/** Bytes a second of a link without bounds, beside others. */
const MOST_RATE = 1e12;

/** The plan, and how many bytes its peers lack for it; null where the draft is none. */
interface Drafted {
  readonly plan: Plan;
  readonly missingBytes: number;
}

export function planOf(all: ClusterCosts, draft: Draft): Drafted | null {
  const costs = sharedAmong(all, [...draft.groups.flat(), ...(draft.keepers ?? [])]);
  const layout = layoutOf(costs, draft);
  if (layout === null || !hasFastLinks(costs, draft, layout)) return null;
  const { missingBytes, recomputed, shares } = fitDraft(costs, draft, [layout, orderOf(layout, draft)]);
  const batches = batchesOf(layout.sizes);
  let from = 0;
  const stages = layout.stages.map(({ places, laneOf }, stage): PlanStage => {
    const layers: Range = [from, from + at(draft.layers, stage)];
    from = layers[1];
    const carried = places.map((): number[] => []);
    for (const [id, lane] of laneOf.entries()) at(carried, lane).push(id);
    const members = places.map((place, lane): Member => {
      const microBatches = at(carried, lane);
      return {
        peer: at(costs.peers, place).id,
        microBatches,
        samples: microBatches.reduce((sum, id) => sum + at(layout.sizes, id), 0),
        recompute: firstLayers(layers, at(at(recomputed, stage), lane)),
      };
    });
    const gathered = draft.gathered?.[stage];
    return { layers, members, ...(gathered && { gathered }), ...(gathered && draft.layered && { layered: true }) };
  });
  const { schedule, warmup } = draft;
  const isOverlapping = warmup === 'overlap' && stages.length > 1;
  const drawn: Plan = { stages, microBatches: batches, state: [], schedule, ...(isOverlapping && { warmup }) };
  const bare = withStateWire(drawn, costs.batch);
  const plan = costs.batch.wire === 'auto' ? withTightestWires(bare) : bare;
  const state = stateOf(costs, plan, shares);
  const whole = withAllowedCuts(costs.model, costs.batch.islands, { ...plan, state });
  return { plan: relieved(costs, whole), missingBytes };
}

/** With as few shards in main memory as its peers' GPUs have no room for. */
function relieved(costs: ClusterCosts, plan: Plan): Plan {
  const giving = costs.peers.filter((peer) => costs.hostElements(peer) > 0);
  if (giving.length === 0) return plan;
  const room = new Map(costs.peers.map(({ id, memoryBytes }) => [id, memoryBytes]));
  const bytes = memoryWith(costs, plan);
  return inMainMemory(
    plan,
    peersOf(plan).filter((peer) => giving.some(({ id }) => id === peer)),
    {
      lacks: (moved, peer) => bytes(peer, stateByPeer(moved).get(peer) ?? []) - got(room, peer),
      hosts: new Map(giving.map((peer) => [peer.id, peer.hostBytes])),
      mayCut: true,
    },
  );
}

function batchesOf(sizes: Int32Array): MicroBatch[] {
  let end = 0;
  return Array.from(sizes, (size, id) => {
    end += size;
    return { id, samples: [end - size, end] };
  });
}

/** Each block of a stage cut in the proportion of its shares. */
export function stateOf({ model, peers }: ClusterCosts, plan: Plan, shares: readonly Shares[]): Plan['state'] {
  return model.blocks.map(({ name, elements }) => {
    const parts = [...at(shares, homeStage(plan, name))];
    const units = Math.ceil(elements / SHARD_ALIGNMENT);
    const whole = parts.reduce((sum, [, share]) => sum + share, 0);
    let reached = 0;
    let before = 0;
    const shards = parts.flatMap(([place, share], index) => {
      before += whole > 0 ? share / whole : 1 / parts.length;
      const end = index === parts.length - 1 ? units : Math.min(units, Math.round(before * units));
      const from = reached;
      reached = Math.max(reached, end);
      if (reached === from) return [];
      // Who computes with a block takes all of it in one buffer; who only keeps its state may not.
      const {
        id,
        buffers: { bufferBytes },
      } = at(peers, place);
      const most = Math.max(bufferBytes / (FLOAT_BYTES * SHARD_ALIGNMENT) - GAP_UNITS, units / MOST_PIECES);
      return pieces([from, reached], most).map((piece) => {
        const range: Range = [piece[0] * SHARD_ALIGNMENT, Math.min(piece[1] * SHARD_ALIGNMENT, elements)];
        return { peer: id, range, replicas: [] };
      });
    });
    return { block: name, shards };
  });
}

/** Equal pieces of at most so much each. */
function pieces([from, to]: Range, most: number): Range[] {
  const count = Math.max(1, Math.ceil((to - from) / most));
  const end = (index: number): number => from + Math.round(((to - from) * index) / count);
  return Array.from({ length: count }, (_, index): Range => [end(index), end(index + 1)]);
}

/** What each peer of a plan allocates, buffer by buffer, and what it says it needs beyond that. `wires`: of every link, in place of the plan's. */
export function memoryOf(
  costs: ClusterCosts,
  plan: Plan,
  schedule: Schedule = build(plan),
  wires?: readonly WireEncoding[],
): Map<PeerId, number> {
  const bytes = memoryWith(costs, plan, schedule, wires);
  const kept = stateByPeer(plan);
  return new Map(peersOf(plan).map((id) => [id, bytes(id, kept.get(id) ?? [])]));
}

/** The same; null where some peer has less, on its GPU or in main memory. */
export function memoryWithin(costs: ClusterCosts, plan: Plan): Map<PeerId, number> | null {
  const memory = memoryOf(costs, plan);
  const fits = costs.peers.every(
    ({ id, memoryBytes, hostBytes: given }) =>
      (memory.get(id) ?? 0) <= memoryBytes && !(costs.givesMainMemory && hostBytes(plan, id, undefined) > given),
  );
  return fits ? memory : null;
}

/** What a peer that keeps these shards allocates. */
export function memoryWith(
  costs: ClusterCosts,
  plan: Plan,
  schedule: Schedule = build(plan),
  ofAll?: readonly WireEncoding[],
): (id: PeerId, kept: readonly BlockState[]) => number {
  const inFlight = planSlots(plan, schedule);
  const whole = holders(costs.model, plan);
  const known = new Map<PeerId, number>();
  const peerOf = (id: PeerId) => costs.peers[costs.placeOf(id)];
  const keptElements = (state: readonly BlockState[]): number =>
    state.reduce((sum, { shards }) => shards.reduce((own, { range: [from, to] }) => own + to - from, sum), 0);
  const beside = (id: PeerId): number => {
    const peer = peerOf(id);
    const compute = peer?.compute ?? null;
    let bytes = 0;
    const { sequence, wire = 'f32' } = costs.batch;
    const wires = ofAll ?? wiresOf(plan, id, wire);
    for (const [stage, { samples, slots, recompute = [], recomputesAhead, keepsMade }] of stagesOfPeer(
      plan,
      id,
      sequence,
      'f32',
      'f32',
      inFlight,
    )) {
      const shape = shapeOf(plan, stage);
      const load = { samples, slots, recomputed: recompute.length, ...(keepsMade && { keepsMade }) };
      bytes += costs.memory.stageBytes(shape, load, compute, wires);
      if (recomputesAhead) bytes += costs.memory.aheadBytes(samples, compute);
      const { gathered } = plan.stages[stage] ?? {};
      if (gathered) bytes -= sparedBytes(costs, shape, gathered, compute);
      if (peer) bytes += costs.extraBytes(peer, shape.layers, load);
    }
    return bytes;
  };
  return (id, state) => {
    const own = { ...plan, state };
    const compute = costs.peers[costs.placeOf(id)]?.compute ?? costs.batch.compute;
    const work = known.get(id) ?? beside(id);
    known.set(id, work);
    const planes = costs.planeBytes * keptElements(state);
    return shardBuffers(costs.model, own, id, whole, compute).reduce(
      (sum, buffer) => sum + buffer.bytes,
      work + Math.max(0, planes - (peerOf(id)?.hostBytes ?? 0)),
    );
  };
}

/** The plan with the connections that it counts on; where the run leaves the encodings to it, with the tightest ones. */
export function withConnections(costs: ClusterCosts, plan: Plan): Plan {
  const counted = linksCountedOn(costs, plan);
  const whole = counted.length === 0 ? plan : { ...plan, links: counted };
  return costs.batch.wire === 'auto' ? withTightestWires(whole) : whole;
}

/** The same, and each link's stream as exact as is about as fast; no step takes longer than `longestSeconds` for it. */
export function withLinks(costs: ClusterCosts, plan: Plan, longestSeconds?: number): Plan {
  const tight = withConnections(costs, plan);
  if (costs.batch.wire !== 'auto') return tight;
  const bytes = roomyBytes(costs, tight);
  const peerOf = (id: PeerId) => at(costs.peers, costs.placeOf(id));
  return withChosenWires(tight, {
    ...(longestSeconds === undefined ? {} : { longestSeconds }),
    rate: (from, to) =>
      Math.min(costs.link(from, to).bytesPerSecond ?? MOST_RATE, peerOf(from).upload, peerOf(to).download),
    stepSeconds: (tried) => forecast(costs, tried).stepSeconds,
    isRoomy: (peer) => got(bytes, peer) <= peerOf(peer).memoryBytes,
  });
}

/** What each peer allocates where its links have every encoding that the run may choose. */
export const roomyBytes = (costs: ClusterCosts, plan: Plan): Map<PeerId, number> =>
  memoryOf(costs, plan, undefined, costs.batch.wire === 'auto' ? WIRE_ENCODINGS : undefined);

/** The state as each keeper sees it: the shards that it has alone. */
function stateByPeer(plan: Plan): Map<PeerId, BlockState[]> {
  const found = new Map<PeerId, BlockState[]>();
  for (const { block, shards } of plan.state) {
    for (const shard of shards) {
      for (const keeper of keepersOf(shard)) {
        const own = found.get(keeper) ?? [];
        const latest = own.at(-1);
        if (latest?.block === block) own[own.length - 1] = { block, shards: [...latest.shards, shard] };
        else own.push({ block, shards: [shard] });
        found.set(keeper, own);
      }
    }
  }
  return found;
}

/**
 * The draft that a plan is of, or the nearest one, which has one stage a peer and an order of drafts; null: somebody is not
 * here, or has links too slow for it.
 */
export function sketchOf(costs: ClusterCosts, plan: Plan): Sketch | null {
  if (peersOf(plan).some((peer) => costs.placeOf(peer) < 0)) return null;
  const { layers, groups } = isOwned(plan) ? seatedOnce(costs, plan) : asPlanned(costs, plan);
  const sizes = plan.microBatches.map(({ samples: [from, to] }) => to - from);
  const largest = Math.max(...sizes);
  const slow = plan.stages.some((stage, index) => {
    const most = Math.min(...stage.members.map(({ microBatches }) => microBatches.length));
    return stage.gathered && !isFast(costs, at(groups, index), largest, stage.layered ? most : 1);
  });
  if (slow) return null;
  const isEven = largest - Math.min(...sizes) <= 1;
  const primaries = plan.state.flatMap(({ shards }) => shards.map(({ peer }) => costs.placeOf(peer)));
  const keepers = [...new Set(primaries)].filter((place) => !groups.some((group) => group.includes(place)));
  return {
    groups,
    ...(keepers.length > 0 && { keepers }),
    ...(plan.state.some(({ shards }) => shards.some((shard) => shard.in === 'host')) && { inHost: true }),
    layers,
    microBatches: isEven ? sizes.length : 'sized',
    schedule: plan.schedule === 'gpipe' || plan.schedule === 'breadth-first' ? 'gpipe' : '1f1b',
    ...(plan.warmup && { warmup: plan.warmup }),
  };
}

/** Somebody is in several stages. */
const isOwned = ({ stages }: Plan): boolean => {
  const members = stages.flatMap((stage) => stage.members.map(({ peer }) => peer));
  return new Set(members).size < members.length;
};

const layersIn = ({ layers: [from, to] }: PlanStage): number => to - from;

const asPlanned = (costs: ClusterCosts, { stages }: Plan): Pick<Draft, 'groups' | 'layers'> => ({
  groups: stages.map(({ members }) => members.map(({ peer }) => costs.placeOf(peer))),
  layers: stages.map(layersIn),
});

/** Each peer in the first stage where the way of the first micro-batch meets it, with the layers of all stages on that way. */
function seatedOnce(costs: ClusterCosts, plan: Plan): Pick<Draft, 'groups' | 'layers'> {
  const [first] = plan.microBatches;
  const layers = new Map<number, number>();
  for (const [stage, own] of plan.stages.entries()) {
    const place = costs.placeOf(owner(plan, stage, first?.id ?? 0));
    layers.set(place, (layers.get(place) ?? 0) + layersIn(own));
  }
  return { groups: [...layers.keys()].map((place) => [place]), layers: [...layers.values()] };
}
