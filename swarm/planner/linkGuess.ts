/** What travels, guessed: activations from a stage's peers to the next one's, and the exchange of gradients and values. */
import type { ClusterCosts } from './clusterCosts.ts';
import type { Groups } from './grouping.ts';
import type { Lanes } from './stageGuess.ts';

const ELEMENT_BYTES = 4;
/** Peers of a stage that stand for all of it. */
const MOST_LOOKED_AT = 6;
/** Lanes whose shares differ by less hand on along one lane. */
const ALIKE = 0.05;

interface Hop {
  /** One micro-batch there, and its gradient back. */
  readonly through: number;
  /** All activations. */
  readonly forward: number;
  /** All gradients. */
  readonly backward: number;
}

/** From stage − 1 to stage. */
export function hopBetween(
  costs: ClusterCosts,
  groups: Groups,
  lanes: readonly Lanes[],
  stage: number,
  count: number,
): Hop {
  const [from, to] = [groups[stage - 1] ?? [], groups[stage] ?? []];
  const onward = fan(lanes[stage - 1], lanes[stage], count);
  const back = fan(lanes[stage], lanes[stage - 1], count);
  // Caps are shared by all to whom a peer hands something, in both directions.
  const fromPartners = onward + (stage > 1 ? fan(lanes[stage - 1], lanes[stage - 2], count) : 0);
  const toPartners = back + (stage + 1 < groups.length ? fan(lanes[stage], lanes[stage + 1], count) : 0);
  const bytes = costs.batch.samples * costs.sampleBytes;
  const hop = { latency: 0, rate: 0, forward: 0, backward: 0, pairs: 0 };
  const step = Math.max(1, Math.ceil(from.length / MOST_LOOKED_AT));
  for (let a = 0; a < from.length; a += step) {
    for (let next = 0; next < Math.min(onward, MOST_LOOKED_AT); next++) {
      const [one, other] = [from[a] ?? 0, to[(a + next) % to.length] ?? 0];
      const [peer, neighbour] = [costs.peers[one], costs.peers[other]];
      if (!peer || !neighbour) continue;
      const { latencySeconds, bytesPerSecond } = costs.linkAt(one, other);
      const link = bytesPerSecond ?? Number.POSITIVE_INFINITY;
      const there = Math.min(link, peer.upload / fromPartners, neighbour.download / toPartners);
      const home = Math.min(link, neighbour.upload / toPartners, peer.download / fromPartners);
      const own = bytes * Math.max((lanes[stage - 1]?.shares[a] ?? 0) / onward, 1 / (from.length * to.length));
      hop.forward = Math.max(hop.forward, own / there);
      hop.backward = Math.max(hop.backward, own / home);
      hop.latency += latencySeconds;
      hop.rate += 1 / there + 1 / home;
      hop.pairs++;
    }
  }
  const { latency, rate, forward, backward, pairs } = hop;
  return { through: (2 * latency + (bytes / count) * rate) / Math.max(1, pairs), forward, backward };
}

/** To how many of the other stage's lanes one of these hands its micro-batches. */
function fan(one: Lanes | undefined, other: Lanes | undefined, count: number): number {
  if (!one || !other || other.count === 1) return 1;
  if (one.count === 1) return Math.min(count, other.count);
  if (one.count === other.count && isEven(one) && isEven(other)) return 1;
  return Math.max(1, Math.min(other.count, Math.ceil(count / one.count)));
}

const isEven = ({ shares }: Lanes): boolean => Math.max(...shares) - Math.min(...shares) < ALIKE / shares.length;

/** Slices and values of an element, spread over members as equals. */
export const exchangeSeconds = (costs: ClusterCosts, group: readonly number[]): number =>
  group.length < 2 ? 0 : secondsPerElement(costs, group);

function secondsPerElement(costs: ClusterCosts, group: readonly number[]): number {
  const bytes = (2 * ELEMENT_BYTES) / group.length;
  let most = 0;
  for (const place of group) {
    const peer = costs.peers[place];
    if (!peer) continue;
    const cap = Math.min(peer.upload, peer.download);
    const rates = costs.ratesFrom(place);
    let seconds = 0;
    for (const other of group) if (other !== place) seconds += bytes / Math.min(cap, rates[other] ?? cap);
    most = Math.max(most, seconds);
  }
  return most;
}

/** A tied token table's gradient from the last stage to the first one, and its values back: over one link after the other. */
export function tiedExchangeSeconds(costs: ClusterCosts, first: readonly number[], last: readonly number[]): number {
  const elements = costs.model.blocks.find(({ name }) => name === 'embedding')?.tensors[0]?.elements ?? 0;
  const part = (elements * ELEMENT_BYTES) / first.length;
  const [fromLast, toFirst] = [
    handingSeconds(costs, last, first, 'upload'),
    handingSeconds(costs, first, last, 'download'),
  ];
  const [fromFirst, toLast] = [
    handingSeconds(costs, first, last, 'upload'),
    handingSeconds(costs, last, first, 'download'),
  ];
  return part * (Math.max(fromLast, toFirst) + Math.max(fromFirst, toLast));
}

/** Of a byte between each of these and each of those, at whoever takes longest. */
function handingSeconds(
  costs: ClusterCosts,
  some: readonly number[],
  others: readonly number[],
  direction: 'upload' | 'download',
): number {
  let most = 0;
  for (const place of some) {
    const cap = costs.peers[place]?.[direction] ?? 0;
    const rates = costs.ratesFrom(place);
    let seconds = 0;
    for (const other of others) if (other !== place) seconds += 1 / Math.min(cap, rates[other] ?? cap);
    most = Math.max(most, seconds);
  }
  return most;
}
