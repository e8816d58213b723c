/**
 * ZeRO's third stage inside a stage of a plan (Rajbhandari et al., SC '20): its members keep only their shards, and
 * gather each block from one another before its forward and before its backward; gradients leave as soon as a block's
 * backward is done. Memory that holds a share of everything and one block, or two, is bought with bytes, for every
 * micro-batch anew: values twice and gradients once, where a block kept whole takes gradients and values once a step.
 *
 *   bytes   16 · Ψ · r          values, both moments and the sum of gradients of a member's share r
 *         +  8 · one block      values and gradients of the block computed with; with two blocks at a time, of two neighbours
 *   sent     3 · Ψ · (n − 1)/n  elements a member and micro-batch, of layers; 2 of the embedding and the head
 *
 * Or a member and step, where all of its micro-batches go through a block while it is there (plan/layered.ts), and all of
 * their activations are kept at once.
 *
 * Only where links are fast: where a layer is gathered in less time than it is computed with.
 */
import { arrayOf, at, countIn, countInBoth, got, total, totalOf } from '../base.ts';
import { stageBuffers, unitsOf } from '../memory/memory.ts';
import { type BlockUse, block, layerBlock } from '../model/model.ts';
import { passesOf } from '../plan/layered.ts';
import { type Gathered, keepersOf, type Plan, type PlanStage, samplesById } from '../plan/plan.ts';
import { COMPUTE_PRECISIONS, type Compute } from '../precision.ts';
import {
  type ByteFlow,
  type ClusterCosts,
  flow,
  flowSeconds,
  memo,
  type PlannedPeer,
  type StageShape,
} from './clusterCosts.ts';
import { aloneBytes } from './equalSplit.ts';

/** Of an element of a shard: value, moments, sum of gradients. */
const SHARD_ELEMENT_BYTES = 16;
/** Values of a block on their way to those who gather, or gradients: as float32. */
const SENT_BYTES = 4;

const knownSpared = memo<number, string>();

/** Bytes of a stage's values and gradients that its members need not keep. */
export const sparedBytes = (
  costs: ClusterCosts,
  shape: StageShape,
  gathered: Gathered,
  compute: Compute | null,
): number =>
  knownSpared(costs, `${shape.first} ${shape.last} ${shape.layers} ${gathered} ${compute}`, () =>
    workOut(costs, shape, gathered, compute),
  );

function workOut(
  { model, batch }: ClusterCosts,
  { first, last, layers }: StageShape,
  gathered: Gathered,
  compute: Compute | null,
): number {
  const either = batch.compute === 'f16' ? COMPUTE_PRECISIONS : (['f32'] as const);
  const from = first ? 0 : model.layers - layers - (last ? 0 : 1);
  const size = {
    layers: [from, from + layers] as const,
    samples: 1,
    sequence: batch.sequence,
    slots: 0,
    keepsMade: true,
  };
  const bytes = (own: Compute, more: { readonly gathered?: Gathered }): number =>
    totalOf(stageBuffers(model, { ...size, compute: own, ...more }), (buffer) => buffer.bytes);
  const spared = (own: Compute): number => Math.max(0, bytes(own, {}) - bytes(own, { gathered }));
  return Math.min(...(compute ? [compute] : either).map(spared));
}

/** What all shards of a gathered stage take, and gradients on their way in. The way out is beside it. */
export function gatheredStateBytes(elements: readonly number[]): number {
  const all = total(elements);
  return SHARD_ELEMENT_BYTES * all + SENT_BYTES * Math.max(0, ...elements);
}

/** Seconds to gather a layer that is spread evenly over a group. */
export function gatherSeconds(costs: ClusterCosts, group: readonly number[]): number {
  const bytes = (SENT_BYTES * block(costs.model, layerBlock(0)).elements) / group.length;
  let [latency, most] = [0, 0];
  for (const one of group) {
    const { upload, download } = at(costs.peers, one);
    let seconds = 0;
    for (const other of group) {
      if (one === other) continue;
      const link = costs.linkAt(one, other);
      latency = Math.max(latency, link.latencySeconds);
      seconds += bytes / Math.min(upload, download, link.bytesPerSecond ?? upload);
    }
    most = Math.max(most, seconds);
  }
  return latency + most;
}

/**
 * Are a group's links fast: is a layer gathered in no more time than its fastest peer computes with it, there and back?
 * `together`: so many micro-batches at least, for which it comes once.
 */
export function isFast(costs: ClusterCosts, group: readonly number[], samples: number, together = 1): boolean {
  // What stands lies whole with whoever computes with it.
  if (group.length < 2 || costs.model.standing) return false;
  const passes = group.map((place) => {
    const peer = costs.peers[place];
    return peer ? together * costs.passSeconds(peer, samples) : 0;
  });
  return gatherSeconds(costs, group) <= Math.min(...passes);
}

