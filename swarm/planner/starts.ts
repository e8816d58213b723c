/**
 * Where the search begins: groupings of the peers for every number of stages, at every level of the tree of regions, with
 * all peers, the fastest ones alone, or one region alone. Few peers are grouped in every possible way.
 */
import type { ClusterCosts } from './clusterCosts.ts';
import { balanced, distances, type Groups, levels, pathOrder, stagesPerCluster } from './grouping.ts';

/** So many peers, and all ways to order and group some of them are tried: 149 for four. */
const MOST_FOR_ALL = 4;
/** Past eight stages not every number is tried. */
const STAGE_COUNTS = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 48, 64];

/** Peers by what they are, not by where they stand in the file: the fastest first. */
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
      (key(a) < key(b) ? -1 : 1),
  );
}

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

/** All peers, and the fastest half, quarter, … of them. */
function subsets(costs: ClusterCosts, order: readonly number[]): (readonly number[])[] {
  const found: (readonly number[])[] = [order];
  for (let count = Math.ceil(order.length / 2); ; count = Math.ceil(count / 2)) {
    found.push(order.slice(0, count));
    if (count === 1) break;
  }
  const regions = new Map<string, number[]>();
  for (const place of order) {
    const region = costs.peers[place]?.region ?? '';
    regions.set(region, [...(regions.get(region) ?? []), place]);
  }
  return regions.size > 1 ? [...found, ...regions.values()] : found;
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
  const tree = levels(table, places.length);
  for (const stages of STAGE_COUNTS) {
    if (stages > model.layers || stages > places.length) break;
    for (const count of regionCounts(tree, table, places.length, stages)) {
      const clusters = tree[places.length - count] ?? [];
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
function regionCounts(tree: readonly number[][][], table: Float64Array, count: number, stages: number): number[] {
  const width = (level: number): number => {
    let most = 0;
    for (const cluster of tree[level] ?? [])
      for (const a of cluster) for (const b of cluster) most = Math.max(most, table[a * count + b] ?? 0);
    return most;
  };
  const candidates = Array.from({ length: Math.min(stages, count) }, (_, index) => index + 1);
  const widths = candidates.map((clusters) => width(count - clusters));
  const growth = candidates.map((_, index) => (widths[index - 1] ?? 0) / (widths[index] || 1e-12));
  const sharpest = candidates.toSorted((a, b) => (growth[b - 1] ?? 0) - (growth[a - 1] ?? 0)).slice(0, 2);
  return [...new Set([1, Math.min(stages, count), ...sharpest])].sort((a, b) => a - b);
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
