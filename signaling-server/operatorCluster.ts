/**
 * The donors at hand as the cluster that the planner reads (SPEC.md, CL): what each measured of itself, scaled by the
 * share of its GPU that it gives, and the links as their last reports have them.
 */
import { type Result, refusal, success } from '../swarm/base.ts';
import type { Snapshot } from '../swarm/messages.ts';
import type { Cluster, ClusterPeer } from '../swarm/planner/cluster.ts';
import type { Connection } from './connectedDonors.ts';

type Links = NonNullable<Snapshot['links']>;
type Layer = NonNullable<Connection['profile']>['layers'][number];

/** A link that nothing was measured of: two households. */
const UNMEASURED = { latencySeconds: 0.03, bytesPerSecond: 2.5e6, windowBytes: null };

export function clusterAtHand(donors: readonly Connection[], links: Links): Result<Cluster> {
  const peers = donors.flatMap((donor) => peerOf(donor) ?? []);
  if (peers.length === 0) return refusal('no donor is here that has measured itself: describe a cluster instead');
  const known = new Set(peers.map(({ id }) => id));
  const pairs = new Map<string, Cluster['links']['pairs'][number]>();
  for (const { from, peer, roundTripMs, bytesPerSecond } of links) {
    const [a = '', b = ''] = [from, peer].sort();
    const isFirst = !pairs.has(`${a} ${b}`);
    if (!isFirst || !known.has(a) || !known.has(b)) continue;
    pairs.set(`${a} ${b}`, {
      between: [a, b],
      ...(roundTripMs === null ? {} : { latencySeconds: roundTripMs / 2000 }),
      ...(bytesPerSecond === null || bytesPerSecond <= 0 ? {} : { bytesPerSecond }),
    });
  }
  return success({ peers, links: { default: UNMEASURED, regions: [], pairs: [...pairs.values()] } });
}

function peerOf({ peer, limits, profile }: Connection): ClusterPeer | null {
  if (profile === null || profile.layers.length === 0) return null;
  const table = (of: (layer: Layer) => number): number[] => tableOf(profile.layers, of).map((s) => s / limits.speed);
  return {
    id: peer,
    memoryBytes: Math.min(profile.memoryBytes, limits.memoryBytes ?? Number.POSITIVE_INFINITY),
    uploadBytesPerSecond: limits.uploadBytesPerSecond,
    downloadBytesPerSecond: limits.downloadBytesPerSecond,
    measured: {
      forwardSecondsPerLayer: table(({ forwardSeconds }) => forwardSeconds),
      backwardSecondsPerLayer: table(({ backwardSeconds }) => backwardSeconds),
    },
  };
}

/** Entry k for k + 1 samples: between the sizes that were measured, and before the first, along a line. */
export function tableOf(layers: readonly Layer[], of: (layer: Layer) => number): number[] {
  const points = layers.toSorted((a, b) => a.samples - b.samples);
  const largest = Math.min(points.at(-1)?.samples ?? 0, 64);
  return Array.from({ length: largest }, (_, index) => {
    const samples = index + 1;
    const right = points.findIndex((point) => point.samples >= samples);
    const [before, after] = right > 0 ? [points[right - 1], points[right]] : [points[0], points[1] ?? points[0]];
    if (!before || !after) return 0;
    const width = after.samples - before.samples;
    const slope = width === 0 ? 0 : (of(after) - of(before)) / width;
    return Math.max(0, of(before) + slope * (samples - before.samples));
  });
}