/** Peers among whom a fast link is looked for: those with most of a sample and layer to do in a second. */
const MOST_PAIRED = 48;

/** No draft takes more of a peer than so many times what it takes alone: beside that it has others' slices. */
const MOST_OF_ALONE = 1.5;

/** May any draft gather: does some peer lack memory for all of the model, and are some two links fast enough? */
export function mayBeGathered(costs: ClusterCosts): boolean {
  const { samples, sequence } = costs.batch;
  const needs = aloneBytes(costs.model, samples, sequence);
  if (costs.peers.every(({ memoryBytes }) => memoryBytes >= MOST_OF_ALONE * needs)) return false;
  const places = [...costs.peers.keys()]
    .sort((a, b) => (costs.speeds[b] ?? 0) - (costs.speeds[a] ?? 0))
    .slice(0, MOST_PAIRED);
  return places.some((one, index) => places.slice(index + 1).some((other) => isFast(costs, [one, other], samples)));
}

/** How many times as long a layer takes there and back where it is gathered, once for so many micro-batches: on average over the group. */
export function timesAsLong(
  costs: ClusterCosts,
  group: readonly number[],
  samples: number,
  gathered: Gathered,
  together = 1,
): number {
  const gather = gatherSeconds(costs, group) / together;
  let [plain, longer] = [0, 0];
  for (const place of group) {
    const peer = at(costs.peers, place);
    const pass = costs.passSeconds(peer, samples);
    const give = 1 - peer.rest;
    const forward = give * costs.layerSeconds(peer, samples);
    const backward = give * pass - forward;
    plain += 1 / pass;
    // Values twice, gradients once; who gives a share of its time rests meanwhile.
    const until =
      gathered === 1 ? give * pass + 3 * gather : Math.max(forward, gather) + Math.max(backward, 2 * gather);
    longer += 1 / Math.max(pass, until);
  }
  return longer > 0 ? plain / longer : 1;
}

/** A piece of work, what must have come before it, and what leaves after it: seconds. */
export interface Piece {
  readonly before: number;
  readonly compute: number;
  readonly after: number;
}

/**
 * Seconds of pieces one after the other. With one block at a time nothing is hidden; with two, the next one comes and the
 * one before leaves, over the same links, while one is computed with.
 */
export function passSeconds(pieces: readonly Piece[], gathered: Gathered): number {
  if (gathered === 1) return pieces.reduce((sum, { before, compute, after }) => sum + before + compute + after, 0);
  let seconds = (pieces[0]?.before ?? 0) + (pieces.at(-1)?.after ?? 0);
  for (const [at, { compute }] of pieces.entries())
    seconds += Math.max(compute, (pieces[at + 1]?.before ?? 0) + (pieces[at - 1]?.after ?? 0));
  return seconds;
}

/** A block, or two, that come together. */
type Unit = ReturnType<typeof unitOf>;
type Units = ReturnType<typeof unitsAt>;

export type Gathers = ReturnType<typeof gathersOf>;

/**
 * What gathering adds to a plan's work: how long a forward and a backward take in a stage whose blocks come and go
 * (gathering.ts), and what is sent for them. A block is there when the slowest member has sent and received its part,
 * as in any collective, so that a stage has one gather time and one reduce time of a block for all.
 *
 * `pipeline`: what the same peers hand on as activations, over the same caps.
 */
export function gathersOf(costs: ClusterCosts, plan: Plan, pipeline: ByteFlow) {
  const sent = flow();
  const stages = plan.stages.map((stage, index) => {
    if (!stage.gathered) return null;
    const shape = { first: index === 0, last: index === plan.stages.length - 1 };
    const units = unitsAt(costs, plan, stage, shape, pipeline);
    addSent(costs, stage, units, sent);
    return stageGathers(costs, units, plan, stage);
  });
  /** By stage, null: its members keep their blocks whole; and what is sent in a step. */
  return { stages, sent };
}

