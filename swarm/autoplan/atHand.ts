/**
 * The donors at hand as a cluster (cluster.ts): each with its measured times over its share of the GPU's time, the
 * memory that it tried and gives, its line as it was learned and capped, and the links between them as the run measured
 * them. A link that nobody has measured yet is taken for a good one: it is tried, measured, and then known. See SPEC.md,
 * AP1.
 */
import type { PeerId } from '../base.ts';
import type { Limits } from '../limits.ts';
import type { Cluster } from '../planner/cluster.ts';
import { knownLinks, type ReportedLinks, UNMEASURED_LINK } from './lines.ts';
import { hasTimes, measuredTimes, type PeerProfile } from './peerProfile.ts';

interface DonorAtHand {
  readonly peer: PeerId;
  readonly profile: PeerProfile;
  readonly limits: Limits;
}

export function clusterAtHand(donors: readonly DonorAtHand[], reports: ReadonlyMap<PeerId, ReportedLinks>): Cluster {
  const peers = donors.filter(({ profile }) => hasTimes(profile));
  const { pairs, lines } = knownLinks(
    peers.map(({ peer }) => peer),
    reports,
  );
  return {
    peers: peers.map(({ peer, profile, limits }) => {
      const line = lines.get(peer);
      return {
        id: peer,
        memoryBytes: Math.min(profile.memoryBytes, limits.memoryBytes ?? Number.POSITIVE_INFINITY),
        ...(profile.bufferBytes !== undefined && { bufferBytes: profile.bufferBytes }),
        ...(limits.hostBytes > 0 && { hostBytes: limits.hostBytes }),
        uploadBytesPerSecond: lower(limits.uploadBytesPerSecond, line?.upload ?? profile.uploadBytesPerSecond),
        downloadBytesPerSecond: lower(limits.downloadBytesPerSecond, line?.download ?? profile.downloadBytesPerSecond),
        measured: measuredTimes(profile, limits.speed),
      };
    }),
    links: { default: UNMEASURED_LINK, regions: [], pairs },
  };
}

/** Null: neither is known. */
function lower(limit: number | null, measured: number | undefined): number | null {
  const least = Math.min(limit ?? Number.POSITIVE_INFINITY, measured ?? Number.POSITIVE_INFINITY);
  return Number.isFinite(least) ? least : null;
}

/** Who gives a share of its GPU's time only: its results are there before the rest that its times hold. */
export const sharesOf = (donors: readonly DonorAtHand[]): Map<PeerId, number> =>
  new Map(donors.filter(({ limits }) => limits.speed < 1).map(({ peer, limits }) => [peer, limits.speed]));
