/**
 * Where the search begins: groupings of the peers for every number of stages, at every level of the tree of regions, with
 * all peers, the fastest ones alone, or one region alone. Few peers are grouped in every possible way.
 */
import type { ClusterCosts } from './clusterCosts.ts';
import {
  balanced,
  distances,
  type Groups,
  pathOrder,
  type RegionTree,
  regionsOf,
  regionTree,
  stagesPerCluster,
  widthOf,
} from './grouping.ts';

/** So many peers, and all ways to order and group some of them are tried: 149 for four. */
const MOST_FOR_ALL = 4;
/** So many of the fastest are tried alone. */
const MOST_ALONE = 64;
/** More regions than these are not begun with one by one. */
const MOST_REGIONS = 32;
/** Past six stages not every number is tried. */
const STAGE_COUNTS = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 48, 64];

/** Peers by what they are, not by where they stand in the file: the fastest first, of those alike who stays longest. */
export function canonicalOrder({ peers, slowness }: ClusterCosts): number[] {
  const speed = peers.map(slowness);
  const key = (place: number): string => {
    const peer = peers[place];
    return peer ? JSON.stringify([peer.region, peer.id]) : '';
  };
  return [...peers.keys()].sort(
    (a, b) =>
      (speed[a] ?? 0) - (speed[b] ?? 0) ||
      (peers[b]?.memoryBytes ?? 0) - (peers[a]?.memoryBytes ?? 0) ||
      (peers[b]?.upload ?? 0) - (peers[a]?.upload ?? 0) ||
      (peers[b]?.sessionSeconds ?? 0) - (peers[a]?.sessionSeconds ?? 0) ||
      (key(a) < key(b) ? -1 : 1),
  );
}

/** The most memory first. */
export const byMemory = ({ peers }: ClusterCosts, places: readonly number[]): number[] =>
  places.toSorted((a, b) => (peers[b]?.memoryBytes ?? 0) - (peers[a]?.memoryBytes ?? 0));

export function starts(costs: ClusterCosts): Groups[] {
  const order = canonicalOrder(costs);
  const found = new Map<string, Groups>();
  const add = (groups: Groups): void => {
    if (groups.length > 0 && groups.length <= costs.model.layers) found.set(JSON.stringify(groups), groups);
  };
  if (order.length <= MOST_FOR_ALL) for (const groups of everyGrouping(order)) add(groups);
  else for (const places of subsets(costs, order)) for (const groups of groupings(costs, places)) add(groups);
  return [...found.values()];
}

/**
 * Peers in the order of what they would cost a pipeline of so many stages: their layers, and their part of the traffic
 * over their own caps and their fastest link to one of those who are in it.
 */
export function byUse(
  costs: ClusterCosts,
  places: readonly number[],
  stages: number,
  near: readonly number[] = [],
): number[] {
  const { peers, slowness, model, sampleBytes, linkAt } = costs;
  const hop = (place: number, rate: number): number => {
    if (near.length === 0) return sampleBytes / rate;
    let least = Number.POSITIVE_INFINITY;
    for (const other of near) {
      const { latencySeconds, bytesPerSecond } = linkAt(place, other);
      least = Math.min(least, latencySeconds + sampleBytes / Math.min(rate, bytesPerSecond ?? rate));
    }
    return least;
  };
  const seconds = new Map(
    places.map((place) => {
      const peer = peers[place];
      if (!peer) return [place, Number.POSITIVE_INFINITY];
      const traffic = stages === 1 ? 0 : 2 * hop(place, Math.min(peer.upload, peer.download));
      return [place, (slowness(peer) * model.layers) / stages + traffic];
    }),
  );
  return places.toSorted((a, b) => (seconds.get(a) ?? 0) - (seconds.get(b) ?? 0));
}

/** The best few, and more, of all peers and of each region: by speed, by memory, and by what they would cost a pipeline. */
function subsets(costs: ClusterCosts, order: readonly number[]): (readonly number[])[] {
  const byMemory = order.toSorted((a, b) => (costs.peers[b]?.memoryBytes ?? 0) - (costs.peers[a]?.memoryBytes ?? 0));
  const found = [order, byMemory, byUse(costs, order, 4), byUse(costs, order, 16)].flatMap(beginnings);
  const regions = new Map<string, number[]>();
  for (const place of order) {
    const region = costs.peers[place]?.region ?? '';
    const own = regions.get(region);
    if (own) own.push(place);
    else regions.set(region, [place]);
  }
  if (regions.size > 1 && regions.size <= MOST_REGIONS)
    for (const places of regions.values()) found.push(...beginnings(byUse(costs, places, 4)));
  found.push(...order.slice(0, MOST_ALONE).map((place) => [place]));
  const distinct = new Map(found.map((places) => [places.toSorted((a, b) => a - b).join(), places]));
  return [...distinct.values()];
}

/** The first one, two, three, four, seven, twelve, … and all of them. */
function beginnings(places: readonly number[]): number[][] {
  const found: number[][] = [];
  for (let count = 1; count < places.length; count = count < 4 ? count + 1 : Math.ceil(count * (count < 64 ? 1.6 : 2)))
    found.push(places.slice(0, count));
  return [...found, [...places]];
}

function* groupings(costs: ClusterCosts, places: readonly number[]): Generator<Groups> {
  const { model, peers, slowness } = costs;
  const layerBytes = 4 * (model.blocks.find(({ name }) => name === 'layer.0')?.elements ?? 1);
  const table = distances(costs, places, layerBytes);
  const speed = places.map((place) => {
    const peer = peers[place];
    return peer ? 1 / Math.max(1e-12, slowness(peer)) : 0;
  });
  const speedOf = (index: number): number => speed[index] ?? 0;
  const tree = regionTree(table, places.length);
  for (const stages of STAGE_COUNTS) {
    if (stages > model.layers || stages > places.length) break;
    for (const count of regionCounts(tree, stages)) {
      const clusters = regionsOf(tree, count);
      const speeds = clusters.map((cluster) => cluster.reduce((sum, index) => sum + speedOf(index), 0));
      const sizes = clusters.map((cluster) => cluster.length);
      const shares = stagesPerCluster(speeds, sizes, stages);
      if (shares === null) continue;
      const groups = clusters.flatMap((cluster, index) => balanced(cluster, speedOf, shares[index] ?? 1));
      yield pathOrder(groups, table, places.length).map((group) => group.map((index) => places[index] ?? 0));
    }
  }
}

/** Levels worth trying: one region, as many as stages, and where the tree's joints grow most. */
function regionCounts(tree: RegionTree, stages: number): number[] {
  const candidates = Array.from({ length: Math.min(stages, tree.count) }, (_, index) => index + 1);
  const widths = candidates.map((clusters) => widthOf(tree, clusters));
  const growth = candidates.map((_, index) => (widths[index - 1] ?? 0) / (widths[index] || 1e-12));
  const sharpest = candidates.toSorted((a, b) => (growth[b - 1] ?? 0) - (growth[a - 1] ?? 0)).slice(0, 2);
  return [...new Set([1, Math.min(stages, tree.count), ...sharpest])].sort((a, b) => a - b);
}

/** Every sequence of disjoint groups of some of the peers. */
function* everyGrouping(places: readonly number[]): Generator<Groups> {
  yield [];
  for (let mask = 1; mask < 1 << places.length; mask++) {
    const group = places.filter((_, index) => mask & (1 << index));
    const rest = places.filter((_, index) => !(mask & (1 << index)));
    for (const groups of everyGrouping(rest)) yield [group, ...groups];
  }
}
