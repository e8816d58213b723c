/**
 * What a donor claims of its speed, and what this server has seen of it. As long as a donor was not seen at work for some
 * tens of steps, and others were, it is planned with as slower than they are, however fast it says it is: it begins with
 * a small part. Whose part made steps longer than its claims said counts as so much slower.
 */
import { addToKey, arrayOf, countIn, type PeerId, total, totalOf } from '../base.ts';
import { type Plan, samplesById } from '../plan/plan.ts';
import type { Cluster } from '../planner/cluster.ts';
import { curveAt, extended } from '../planner/sizing.ts';

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

interface Pass {
  readonly forward: number;
  readonly backward: number;
}

/** A layer there and back, of a micro-batch of so many samples: past the table by its last slope, as plans have it. */
function passOf({ forwardSecondsPerLayer, backwardSecondsPerLayer }: Measured): (samples: number) => Pass {
  const [forward, backward] = [extended(forwardSecondsPerLayer, 2), extended(backwardSecondsPerLayer, 2)];
  return (samples) => ({
    forward: Math.max(0, curveAt(forward, samples)),
    backward: Math.max(0, curveAt(backward, samples)),
  });
}

const both = ({ forward, backward }: Pass): number => forward + backward;

/**
 * `seen`: of those among them who were seen; where nobody was, all are what they say. `samples`: of the largest micro-batch
 * that there may be. The doubt is in every size up to it: who measured itself on a busy machine may say that it is slow in
 * some and fast in others.
 */
export function doubted(peers: Cluster['peers'], seen: ReadonlySet<string>, samples: number): Cluster['peers'] {
  const known = peers.flatMap(({ id, measured }) => (measured && seen.has(id) ? passOf(measured) : []));
  const strangers = peers.filter(({ id, measured }) => measured && !seen.has(id)).length;
  if (known.length === 0 || strangers === 0) return peers;
  const leastOf = (size: number): number => {
    const speeds = known.map((pass) => 1 / both(pass(size)));
    // However many come at once, all of them together count for no more than those who were seen.
    const together = total(speeds) / strangers;
    return 1 / Math.min(UNSEEN_SPEED * Math.max(...speeds), together);
  };
  const sizes = Math.max(...peers.map(({ measured }) => measured?.forwardSecondsPerLayer.length ?? 1));
  const least = arrayOf(sizes, (index) => leastOf(index + 1));
  const beyond = Math.max(0, samples - sizes);
  const end = { beyond, seconds: leastOf(sizes + beyond) };
  return peers.map((peer) => {
    const { id, measured } = peer;
    if (!measured || seen.has(id)) return peer;
    const times = noShorter(passOf(measured), least, end);
    if (times === null) return peer;
    const tables = {
      forwardSecondsPerLayer: times.map(({ forward }) => forward),
      backwardSecondsPerLayer: times.map(({ backward }) => backward),
    };
    return { ...peer, measured: { ...measured, ...tables } };
  });
}

/** What is claimed, nowhere under the least, of each size or at the end of the line through the last two. Null: it is so. */
function noShorter(
  claimedOf: (samples: number) => Pass,
  least: readonly number[],
  end: { readonly beyond: number; readonly seconds: number },
): Pass[] | null {
  const times: Pass[] = [];
  let isSo = true;
  for (const [index, seconds] of least.entries()) {
    const claimed = claimedOf(index + 1);
    const before = index === least.length - 1 ? times.at(-1) : undefined;
    const ending = before === undefined ? 0 : (end.seconds + end.beyond * both(before)) / (1 + end.beyond);
    const needed = Math.max(seconds, ending);
    isSo &&= both(claimed) >= needed;
    times.push(both(claimed) >= needed ? claimed : divided(needed, claimed));
  }
  return isSo ? null : times;
}

/** As a layer's times are divided where nothing says it. */
const FORWARD_PART = 1 / 3;

function divided(seconds: number, claimed: Pass): Pass {
  const now = both(claimed);
  const part = now > 0 ? claimed.forward / now : FORWARD_PART;
  return { forward: part * seconds, backward: (1 - part) * seconds };
}

/** Layers times samples of each peer, as a share of all. */
export function workShares(plan: Plan): Map<PeerId, number> {
  const sizes = samplesById(plan);
  const shares = new Map<PeerId, number>();
  let all = 0;
  for (const { layers, members } of plan.stages)
    for (const { peer, microBatches: carried } of members) {
      const samples = totalOf(carried, (id) => sizes.get(id) ?? 0);
      const work = samples * countIn(layers);
      addToKey(shares, peer, work);
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
