/**
 * What deadlines take of donors' claims. Plans take a slow donor at its word, as it costs it only work; but a deadline is
 * what everybody waits for, and one who says that it is slow, and then does nothing, must not hold the others for an hour.
 * So what one network alone says counts no worse than a factor beyond what the next one says, or beyond a link that nobody
 * measured; what both ends of a link say alike counts as it is, and what this server saw itself. See SPEC.md, CO73.
 */
import { peerId } from '../base.ts';
import type { LinkReport } from '../messages/profile.ts';
import type { Cluster, ClusterPeer } from '../planner/cluster.ts';
import { curveAt, extended } from '../planner/sizing.ts';
import { slowed } from './doubt.ts';
import type { KnownDonor } from './knownDonors.ts';
import { measuredRate, UNMEASURED_LINK } from './lines.ts';

/** How much worse than the next one anybody may say alone that it is. */
export const ALONE_FACTOR = 4;
const LEAST_RATE = UNMEASURED_LINK.bytesPerSecond / ALONE_FACTOR;
const MOST_LATENCY_SECONDS = UNMEASURED_LINK.latencySeconds * ALONE_FACTOR;

type Words = Pick<KnownDonor, 'peer' | 'address' | 'isOwn' | 'slowdown' | 'links'>;
type Pair = Cluster['links']['pairs'][number];

/** The cluster as deadlines are predicted by. `samples`: the most that anybody may be given at once. */
export function believed(cluster: Cluster, donors: readonly Words[], samples: number): Cluster {
  const words = new Map<string, Words>(donors.map((donor) => [donor.peer, donor]));
  const isOwn = (id: string): boolean => words.get(id)?.isOwn === true;
  const bySlowness = cluster.peers
    .map((peer) => ({ peer, seconds: layerSeconds(peer, samples) }))
    .toSorted((one, other) => other.seconds - one.seconds);
  const attested = attestedRates(cluster, words);
  const peers = cluster.peers.map((peer) => {
    if (isOwn(peer.id)) return peer;
    const others = bySlowness.filter((other) => other.peer.id !== peer.id);
    const address = words.get(peer.id)?.address;
    const isElsewhere = ({ peer: { id } }: (typeof others)[number]) => isOwn(id) || words.get(id)?.address !== address;
    const next = (others.find(isElsewhere) ?? others[0])?.peer;
    const { upload, download } = attested.lines.get(peer.id) ?? {};
    return {
      ...peer,
      ...(next && { measured: noSlower(peer, next, words.get(peer.id)?.slowdown ?? 1, samples) }),
      uploadBytesPerSecond: noLess(peer.uploadBytesPerSecond, upload),
      downloadBytesPerSecond: noLess(peer.downloadBytesPerSecond, download),
    };
  });
  const pairs = cluster.links.pairs.map((pair) =>
    pair.between.every(isOwn) ? pair : { ...pair, ...linkOf(pair, attested.waysOf(pair)) },
  );
  return { peers, links: { ...cluster.links, pairs } };
}

/** A layer there and back. */
function layerSeconds({ measured }: ClusterPeer, samples: number): number {
  if (measured === undefined) return 0;
  const { forwardSecondsPerLayer, backwardSecondsPerLayer } = measured;
  // Past the measured sizes by the last two, as clusterCosts has it.
  return curveAt(extended(forwardSecondsPerLayer, 2), samples) + curveAt(extended(backwardSecondsPerLayer, 2), samples);
}

/** `slowdown`: what this server saw of it is no claim. */
function noSlower(peer: ClusterPeer, next: ClusterPeer, slowdown: number, samples: number): ClusterPeer['measured'] {
  const { measured } = peer;
  if (measured === undefined || next.measured === undefined) return measured;
  const factor = ALONE_FACTOR * slowdown;
  const sizes = [...measured.forwardSecondsPerLayer.keys()].map((index) => index + 1);
  const isSlower = [...sizes, samples].some((size) => layerSeconds(peer, size) > factor * layerSeconds(next, size));
  return isSlower ? slowed(next.measured, factor) : measured;
}

/** A line of `rate`, of which others have heard so much. Null: unlimited. */
const noLess = (rate: number | null, heard: number | undefined): number | null =>
  rate === null ? null : Math.max(rate, Math.min(LEAST_RATE, heard ?? LEAST_RATE));

interface Way {
  /** Sent as the one end says, and heard as the other does. */
  readonly rates: readonly number[];
  /** Round trips, as each end says. */
  readonly trips: readonly number[];
}

function linkOf({ latencySeconds, bytesPerSecond }: Pair, { rates, trips }: Way): Partial<Pair> {
  const agreed = trips.length < 2 ? 0 : Math.min(...trips) / 2_000;
  const rate = bytesPerSecond === undefined ? undefined : noLess(bytesPerSecond, rates.toSorted((a, b) => b - a)[0]);
  return {
    ...(latencySeconds !== undefined && {
      latencySeconds: Math.min(latencySeconds, Math.max(MOST_LATENCY_SECONDS, agreed)),
    }),
    ...(rate !== undefined && { bytesPerSecond: rate }),
  };
}

/** What both ends of links say: of two words the better one. */
function attestedRates({ links: { pairs } }: Cluster, words: ReadonlyMap<string, Words>) {
  const said = new Map<string, ReadonlyMap<string, LinkReport>>(
    [...words].map(([id, { links }]) => [id, new Map(links.map((link) => [link.peer, link]))]),
  );
  const report = (from: string, to: string) => said.get(from)?.get(peerId(to));
  const rateOf = (from: string, to: string): number[] => {
    const [sent, heard] = [report(from, to)?.bytesPerSecond, report(to, from)?.receivedBytesPerSecond];
    const rates = [measuredRate(sent), measuredRate(heard)].flatMap((rate) => rate ?? []);
    return rates.length < 2 ? [] : [Math.max(...rates)];
  };
  const lines = new Map<string, { upload?: number; download?: number }>();
  const best = (id: string, line: 'upload' | 'download', [rate]: readonly number[]) => {
    const known = lines.get(id) ?? {};
    if (rate !== undefined) lines.set(id, { ...known, [line]: Math.max(known[line] ?? 0, rate) });
  };
  for (const {
    between: [one, other],
  } of pairs) {
    for (const [from, to] of [
      [one, other],
      [other, one],
    ] as const) {
      best(from, 'upload', rateOf(from, to));
      best(to, 'download', rateOf(from, to));
    }
  }
  const waysOf = ({ between: [one, other] }: Pair): Way => ({
    rates: [...rateOf(one, other), ...rateOf(other, one)],
    trips: [report(one, other), report(other, one)].flatMap((end) => end?.roundTripMs ?? []),
  });
  return { lines, waysOf };
}
