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

const MOST_LOOKED_AT = 8;

/** Places in the costs' list, by stage. */
export type Groups = readonly (readonly number[])[];

/** Seconds to exchange so many bytes both ways: the nearer the less. */
export function distances(costs: ClusterCosts, places: readonly number[], bytes: number): Float64Array {
  const count = places.length;
  const table = new Float64Array(count * count);
  for (let a = 0; a < count; a++) {
    for (let b = a + 1; b < count; b++) {
      const [one, other] = [costs.peers[places[a] ?? 0], costs.peers[places[b] ?? 0]];
      if (!one || !other) continue;
      const { latencySeconds, bytesPerSecond } = costs.linkAt(places[a] ?? 0, places[b] ?? 0);
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

/** Joints of a tree of regions, the nearest first; each joins the clusters of two peers (indices into the table). */
export interface RegionTree {
  readonly count: number;
  readonly joints: readonly { readonly a: number; readonly b: number; readonly seconds: number }[];
}

/** By chains of nearest neighbours, which takes count² steps; the joints come out of order and are sorted. */
export function regionTree(table: Float64Array, count: number): RegionTree {
  // Between clusters by their first member's row, kept as the slowest link between them.
  const far = table.slice();
  const left = Array.from({ length: count }, (_, index) => index);
  const joints: { a: number; b: number; seconds: number }[] = [];
  const chain: number[] = [];
  while (left.length > 1) {
    const end = chain.at(-1) ?? left[0] ?? 0;
    if (chain.length === 0) chain.push(end);
    const before = chain.at(-2);
    let nearest = before ?? -1;
    let seconds = before === undefined ? Number.POSITIVE_INFINITY : (far[end * count + before] ?? 0);
    for (const other of left) {
      const own = far[end * count + other] ?? 0;
      if (other !== end && (own < seconds || nearest < 0)) [nearest, seconds] = [other, own];
    }
    if (nearest !== before) {
      chain.push(nearest);
      continue;
    }
    const [head, tail] = [Math.min(end, nearest), Math.max(end, nearest)];
    joints.push({ a: head, b: tail, seconds });
    for (const other of left) {
      const slowest = Math.max(far[head * count + other] ?? 0, far[tail * count + other] ?? 0);
      far[head * count + other] = slowest;
      far[other * count + head] = slowest;
    }
    left.splice(left.indexOf(tail), 1);
    chain.length -= 2;
  }
  return { count, joints: joints.sort((one, other) => one.seconds - other.seconds) };
}

/** The level of the tree with so many clusters: lists of indices. */
export function regionsOf({ count, joints }: RegionTree, clusters: number): number[][] {
  const head = Array.from({ length: count }, (_, index) => index);
  const find = (index: number): number => {
    let at = index;
    while (head[at] !== at) at = head[at] ?? at;
    return at;
  };
  for (const { a, b } of joints.slice(0, count - clusters)) {
    const [one, other] = [find(a), find(b)];
    head[Math.max(one, other)] = Math.min(one, other);
  }
  const found = new Map<number, number[]>();
  for (let index = 0; index < count; index++) {
    const own = find(index);
    const cluster = found.get(own);
    if (cluster) cluster.push(index);
    else found.set(own, [index]);
  }
  return [...found.values()];
}

/** The slowest link inside a cluster of that level. */
export const widthOf = ({ count, joints }: RegionTree, clusters: number): number =>
  joints[count - clusters - 1]?.seconds ?? 0;

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
  // Some peers of a large group stand for all of it.
  const some = groups.map((group) => group.slice(0, MOST_LOOKED_AT));
  const between = some.map((one) =>
    some.map((other) => {
      let sum = 0;
      for (const a of one) for (const b of other) sum += table[a * count + b] ?? 0;
      return sum / (one.length * other.length || 1);
    }),
  );
  const hop = (a: number, b: number): number => between[a]?.[b] ?? 0;
  const length = (path: readonly number[]): number =>
    path.reduce((sum, group, index) => (index === 0 ? 0 : sum + hop(path[index - 1] ?? 0, group)), 0);
  let best: number[] = groups.map((_, index) => index);
  // Of many groups not every one is tried as the start.
  for (let start = 0; start < groups.length; start += Math.ceil(groups.length / MOST_LOOKED_AT)) {
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
