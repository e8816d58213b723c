/**
 * The donors at hand as a cluster (cluster.ts): each with its measured times over its share of the GPU's time, the
 * memory that it tried and gives, its traffic caps, and the links between them as the run measured them. A link that
 * nobody has measured yet is taken for a good one: it is tried, measured, and then known. See SPEC.md, AP1 and AP4.
 */
import { got, type PeerId } from '../base.ts';
import type { Limits } from '../limits.ts';
import type { LinkReport } from '../messages/profile.ts';
import type { Cluster } from '../planner/cluster.ts';
import { hasTimes, measuredTimes, type PeerProfile } from './peerProfile.ts';

/** Of a link that was never measured: a good line at home. */
const UNMEASURED_LINK = { latencySeconds: 0.01, bytesPerSecond: 5e6 };

interface DonorAtHand {
  readonly peer: PeerId;
  readonly profile: PeerProfile;
  readonly limits: Limits;
}

/** What each donor last reported of its links. */
type LinkReports = ReadonlyMap<PeerId, readonly LinkReport[]>;

export function clusterAtHand(donors: readonly DonorAtHand[], reports: LinkReports): Cluster {
  const peers = donors.filter(({ profile }) => hasTimes(profile));
  return {
    peers: peers.map(({ peer, profile, limits }) => ({
      id: peer,
      memoryBytes: Math.min(profile.memoryBytes, limits.memoryBytes ?? Number.POSITIVE_INFINITY),
      uploadBytesPerSecond: limits.uploadBytesPerSecond,
      downloadBytesPerSecond: limits.downloadBytesPerSecond,
      measured: measuredTimes(profile, limits.speed),
    })),
    links: {
      default: UNMEASURED_LINK,
      regions: [],
      pairs: pairsOf(
        peers.map(({ peer }) => peer),
        reports,
      ),
    },
  };
}

/** Who gives a share of its GPU's time only: its results are there before the rest that its times hold. */
export const sharesOf = (donors: readonly DonorAtHand[]): Map<PeerId, number> =>
  new Map(donors.filter(({ limits }) => limits.speed < 1).map(({ peer, limits }) => [peer, limits.speed]));

/**
 * Links are symmetric in a cluster: the lower rate and the longer round trip of what its two ends say, whose word for more
 * would bring them work. What one end alone says makes a link no better than one that nobody measured.
 */
function pairsOf(peers: readonly PeerId[], reports: LinkReports): Cluster['links']['pairs'] {
  const found: Cluster['links']['pairs'] = [];
  const place = new Map(peers.map((peer, index) => [peer, index]));
  const ends = new Map(peers.map((peer) => [peer, new Map(reports.get(peer)?.map((report) => [report.peer, report]))]));
  for (const [one, links] of ends)
    for (const [other, report] of links) {
      const back = ends.get(other)?.get(one);
      const [from, to] = [got(place, one), place.get(other)];
      // Of two peers at hand; once, in their order.
      if (to === undefined || to === from || (back !== undefined && to < from)) continue;
      const pair = joined(back === undefined ? [report] : [report, back]);
      if (pair !== null) found.push({ between: from < to ? [one, other] : [other, one], ...pair });
    }
  return found;
}

function joined(ends: readonly LinkReport[]): Omit<Cluster['links']['pairs'][number], 'between'> | null {
  const trips = ends.flatMap(({ roundTripMs }) => roundTripMs ?? []);
  const rates = ends.flatMap(({ bytesPerSecond }) => (bytesPerSecond ? [bytesPerSecond] : []));
  if (trips.length === 0 && rates.length === 0) return null;
  const { latencySeconds, bytesPerSecond } = UNMEASURED_LINK;
  const leastLatency = trips.length === 1 ? latencySeconds : 0;
  const mostRate = rates.length === 1 ? bytesPerSecond : Number.POSITIVE_INFINITY;
  return {
    ...(trips.length === 0 ? {} : { latencySeconds: Math.max(leastLatency, ...trips.map((trip) => trip / 2_000)) }),
    ...(rates.length === 0 ? {} : { bytesPerSecond: Math.min(mostRate, ...rates) }),
  };
}
