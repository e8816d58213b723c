/**
 * How much longer the exchange of state takes than a guess at a draft says, which spreads a stage's state evenly. Its one
 * idea: as few layers are recomputed as leave room for the state, so who has little memory keeps little of it, and all
 * the others send their gradients to whoever keeps most.
 */
import type { ClusterCosts, StageShape } from './clusterCosts.ts';
import type { Draft } from './draft.ts';
import { exchangeSeconds, tiedExchangeSeconds } from './linkGuess.ts';
import { remembered } from './remembered.ts';
import { inFlightAt, type Load, rooms } from './stageGuess.ts';
import { stateBytes, wayOut } from './statePlacement.ts';
import { levelShares } from './stateShares.ts';

const ELEMENT_BYTES = 4;

/**
 * Seconds, less than 0 where they are fewer, of a draft without keepers that fits as far as a guess can see; Infinity where
 * its state has no room after all. A tied table goes to and fro beside the state of other stages than the first and last.
 */
export function unevenStateSeconds(costs: ClusterCosts, { groups, layers, microBatches, schedule }: Draft): number {
  const count = microBatches === 'sized' ? costs.batch.samples : microBatches;
  const samples = Math.ceil(costs.batch.samples / count);
  const width = widthOf(costs, groups);
  const last = groups.length - 1;
  const tied = last > 0 && costs.model.tied ? tiedExchangeSeconds(costs, groups[0] ?? [], groups[last] ?? []) : 0;
  let [even, uneven, before] = [0, tied / 2, 0];
  for (const [stage, group] of groups.entries()) {
    if (group.length < 2) continue;
    const shape: StageShape = { first: stage === 0, last: stage === last, layers: layers[stage] ?? 1 };
    const inFlight = inFlightAt(schedule, groups.length, stage, count, width);
    const key = ((count * (costs.batch.samples + 1) + inFlight) * (costs.model.layers + 1) + shape.layers) * 4;
    const [evenly, byRoom] = known(costs, group, key + (shape.first ? 1 : 0) + (shape.last ? 2 : 0), () =>
      exchangesOf(costs, group, shape, { samples, inFlight }),
    );
    even = Math.max(even, evenly);
    uneven = Math.max(uneven, byRoom + (shape.first || shape.last ? tied / 2 : 0));
    before = Math.max(before, byRoom - evenly);
  }
  return uneven - even - tied / 2 + before;
}

const known = remembered<readonly [number, number]>();

/** As many equal lanes as the busiest one of any stage leaves room for. */
function widthOf(costs: ClusterCosts, groups: Draft['groups']): number {
  let width = 1;
  for (const group of groups) {
    let [sum, most] = [0, 0];
    for (const place of group) {
      const speed = costs.speeds[place] ?? 0;
      sum += speed;
      most = Math.max(most, speed);
    }
    width = Math.max(width, sum / most);
  }
  return width;
}

/** Seconds of the slices, or of the values, which are about the same: of shares alike, and by room. */
function exchangesOf(costs: ClusterCosts, group: readonly number[], shape: StageShape, load: Load): [number, number] {
  const elementsOf = (name: string): number => costs.model.blocks.find((block) => block.name === name)?.elements ?? 0;
  const blocks = [
    { elements: elementsOf('layer.0'), count: shape.layers, shared: true },
    { elements: elementsOf('embedding'), count: shape.first ? 1 : 0, shared: true },
    { elements: elementsOf('head'), count: shape.last ? 1 : 0, shared: true },
  ];
  const elements = blocks.reduce((sum, block) => sum + block.elements * block.count, 0);
  const out = wayOut(blocks.filter(({ count }) => count > 0).map((block) => block.elements));
  const state = out.shared + stateBytes(blocks, costs.hasMasters(group));
  const shares = sharesByRoom(costs, group, shape, load, { state, outEach: out.each });
  const byRoom = shares === null ? Number.POSITIVE_INFINITY : secondsPerByte(costs, group, shares);
  return [(exchangeSeconds(costs, group) / 2) * elements, ELEMENT_BYTES * elements * byRoom];
}

/** Parts of the whole; null where it has no room. */
function sharesByRoom(
  costs: ClusterCosts,
  group: readonly number[],
  shape: StageShape,
  load: Load,
  { state, outEach }: { readonly state: number; readonly outEach: number },
): number[] | null {
  const roomsFor = rooms(costs, group, load);
  const roomsBesideOut = (isRecomputed: boolean) => roomsFor(shape, isRecomputed).map((own) => own - outEach);
  const [kept, recomputed] = [roomsBesideOut(false), roomsBesideOut(true)];
  for (let again = 0; again <= shape.layers; again++) {
    const part = again / shape.layers;
    const room = kept.map((own, at) => Math.max(0, own + part * Math.max(0, (recomputed[at] ?? 0) - own)));
    if (room.reduce((sum, own) => sum + own, 0) < state) continue;
    return levelShares(room, state).map((share) => share / state);
  }
  return null;
}

/** Of what all of them hold: slices to who keeps them, values back, the mean of both. */
function secondsPerByte(costs: ClusterCosts, group: readonly number[], shares: readonly number[]): number {
  let [slices, values] = [0, 0];
  for (const [at, place] of group.entries()) {
    const peer = costs.peers[place];
    if (!peer) continue;
    const own = shares[at] ?? 0;
    const rates = costs.ratesFrom(place);
    let [slicesOut, slicesIn, valuesOut, valuesIn] = [0, 0, 0, 0];
    for (const [to, other] of group.entries()) {
      if (to === at) continue;
      const rate = rates[other] ?? Number.POSITIVE_INFINITY;
      const [there, here] = [1 / Math.min(peer.upload, rate), 1 / Math.min(peer.download, rate)];
      const theirs = shares[to] ?? 0;
      slicesOut += theirs * there;
      slicesIn += own * here;
      valuesOut += own * there;
      valuesIn += theirs * here;
    }
    slices = Math.max(slices, slicesOut, slicesIn);
    values = Math.max(values, valuesOut, valuesIn);
  }
  return (slices + values) / 2;
}
