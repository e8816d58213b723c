/**
 * What gathering adds to a plan's work: how long a forward and a backward take in a stage whose blocks come and go
 * (gathering.ts), and what is sent for them. A block is there when the slowest member has sent and received its part,
 * as in any collective, so that a stage has one gather time and one reduce time of a block for all.
 */
import { got, overlap } from '../base.ts';
import { unitsOf } from '../memory/gatheredUnits.ts';
import type { BlockUse } from '../model/model.ts';
import { passesOf } from '../plan/layered.ts';
import { keepersOf, type Plan, type PlanStage } from '../plan/plan.ts';
import type { ClusterCosts, PlannedPeer, StageShape } from './clusterCosts.ts';
import { type Flow, flow, flowSeconds } from './flow.ts';
import { type Piece, passSeconds, SENT_BYTES } from './gathering.ts';

/** A block, or two, that come together. */
interface Unit {
  /** Of one gather by every member. */
  readonly values: Flow;
  /** Of its gradients. */
  readonly slices: Flow;
  readonly gather: number;
  readonly reduce: number;
}

/** Layers are cut alike: the first one stands for all. */
interface Units {
  readonly embedding: Unit | null;
  readonly layer: Unit;
  readonly head: Unit | null;
}

type SecondsOf = (peer: PlannedPeer, shape: StageShape, samples: number) => number;

interface StageGathers {
  readonly forwardSeconds: SecondsOf;
  readonly backwardSeconds: SecondsOf;
  /** Of these seconds those after a forward's or a backward's outcome can leave: who rests does so while it waits too. */
  readonly restSeconds: { readonly F: SecondsOf; readonly B: SecondsOf };
  /** What comes for one forward and for one backward, all of it one after the other. */
  readonly gatherSeconds: (op: 'F' | 'B', layers: number) => number;
  /** Until the gradient of a layer is with its keepers, and of the head, which is made with its forward; null: it is not here. */
  readonly sumSeconds: { readonly layer: number; readonly head: number | null };
}

export interface Gathers {
  /** By stage; null: its members keep their blocks whole. */
  readonly stages: readonly (StageGathers | null)[];
  /** Of a step. */
  readonly sent: Flow;
}

/** `pipeline`: what the same peers hand on as activations, over the same caps. */
export function gathersOf(costs: ClusterCosts, plan: Plan, pipeline: Flow): Gathers {
  const sent = flow();
  const stages = plan.stages.map((stage, index) => {
    if (!stage.gathered) return null;
    const shape = { first: index === 0, last: index === plan.stages.length - 1 };
    const units = unitsAt(costs, plan, stage, shape, pipeline);
    addSent(costs, stage, units, sent);
    return stageGathers(costs, units, plan, stage);
  });
  return { stages, sent };
}

function unitsAt(
  costs: ClusterCosts,
  plan: Plan,
  { layers, members }: PlanStage,
  ends: Pick<StageShape, 'first' | 'last'>,
  pipeline: Flow,
): Units {
  const places = members.map(({ peer }) => costs.placeOf(peer));
  const units = unitsOf(costs.model, layers, ends.first);
  const unit = (uses: readonly BlockUse[]): Unit => unitOf(costs, plan, places, uses, pipeline);
  return {
    embedding: ends.first ? unit(units[0] ?? []) : null,
    layer: unit(units[ends.first ? 1 : 0] ?? []),
    head: ends.last ? unit(units.at(-1) ?? []) : null,
  };
}

function unitOf(
  costs: ClusterCosts,
  plan: Plan,
  places: readonly number[],
  uses: readonly BlockUse[],
  pipeline: Flow,
): Unit {
  const [values, slices] = [flow(), flow()];
  for (const { block, ranges } of uses)
    for (const shard of plan.state.find((state) => state.block === block)?.shards ?? []) {
      const primary = costs.placeOf(shard.peer);
      const keepers = keepersOf(shard).map(costs.placeOf);
      const bytes = ranges.reduce((sum, part) => {
        const [from, to] = overlap(part, shard.range) ?? [0, 0];
        return sum + (to - from) * SENT_BYTES;
      }, 0);
      for (const place of places) {
        if (bytes === 0) continue;
        if (place !== primary) values.add(primary, place, bytes);
        for (const keeper of keepers) if (place !== keeper) slices.add(place, keeper, bytes);
      }
    }
  const slowest = (of: Flow): number =>
    Math.max(0, ...places.map((place) => flowSeconds(costs, place, of, 1 + pipeline.partners(place))));
  return { values, slices, gather: slowest(values), reduce: slowest(slices) };
}

