/**
 * Who uploads which shards for checkpoints, and how long that takes. A primary's part goes up over the line of a replica
 * whose line is clearly better, shard by shard, as long as that one is done with it sooner than the primary would be with
 * all of its own. A function of the plan and of what is known of lines alone, so that whoever predicts, plans anew or plays
 * a recording comes to the same. Rules RE in SPEC.md.
 */
import { got, type PeerId } from '../base.ts';
import type { Plan, Shard } from '../plan/plan.ts';
import { sizeOf } from '../plan/shardCuts.ts';
import { FLOAT_BYTES, savedKinds } from '../plan/stateKinds.ts';
import { keptBy, uploaderOf } from '../plan/uploader.ts';
import { counted, secondsText } from '../quantityText.ts';
import type { ClusterCosts, PlannedPeer } from './clusterCosts.ts';
import type { Reason } from './reason.ts';

/** So many times the primary's rate, where rates are known to about a fifth. */
const CLEARLY_BETTER = 2;
/** What a primary uploads in less stays with it. */
const LEAST_SECONDS = 1;

type Lines = Pick<ClusterCosts, 'peers' | 'batch'>;

/** No bytes take no time, whatever carries them. */
export const secondsFor = (bytes: number, bytesPerSecond: number): number => (bytes === 0 ? 0 : bytes / bytesPerSecond);

const elementBytes = ({ batch }: Pick<Lines, 'batch'>): number => savedKinds(batch.islands).length * FLOAT_BYTES;

/** Until everyone has uploaded its part of a checkpoint. */
export function savingSeconds(lines: Lines, { state }: Plan): number {
  const elements = new Map<PeerId, number>();
  for (const { shards } of state)
    for (const shard of shards) {
      const uploader = uploaderOf(shard);
      elements.set(uploader, (elements.get(uploader) ?? 0) + sizeOf(shard));
    }
  const bytes = elementBytes(lines);
  return Math.max(0, ...lines.peers.map(({ id, upload }) => secondsFor((elements.get(id) ?? 0) * bytes, upload)));
}

/** The plan with an uploader for each shard that goes up sooner from a replica. */
export function withUploaders(lines: Lines, plan: Plan): Plan {
  const bare = { ...plan, state: plan.state.map(({ block, shards }) => ({ block, shards: shards.map(byPrimary) })) };
  const uploaders = chosenUploaders(lines, bare);
  if (uploaders.size === 0) return bare;
  const state = bare.state.map(({ block, shards }) => ({
    block,
    shards: shards.map((shard) => {
      const uploader = uploaders.get(shard);
      return uploader === undefined ? shard : { ...shard, uploader };
    }),
  }));
  return { ...bare, state };
}

const byPrimary = ({ uploader: _, ...shard }: Shard): Shard => keptBy(shard, shard.peer, shard.replicas);

function chosenUploaders(lines: Lines, { state }: Plan): ReadonlyMap<Shard, PeerId> {
  const known = new Map(lines.peers.map((peer) => [peer.id, peer]));
  const bytes = elementBytes(lines);
  const chosen = new Map<Shard, PeerId>();
  const loads = new Map<PeerId, number>();
  /** Of each primary what it may give away, the largest first. */
  const own = new Map<PeerId, Shard[]>();
  for (const shard of state.flatMap(({ shards }) => shards)) {
    loads.set(shard.peer, (loads.get(shard.peer) ?? 0) + sizeOf(shard));
    own.set(shard.peer, [...(own.get(shard.peer) ?? []), shard]);
  }
  for (const [peer, shards] of own)
    own.set(
      peer,
      shards.toSorted((a, b) => sizeOf(b) - sizeOf(a)),
    );
  const secondsOf = (peer: PeerId, more = 0): number =>
    secondsFor(((loads.get(peer) ?? 0) + more) * bytes, known.get(peer)?.upload ?? Number.POSITIVE_INFINITY);
  const open = new Set(own.keys());
  while (open.size > 0) {
    const [primary, seconds] = longest([...open].map((peer) => [peer, secondsOf(peer)]));
    const shards = got(own, primary);
    const found = seconds < LEAST_SECONDS ? null : sooner(shards, known, secondsOf);
    if (found === null) {
      open.delete(primary);
      continue;
    }
    const [shard, replica] = found;
    chosen.set(shard, replica);
    own.set(
      primary,
      shards.filter((other) => other !== shard),
    );
    loads.set(primary, got(loads, primary) - sizeOf(shard));
    loads.set(replica, (loads.get(replica) ?? 0) + sizeOf(shard));
  }
  return chosen;
}

const longest = (times: readonly (readonly [PeerId, number])[]): readonly [PeerId, number] =>
  times.reduce((most, one) => (one[1] > most[1] ? one : most));

/** The first shard that a replica is done with before its primary is with all of its own, and the one that is done first. */
function sooner(
  shards: readonly Shard[],
  known: ReadonlyMap<PeerId, PlannedPeer>,
  secondsOf: (peer: PeerId, more?: number) => number,
): readonly [Shard, PeerId] | null {
  for (const shard of shards) {
    const primary = known.get(shard.peer);
    let best: readonly [PeerId, number] | null = null;
    for (const replica of shard.replicas) {
      const other = known.get(replica);
      if (!primary || !other || !isClearlyBetter(other, primary)) continue;
      const seconds = secondsOf(replica, sizeOf(shard));
      if (seconds < (best?.[1] ?? secondsOf(shard.peer))) best = [replica, seconds];
    }
    if (best !== null) return [shard, best[0]];
  }
  return null;
}

/** Who shares a line has the same part of it. */
const isClearlyBetter = (other: PlannedPeer, primary: PlannedPeer): boolean =>
  other.upload >= CLEARLY_BETTER * primary.upload;

/** What other uploaders are for; none where there are none. */
export function uploadReasons(lines: Lines, plan: Plan): Reason[] {
  const count = plan.state.flatMap(({ shards }) => shards.filter(({ uploader }) => uploader !== undefined)).length;
  if (count === 0) return [];
  const alone = { ...plan, state: plan.state.map(({ block, shards }) => ({ block, shards: shards.map(byPrimary) })) };
  const [seconds, before] = [savingSeconds(lines, plan), savingSeconds(lines, alone)];
  const parts = `${counted(count, 'part')} of the state ${count === 1 ? 'is' : 'are'}`;
  const text = `For checkpoints ${parts} uploaded by donors that keep copies and have better lines: a checkpoint takes ${secondsText(seconds)} instead of ${secondsText(before)}.`;
  return [{ peer: null, text }];
}
