/**
 * Groups peers into the stages of a pipeline by how they are linked (FlashFlex, after its graph partition): peers who
 * share a stage exchange its gradients and values, which is much; neighbouring stages exchange activations, which is
 * little. So data parallel stays inside a fast region, and the pipeline crosses the slow links.
 *
 * Its one idea: a tree of regions grown from the links themselves. The two nearest clusters are joined again and again,
 * nearness being the slowest link between them (complete linkage), so that no group ever spans a link slower than need
 * be. Each level of the tree is a way to cut the swarm into regions; stages are shared out over these by speed.
 */
import type { ClusterCosts } from './clusterCosts.ts';

/** Places in the costs' list, by stage. */
export type Groups = readonly (readonly number[])[];

/** Seconds to exchange so many bytes both ways: the nearer the less. */
export function distances(costs: ClusterCosts, places: readonly number[], bytes: number): Float64Array {
  const count = places.length;
  const table = new Float64Array(count * count);
  const peers = places.flatMap((place) => costs.peers[place] ?? []);
  for (const [a, one] of peers.entries()) {
    for (const [b, other] of peers.entries()) {
      if (b <= a) continue;
      const { latencySeconds, bytesPerSecond } = costs.link(one.id, other.id);
      const rate = Math.min(
        bytesPerSecond ?? Number.POSITIVE_INFINITY,
        Math.min(one.upload, other.download),
        Math.min(other.upload, one.download),
      );
      const seconds = latencySeconds + bytes / rate;
      table[a * count + b] = seconds;
      table[b * count + a] = seconds;
    }
  }
  return table;
}

/** From all peers apart to all in one: each level has one cluster less. Clusters are lists of indices. */
export function levels(table: Float64Array, count: number): number[][][] {
  let clusters = Array.from({ length: count }, (_, index) => [index]);
  // Between clusters by their first member's row, kept as the slowest link between them.
  const far = table.slice();
  const at = (a: number, b: number): number => far[a * count + b] ?? 0;
  const found = [clusters];
  while (clusters.length > 1) {
    let [bestA, bestB, least] = [0, 1, Number.POSITIVE_INFINITY];
    for (let a = 0; a < clusters.length; a++) {
      for (let b = a + 1; b < clusters.length; b++) {
        const seconds = at(clusters[a]?.[0] ?? 0, clusters[b]?.[0] ?? 0);
        if (seconds < least) [bestA, bestB, least] = [a, b, seconds];
      }
    }
    const [one, other] = [clusters[bestA] ?? [], clusters[bestB] ?? []];
    const [head, tail] = [one[0] ?? 0, other[0] ?? 0];
    for (const [index] of clusters) {
      const seconds = Math.max(at(head, index ?? 0), at(tail, index ?? 0));
      far[head * count + (index ?? 0)] = seconds;
      far[(index ?? 0) * count + head] = seconds;
    }
    clusters = clusters.flatMap((cluster, index) =>
      index === bestA ? [[...one, ...other]] : index === bestB ? [] : [cluster],
    );
    found.push(clusters);
  }
  return found;
}

/** So many stages over clusters, each at least one and none more than its peers, by speed (largest remainder). */
export function stagesPerCluster(speeds: readonly number[], sizes: readonly number[], stages: number): number[] | null {
  if (stages < speeds.length || stages > sizes.reduce((sum, size) => sum + size, 0)) return null;
  const counts = speeds.map(() => 1);
  for (let left = stages - speeds.length; left > 0; left--) {
    let best = -1;
    for (const [index, speed] of speeds.entries()) {
      const own = counts[index] ?? 1;
      if (own >= (sizes[index] ?? 0)) continue;
      if (best < 0 || speed / own > (speeds[best] ?? 0) / (counts[best] ?? 1)) best = index;
    }
    if (best < 0) return null;
    counts[best] = (counts[best] ?? 1) + 1;
  }
  return counts;
}

/** Into so many groups of about the same speed: the fastest first, each to the slowest group. */
export function balanced(members: readonly number[], speedOf: (index: number) => number, groups: number): number[][] {
  const hands = Array.from({ length: groups }, () => ({ members: [] as number[], speed: 0 }));
  for (const member of members.toSorted((a, b) => speedOf(b) - speedOf(a))) {
    const slowest = hands.reduce((best, hand) => (hand.speed < best.speed ? hand : best));
    slowest.members.push(member);
    slowest.speed += speedOf(member);
  }
  return hands.map((hand) => hand.members);
}

/** The order of groups in which neighbours are near: the nearest one next, from the best start. */
export function pathOrder(groups: readonly number[][], table: Float64Array, count: number): number[][] {
  const between = groups.map((one) =>
    groups.map((other) => {
      let sum = 0;
      for (const a of one) for (const b of other) sum += table[a * count + b] ?? 0;
      return sum / (one.length * other.length || 1);
    }),
  );
  const hop = (a: number, b: number): number => between[a]?.[b] ?? 0;
  const length = (path: readonly number[]): number =>
    path.reduce((sum, group, index) => (index === 0 ? 0 : sum + hop(path[index - 1] ?? 0, group)), 0);
  let best: number[] = groups.map((_, index) => index);
  for (const start of groups.keys()) {
    const path = [start];
    const left = new Set(groups.keys());
    left.delete(start);
    while (left.size > 0) {
      const end = path.at(-1) ?? 0;
      const next = [...left].reduce((nearest, group) => (hop(end, group) < hop(end, nearest) ? group : nearest));
      path.push(next);
      left.delete(next);
    }
    if (length(path) < length(best)) best = path;
  }
  return best.map((index) => groups[index] ?? []);
}
