/**
 * What a donor claims of its speed, and what this server has seen of it. As long as a donor was not seen at work for some
 * tens of steps, and others were, it is planned with as slower than they are, however fast it says it is: it begins with
 * a small part. Whose part made steps longer than its claims said counts as so much slower. Rules AP50 on.
 */
import type { PeerId } from '../base.ts';
import type { Plan } from '../plan/plan.ts';
import type { Cluster } from '../planner/cluster.ts';

/** Steps of this server's own commits. */
export const SEEN_STEPS = 30;
/** Of the fastest who was seen: nobody unseen counts as faster than this part. */
const UNSEEN_SPEED = 1 / 2;

/** What a donor is taken for beside its own numbers. */
export interface Seen {
  /** This server opened it itself, and saw it at work when it was measured. */
  readonly isOwn: boolean;
  /** Committed steps that it had a part in. */
  readonly stepsSeen: number;
  /** Its times are so many times as long as it says, by this server's clock. */
  readonly slowdown: number;
}

export const NOT_SEEN = { stepsSeen: 0, slowdown: 1 } as const;

export const isSeen = ({ isOwn, stepsSeen }: Seen): boolean => isOwn || stepsSeen >= SEEN_STEPS;

type Measured = NonNullable<Cluster['peers'][number]['measured']>;

const times = (factor: number) => (table: readonly number[]) => table.map((seconds) => factor * seconds);

export const slowed = ({ forwardSecondsPerLayer, backwardSecondsPerLayer, ...rest }: Measured, factor: number) => ({
  ...rest,
  forwardSecondsPerLayer: times(factor)(forwardSecondsPerLayer),
  backwardSecondsPerLayer: times(factor)(backwardSecondsPerLayer),
});

const layerSeconds = ({ forwardSecondsPerLayer: [forward = 0], backwardSecondsPerLayer: [backward = 0] }: Measured) =>
  forward + backward;

/** `seen`: of those among them who were seen; where nobody was, all are what they say. */
export function doubted(peers: Cluster['peers'], seen: ReadonlySet<string>): Cluster['peers'] {
  const known = peers.flatMap(({ id, measured }) => (measured && seen.has(id) ? measured : []));
  const strangers = peers.filter(({ id, measured }) => measured && !seen.has(id)).length;
  const speeds = known.map((measured) => 1 / layerSeconds(measured));
  const fastest = Math.max(0, ...speeds);
  if (fastest === 0 || strangers === 0) return peers;
  // However many come at once, all of them together count for no more than those who were seen.
  const together = speeds.reduce((sum, speed) => sum + speed, 0) / strangers;
  const most = Math.min(UNSEEN_SPEED * fastest, together);
  return peers.map((peer) => {
    const { id, measured } = peer;
    if (!measured || seen.has(id)) return peer;
    const factor = 1 / layerSeconds(measured) / most;
    return factor > 1 ? { ...peer, measured: slowed(measured, factor) } : peer;
  });
}

/** Layers times samples of each peer, as a share of all. */
export function workShares({ stages, microBatches }: Plan): Map<PeerId, number> {
  const sizes = new Map(microBatches.map(({ id, samples: [from, to] }) => [id, to - from]));
  const shares = new Map<PeerId, number>();
  let all = 0;
  for (const { layers, members } of stages)
    for (const { peer, microBatches: carried } of members) {
      const samples = carried.reduce((sum, id) => sum + (sizes.get(id) ?? 0), 0);
      const work = samples * (layers[1] - layers[0]);
      shares.set(peer, (shares.get(peer) ?? 0) + work);
      all += work;
    }
  return new Map([...shares].map(([peer, work]) => [peer, work / all]));
}

/** Most of the work would be with those who were never seen, while others were. */
export function isRash(plan: Plan, donors: readonly (Seen & { readonly peer: PeerId })[]): boolean {
  const seen = new Set(donors.filter(isSeen).map(({ peer }) => peer));
  if (seen.size === 0) return false;
  let unseen = 0;
  for (const [peer, share] of workShares(plan)) if (!seen.has(peer)) unseen += share;
  return unseen > 0.5;
}
