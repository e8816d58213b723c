/**
 * The donors at hand as a cluster (cluster.ts): each with its measured times over its share of the GPU's time, the
 * memory that it tried and gives, its line as it was learned and capped, and the links between them as the run measured
 * them. A link that nobody has measured yet is taken for a good one: it is tried, measured, and then known.
 */
import { addToKey, type PeerId } from '../base.ts';
import type { Limits } from '../limits.ts';
import type { Cluster } from '../planner/cluster.ts';
import { knownLinks, type ReportedLinks, UNMEASURED_LINK } from './lines.ts';
import { hasTimes, measuredTimes, type PeerProfile } from './peerProfile.ts';

interface DonorAtHand {
  readonly peer: PeerId;
  readonly profile: PeerProfile;
  readonly limits: Limits;
  readonly sessionSeconds?: number;
  readonly isOwn?: boolean;
}

export function clusterAtHand(donors: readonly DonorAtHand[], reports: ReadonlyMap<PeerId, ReportedLinks>): Cluster {
  const peers = donors.filter(({ profile }) => hasTimes(profile));
  const { pairs, lines } = knownLinks(
    peers.map(({ peer }) => peer),
    reports,
  );
  const sharers = new Map<string, number>();
  for (const { peer } of peers) {
    const { line = null } = reports.get(peer) ?? {};
    if (line !== null) addToKey(sharers, line, 1);
  }
  return {
    peers: peers.map(({ peer, profile, limits, sessionSeconds, isOwn }) => {
      const line = lines.get(peer);
      const { line: name = null, measuredWith = 1 } = reports.get(peer) ?? {};
      const parts = name === null ? 1 : (sharers.get(name) ?? 1);
      const part = (limit: number | null, measured: number | null | undefined, remembered: number | undefined) =>
        lower(limit, partOf(parts, measuredWith, measured ?? null, remembered ?? null));
      return {
        id: peer,
        memoryBytes: Math.min(profile.memoryBytes, limits.memoryBytes ?? Infinity),
        ...(profile.bufferBytes !== undefined && { bufferBytes: profile.bufferBytes }),
        ...(profile.bindingBytes !== undefined && { bindingBytes: profile.bindingBytes }),
        ...(limits.hostBytes > 0 && { hostBytes: limits.hostBytes }),
        ...(name !== null &&
          parts > 1 && {
            line: {
              ...{ name, sharers: parts },
              ...{ upload: limits.uploadBytesPerSecond, download: limits.downloadBytesPerSecond },
            },
          }),
        uploadBytesPerSecond: part(limits.uploadBytesPerSecond, line?.upload, profile.uploadBytesPerSecond),
        downloadBytesPerSecond: part(limits.downloadBytesPerSecond, line?.download, profile.downloadBytesPerSecond),
        measured: measuredTimes(profile, limits.speed),
        ...(sessionSeconds !== undefined && { meanSessionSeconds: sessionSeconds }),
        ...(isOwn && { own: true }),
      };
    }),
    links: { default: UNMEASURED_LINK, regions: [], pairs },
  };
}

/**
 * An equal part of the line that so many share. What was measured while some of them worked is their part already; what
 * nobody measured is a good line's, of which all have a part. Null: it is this donor's own, and not known.
 */
function partOf(
  sharers: number,
  measuredWith: number,
  measured: number | null,
  remembered: number | null,
): number | null {
  if (measured !== null) return measured * Math.min(1, measuredWith / sharers);
  const whole = remembered ?? (sharers > 1 ? UNMEASURED_LINK.bytesPerSecond : null);
  return whole === null ? null : whole / sharers;
}

/** Null: neither is known. */
function lower(limit: number | null, measured: number | null): number | null {
  const least = Math.min(limit ?? Infinity, measured ?? Infinity);
  return Number.isFinite(least) ? least : null;
}

/** Who gives a share of its GPU's time only: its results are there before the rest that its times hold. */
export const sharesOf = (donors: readonly DonorAtHand[]): Map<PeerId, number> =>
  new Map(donors.filter(({ limits }) => limits.speed < 1).map(({ peer, limits }) => [peer, limits.speed]));
