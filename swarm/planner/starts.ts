/**
 * Drafts where the search begins: some of the peers in so many stages, by speed alone and along a path on which neighbours are
 * near (FlashFlex, DT-FM: who shares a stage exchanges much, so it should lie in one region), and everyone as equals.
 */

import { at, evenRanges, type Random } from '../base.ts';
import type { ClusterCosts } from './clusterCosts.ts';
import type { Sketch } from './judge.ts';
import { DRAFT_SCHEDULES, type Draft } from './layout.ts';
import { regrouped } from './moves.ts';

/** Peers by what they would cost a pipeline of a few stages: their layers, and their traffic over their own caps. */
export function usefulOrder({ peers, slowness, model, sampleBytes }: ClusterCosts): number[] {
  const seconds = peers.map(
    (peer) => (slowness(peer) * model.layers) / 4 + (2 * sampleBytes) / Math.min(peer.upload, peer.download),
  );
  const name = (place: number): string => JSON.stringify([at(peers, place).region, at(peers, place).id]);
  return [...peers.keys()].sort((a, b) => {
    const [one, other] = [at(peers, a), at(peers, b)];
    return (
      at(seconds, a) - at(seconds, b) ||
      other.memoryBytes - one.memoryBytes ||
      other.sessionSeconds - one.sessionSeconds ||
      (name(a) < name(b) ? -1 : 1)
    );
  });
}

/** Peers of each region, the most useful first. */
export function regionsOf({ peers }: ClusterCosts, order: readonly number[]): number[][] {
  const regions = new Map<string, number[]>();
  for (const place of order) {
    const { region } = at(peers, place);
    regions.set(region, [...(regions.get(region) ?? []), place]);
  }
  return [...regions.values()];
}

/** So many peers: the most useful of all, and by turns those of the regions that a draft lies in. */
export function around({ peers }: ClusterCosts, order: readonly number[], { groups }: Draft, count: number): number[] {
  const regions = new Set(groups.flat().map((place) => at(peers, place).region));
  const near = order.filter((place) => regions.has(at(peers, place).region));
  const found = new Set<number>();
  for (let index = 0; found.size < Math.min(count, order.length); index++)
    for (const list of [near, order]) if (index < list.length) found.add(at(list, index));
  return [...found];
}

/** Peers, and stages of an even split. */
const [MOST_AT_START, MOST_EVEN] = [64, 8];

/** 1, 2, 3, 5, 7, 10, … and all. */
function beginnings(most: number): number[] {
  const found: number[] = [];
  for (let count = 1; count < most; count = Math.ceil(count * 1.4)) found.push(count);
  return [...found, most];
}

/** Of so many peers: the first ones, and those with most memory, in so many stages of about the same speed. */
export function* starts(
  costs: ClusterCosts,
  order: readonly number[],
  [fewest, most]: readonly [number, number],
): Generator<Sketch> {
  const roomiest = order.toSorted((a, b) => at(costs.peers, b).memoryBytes - at(costs.peers, a).memoryBytes);
  const { samples } = costs.batch;
  for (const count of beginnings(Math.min(order.length, MOST_AT_START))) {
    if (count < fewest || count > most) continue;
    for (const places of count < order.length ? [order.slice(0, count), roomiest.slice(0, count)] : [order])
      for (let stages = 1; stages <= Math.min(count, costs.model.layers); stages++) {
        for (const groups of [
          balanced(places, costs.speeds, stages),
          pieces(nearby(costs, places), costs.speeds, stages),
        ])
          for (const microBatches of new Set([Math.min(samples, 4 * stages), samples]))
            yield { groups, microBatches, schedule: '1f1b' };
      }
  }
  if (order.length < fewest || order.length > most) return;
  // Those that take everyone for equals.
  for (let stages = 1; stages <= Math.min(order.length, costs.model.layers, MOST_EVEN); stages++) {
    const groups = evenRanges(order.length, stages).map(([from, to]) => order.slice(from, to));
    const layers = evenRanges(costs.model.layers, stages).map(([from, to]) => to - from);
    for (let microBatches = 1; microBatches <= samples; microBatches *= 2)
      for (const schedule of DRAFT_SCHEDULES) yield { groups, layers, microBatches, schedule };
  }
}

/** The first stages of one draft and the last ones of another, both cut near the same layer; who is in both, in the first. */
export function joined(costs: ClusterCosts, one: Draft, other: Draft, random: Random): Sketch | null {
  const cut = random() * costs.model.layers;
  const isBefore = ({ layers }: Draft, stage: number): boolean =>
    layers.slice(0, stage).reduce((sum, own) => sum + own, at(layers, stage) / 2) < cut;
  const first = one.groups.filter((_, stage) => isBefore(one, stage));
  const used = new Set(first.flat());
  const last = other.groups.filter((_, stage) => !isBefore(other, stage));
  const groups = [...first, ...last.map((group) => group.filter((place) => !used.has(place)))].filter(
    (group) => group.length > 0,
  );
  if (groups.length === 0 || groups.length > costs.model.layers) return null;
  return regrouped(costs, one, groups);
}

const knownPaths = new WeakMap<readonly number[], number[]>();

/** From the first one on always the nearest one next: by a sample's activation over the link and both caps. */
function nearby({ peers, linkAt, sampleBytes }: ClusterCosts, places: readonly number[]): number[] {
  const known = knownPaths.get(places);
  if (known) return known;
  const left = new Set(places);
  const path: number[] = [];
  for (let next: number | undefined = places[0]; next !== undefined; ) {
    path.push(next);
    left.delete(next);
    const here = at(peers, next);
    let [nearest, least]: [number | undefined, number] = [undefined, Number.POSITIVE_INFINITY];
    for (const place of left) {
      const there = at(peers, place);
      const { latencySeconds, bytesPerSecond } = linkAt(at(path, path.length - 1), place);
      const rate = Math.min(here.upload, here.download, there.upload, there.download, bytesPerSecond ?? here.upload);
      const seconds = latencySeconds + sampleBytes / rate;
      if (seconds < least) [nearest, least] = [place, seconds];
    }
    next = nearest;
  }
  knownPaths.set(places, path);
  return path;
}

/** A path cut into so many pieces of about the same speed, none empty. */
function pieces(path: readonly number[], speeds: readonly number[], count: number): number[][] {
  const whole = path.reduce((sum, place) => sum + at(speeds, place), 0);
  const found: number[][] = [[]];
  let before = 0;
  for (const [index, place] of path.entries()) {
    const piece = at(found, found.length - 1);
    const isFull = before + at(speeds, place) / 2 > (whole * found.length) / count;
    const isLate = path.length - index <= count - found.length;
    if (piece.length > 0 && found.length < count && (isFull || isLate)) found.push([place]);
    else piece.push(place);
    before += at(speeds, place);
  }
  return found;
}

/** Into so many groups of about the same speed: the fastest first, each to the slowest group. */
function balanced(places: readonly number[], speeds: readonly number[], groups: number): number[][] {
  const hands = Array.from({ length: groups }, () => ({ members: [] as number[], speed: 0 }));
  for (const place of places.toSorted((a, b) => at(speeds, b) - at(speeds, a))) {
    const slowest = hands.reduce((best, hand) => (hand.speed < best.speed ? hand : best));
    slowest.members.push(place);
    slowest.speed += at(speeds, place);
  }
  return hands.map(({ members }) => members);
}