/** Gathers of a micro-batch, or of all that pass together: every layer twice, the embedding and the head once; gradients of each once. */
function addSent(costs: ClusterCosts, stage: PlanStage, units: Units, sent: Flow): void {
  const { members, layers } = stage;
  const count = layers[1] - layers[0];
  for (const member of members) {
    const place = costs.placeOf(member.peer);
    const passes = passesOf(stage, member).length;
    const add = (unit: Unit | null, gathers: number, reduces: number): void => {
      for (const [keeper, bytes] of unit?.values.to(place) ?? []) sent.add(keeper, place, bytes * gathers * passes);
      for (const [keeper, bytes] of unit?.slices.from(place) ?? []) sent.add(place, keeper, bytes * reduces * passes);
    };
    add(units.embedding, 1, 1);
    add(units.layer, 2 * count, count);
    add(units.head, 1, 1);
  }
}

function stageGathers(
  costs: ClusterCosts,
  { embedding, layer, head }: Units,
  plan: Plan,
  stage: PlanStage,
): StageGathers {
  const shape = { first: false, last: false, layers: 0 };
  const { gathered = 1 } = stage;
  const layers = (count: number, piece: Piece): Piece[] => Array.from({ length: count }, () => piece);
  const together = samplesTogether(plan, stage);
  /** Of a micro-batch: of those that pass together its part, by its samples. */
  const share = (peer: PlannedPeer, samples: number, pieces: (sizes: readonly number[]) => Piece[]): Share => {
    const sizes = together(peer, samples);
    const all = sizes.reduce((sum, size) => sum + size, 0);
    const own = pieces(sizes);
    const atWork = own.map(({ compute, ...moved }) => ({ ...moved, compute: compute * (1 - peer.rest) }));
    const until = passSeconds(atWork, gathered);
    const rest = Math.max(0, own.reduce((sum, { compute }) => sum + compute, 0) - until);
    return { seconds: ((until + rest) * samples) / all, rest: (rest * samples) / all };
  };
  const forward = (peer: PlannedPeer, { layers: count }: StageShape, samples: number): Share =>
    share(peer, samples, (sizes) => {
      const seconds = (of: Partial<StageShape>) =>
        sizes.reduce((sum, size) => sum + costs.forwardSeconds(peer, { ...shape, ...of }, size), 0);
      const pieces = layers(count, { before: layer.gather, compute: seconds({ layers: 1 }), after: 0 });
      if (embedding) pieces.unshift({ before: embedding.gather, compute: seconds({ first: true }), after: 0 });
      // The head's backward runs with its forward.
      if (head) pieces.push({ before: head.gather, compute: seconds({ last: true }), after: head.reduce });
      return pieces;
    });
  const backward = (peer: PlannedPeer, { layers: count }: StageShape, samples: number): Share =>
    share(peer, samples, (sizes) => {
      const seconds = (of: Partial<StageShape>) =>
        sizes.reduce((sum, size) => sum + costs.backwardSeconds(peer, { ...shape, ...of }, size), 0);
      const pieces = layers(count, { before: layer.gather, compute: seconds({ layers: 1 }), after: layer.reduce });
      // Its rows' gradients need no values.
      if (embedding) pieces.push({ before: 0, compute: seconds({ first: true }), after: embedding.reduce });
      return pieces;
    });
  return {
    forwardSeconds: (...of) => forward(...of).seconds,
    backwardSeconds: (...of) => backward(...of).seconds,
    restSeconds: { F: (...of) => forward(...of).rest, B: (...of) => backward(...of).rest },
    sumSeconds: { layer: layer.reduce, head: head?.reduce ?? null },
    gatherSeconds: (op, count) =>
      layer.gather * count + (op === 'F' ? (embedding?.gather ?? 0) + (head?.gather ?? 0) : 0),
  };
}

/** Of what a pass takes, a micro-batch's part, and of that the rest at its end. */
interface Share {
  readonly seconds: number;
  readonly rest: number;
}

/** The micro-batches that pass with one of so many samples. */
function samplesTogether(
  { microBatches: all }: Plan,
  { members, layered }: PlanStage,
): (peer: PlannedPeer, samples: number) => readonly number[] {
  if (!layered) return (_, samples) => [samples];
  const sizes = new Map(all.map(({ id, samples: [from, to] }) => [id, to - from]));
  const own = new Map(members.map(({ peer, microBatches }) => [peer, microBatches.map((id) => got(sizes, id))]));
  return ({ id }) => got(own, id);
}
