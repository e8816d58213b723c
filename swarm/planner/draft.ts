/**
 * From a planner's draft (who is in which stage, how many layers each, how many micro-batches) to a plan that its peers
 * can hold. Its one idea, Cephalo's: batch follows speed, state follows the memory that is left. Micro-batches go to the
 * member that would end them first; layers are recomputed only where memory asks for it; each member keeps as much of
 * the stage's state as it has room for, the largest share as small as can be.
 */
import { evenRanges, type PeerId, type Range } from '../base.ts';
import { shardBuffers, type stagesOfPeer } from '../plan/memory.ts';
import {
  type BlockState,
  type Gathered,
  gatheringHome,
  holdersOfAll,
  type Member,
  type MicroBatch,
  type Plan,
  type PlanStage,
  peers as peersOf,
} from '../plan/plan.ts';
import type { Schedule, ScheduleName } from '../schedule/action.ts';
import { build } from '../schedule/lower.ts';
import { slots as slotsOf } from '../schedule/slots.ts';
import type { ClusterCosts, PlannedPeer, StageShape } from './clusterCosts.ts';
import { shapeOf } from './forecast.ts';
import { incomingBytes, isFast, sparedBytes } from './gathering.ts';
import { sizedMicroBatches } from './laneSizes.ts';
import { fitStage, type Slots } from './stageFit.ts';
import { type Keepers, type Placement, type Shares, stateOf, wayOutBytes } from './statePlacement.ts';

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
  /** How many blocks of each stage are whole at a time; 0, or absent: all of them. */
  readonly gathered?: readonly (Gathered | 0)[];
}

/** The plan, and how many bytes its peers lack for it; null where the draft is none. */
interface Drafted {
  readonly plan: Plan;
  /** As its builder writes it. */
  readonly schedule: Schedule;
  readonly missingBytes: number;
}

export function planOf(costs: ClusterCosts, draft: Draft): Drafted | null {
  const compute = computePlan(costs, draft);
  if (compute === null || !hasFastLinks(costs, compute)) return null;
  const schedule = build(compute);
  const inFlight = slotsOf(schedule);
  let missing = 0;
  const shares: Shares[] = [];
  const beside = KEEPER_BYTES + wayOutBytes(costs.model.blocks.map(({ elements }) => elements));
  const keepers: Keepers = new Map(
    (draft.keepers ?? []).map((place) => [place, (costs.peers[place]?.memoryBytes ?? 0) - beside]),
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

/** Layers are never gathered over slow links. */
function hasFastLinks(costs: ClusterCosts, { stages, microBatches }: Plan): boolean {
  const most = microBatches.reduce((so, { samples: [from, to] }) => Math.max(so, to - from), 0);
  return stages.every(
    ({ gathered, members }) =>
      !gathered ||
      isFast(
        costs,
        members.map(({ peer }) => costs.placeOf(peer)),
        most,
      ),
  );
}

function computePlan(costs: ClusterCosts, draft: Draft): Plan | null {
  const { groups, layers, microBatches, schedule } = draft;
  const { samples } = costs.batch;
  const whole = (stage: number): { gathered?: Gathered } => {
    const gathered = draft.gathered?.[stage];
    return gathered ? { gathered } : {};
  };
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
    const sized = groups.length === 1 ? sizedMicroBatches(costs, members(0), shape(0), whole(0).gathered) : null;
    if (sized === null) return null;
    const stage: PlanStage = { layers: ranges[0] ?? [0, 0], members: sized.members, ...whole(0) };
    return { microBatches: sized.microBatches, stages: [stage], state: [], schedule };
  }
  if (microBatches > samples || groups.some((group) => group.length > microBatches)) return null;
  const batches = evenRanges(samples, microBatches).map((range, id): MicroBatch => ({ id, samples: range }));
  const stages = groups.map((_, stage) => ({
    layers: ranges[stage] ?? ([0, 0] as const),
    members: deal(costs, members(stage), shape(stage), batches),
    ...whole(stage),
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

/** What each peer of a plan allocates, buffer by buffer, and what it says it needs beyond that. */
export function memoryOf(costs: ClusterCosts, plan: Plan, schedule: Schedule = build(plan)): Map<PeerId, number> {
  const inFlight = slotsOf(schedule);
  const holders = keptWholeBy(plan, holdersOfAll(costs.model, plan));
  const gathers = plan.stages.some(({ gathered }) => gathered);
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
      ).reduce((sum, buffer) => sum + buffer.bytes, gathers ? incomingBytes(costs, plan, id) : 0);
      for (const [stage, { samples, slots, recompute = [] }] of sizesOf(plan, id, costs.batch.sequence, inFlight)) {
        const shape = shapeOf(plan, stage);
        const load = { samples, slots, recomputed: recompute.length };
        bytes += costs.memory.stageBytes(shape, load, compute);
        const { gathered } = plan.stages[stage] ?? {};
        if (gathered) bytes -= sparedBytes(costs, shape, gathered, compute);
        if (peer) bytes += costs.extraBytes(peer, shape.layers, load);
      }
      return [id, bytes];
    }),
  );
}

/** Nobody who gathers a block holds it: values and sums of gradients are the shards' own. */
function keptWholeBy(plan: Plan, holders: ReturnType<typeof holdersOfAll>): ReturnType<typeof holdersOfAll> {
  const kept = new Map(holders);
  for (const [block, own] of holders) {
    const home = gatheringHome(plan, block);
    if (home !== null)
      kept.set(
        block,
        own.filter(({ stage }) => plan.stages[stage] !== home),
      );
  }
  return kept;
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