function unitsAt(
  costs: ClusterCosts,
  plan: Plan,
  { layers, members }: PlanStage,
  ends: Pick<StageShape, 'first' | 'last'>,
  pipeline: ByteFlow,
) {
  const places = members.map(({ peer }) => costs.placeOf(peer));
  const units = unitsOf(costs.model, layers, ends.first);
  const unit = (uses: readonly BlockUse[]) => unitOf(costs, plan, places, uses, pipeline);
  // Layers are cut alike: the first one stands for all.
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
  pipeline: ByteFlow,
) {
  const [values, slices] = [flow(), flow()];
  for (const { block, ranges } of uses)
    for (const shard of plan.state.find((state) => state.block === block)?.shards ?? []) {
      const primary = costs.placeOf(shard.peer);
      const keepers = keepersOf(shard).map(costs.placeOf);
      const bytes = SENT_BYTES * totalOf(ranges, (part) => countInBoth(part, shard.range));
      for (const place of places) {
        if (bytes === 0) continue;
        if (place !== primary) values.add(primary, place, bytes);
        for (const keeper of keepers) if (place !== keeper) slices.add(place, keeper, bytes);
      }
    }
  const slowest = (of: ByteFlow): number =>
    Math.max(0, ...places.map((place) => flowSeconds(costs, place, of, 1 + pipeline.partners(place))));
  /** Of one gather by every member, and of its gradients. */
  return { values, slices, gather: slowest(values), reduce: slowest(slices) };
}

/** Gathers of a micro-batch, or of all that pass together: every layer twice, the embedding and the head once; gradients of each once. */
function addSent(costs: ClusterCosts, stage: PlanStage, units: Units, sent: ByteFlow): void {
  const { members, layers } = stage;
  const count = countIn(layers);
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

function stageGathers(costs: ClusterCosts, { embedding, layer, head }: Units, plan: Plan, stage: PlanStage) {
  const shape = { first: false, last: false, layers: 0 };
  const { gathered = 1 } = stage;
  const layers = (count: number, piece: Piece): Piece[] => arrayOf(count, () => piece);
  const together = samplesTogether(plan, stage);
  /** Of a micro-batch: of those that pass together its part, by its samples. */
  const share = (peer: PlannedPeer, samples: number, pieces: (sizes: readonly number[]) => Piece[]): Share => {
    const sizes = together(peer, samples);
    const all = total(sizes);
    const own = pieces(sizes);
    const atWork = own.map(({ compute, ...moved }) => ({ ...moved, compute: compute * (1 - peer.rest) }));
    const until = passSeconds(atWork, gathered);
    const rest = Math.max(0, totalOf(own, ({ compute }) => compute) - until);
    return { seconds: ((until + rest) * samples) / all, rest: (rest * samples) / all };
  };
  const forward = (peer: PlannedPeer, { layers: count }: StageShape, samples: number): Share =>
    share(peer, samples, (sizes) => {
      const seconds = (of: Partial<StageShape>) =>
        totalOf(sizes, (size) => costs.forwardSeconds(peer, { ...shape, ...of }, size));
      const pieces = layers(count, { before: layer.gather, compute: seconds({ layers: 1 }), after: 0 });
      if (embedding) pieces.unshift({ before: embedding.gather, compute: seconds({ first: true }), after: 0 });
      // The head's backward runs with its forward.
      if (head) pieces.push({ before: head.gather, compute: seconds({ last: true }), after: head.reduce });
      return pieces;
    });
  const backward = (peer: PlannedPeer, { layers: count }: StageShape, samples: number): Share =>
    share(peer, samples, (sizes) => {
      const seconds = (of: Partial<StageShape>) =>
        totalOf(sizes, (size) => costs.backwardSeconds(peer, { ...shape, ...of }, size));
      const pieces = layers(count, { before: layer.gather, compute: seconds({ layers: 1 }), after: layer.reduce });
      // Its rows' gradients need no values.
      if (embedding) pieces.push({ before: 0, compute: seconds({ first: true }), after: embedding.reduce });
      return pieces;
    });
  type Of = Parameters<typeof forward>;
  return {
    forwardSeconds: (...of: Of): number => forward(...of).seconds,
    backwardSeconds: (...of: Of): number => backward(...of).seconds,
    /** Of these seconds those after a forward's or a backward's outcome can leave: who rests does so while it waits too. */
    restSeconds: { F: (...of: Of): number => forward(...of).rest, B: (...of: Of): number => backward(...of).rest },
    /** Until the gradient of a layer is with its keepers, and of the head, which is made with its forward; null: it is not here. */
    sumSeconds: { layer: layer.reduce, head: head?.reduce ?? null },
    /** What comes for one forward and for one backward, all of it one after the other. */
    gatherSeconds: (op: 'F' | 'B', count: number): number =>
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
  plan: Plan,
  { members, layered }: PlanStage,
): (peer: PlannedPeer, samples: number) => readonly number[] {
  if (!layered) return (_, samples) => [samples];
  const sizes = samplesById(plan);
  const own = new Map(members.map(({ peer, microBatches }) => [peer, microBatches.map((id) => got(sizes, id))]));
  return ({ id }) => got(own, id);
}
