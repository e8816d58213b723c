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
import { at } from '../base.ts';
import { stageBuffers } from '../memory/memory.ts';
import { block, layerBlock } from '../model/model.ts';
import type { Gathered } from '../plan/plan.ts';
import { COMPUTE_PRECISIONS, type Compute } from '../precision.ts';
import { aloneBytes } from './aloneBytes.ts';
import type { ClusterCosts, StageShape } from './clusterCosts.ts';

/** Of an element of a shard: value, moments, sum of gradients. */
const SHARD_ELEMENT_BYTES = 16;
/** Values of a block on their way to those who gather, or gradients: as float32. */
export const SENT_BYTES = 4;

const spares = new WeakMap<ClusterCosts, Map<string, number>>();

/** Bytes of a stage's values and gradients that its members need not keep. */
export function sparedBytes(
  costs: ClusterCosts,
  shape: StageShape,
  gathered: Gathered,
  compute: Compute | null,
): number {
  const known = spares.get(costs) ?? new Map<string, number>();
  spares.set(costs, known);
  const key = `${shape.first} ${shape.last} ${shape.layers} ${gathered} ${compute}`;
  const found = known.get(key) ?? workOut(costs, shape, gathered, compute);
  known.set(key, found);
  return found;
}

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
    stageBuffers(model, { ...size, compute: own, ...more }).reduce((sum, buffer) => sum + buffer.bytes, 0);
  const spared = (own: Compute): number => Math.max(0, bytes(own, {}) - bytes(own, { gathered }));
  return Math.min(...(compute ? [compute] : either).map(spared));
}

/** What all shards of a gathered stage take, and gradients on their way in. The way out is beside it. */
export function gatheredStateBytes(elements: readonly number[]): number {
  const all = elements.reduce((sum, own) => sum + own, 0);
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
  if (group.length < 2) return false;
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
