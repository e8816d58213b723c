/** What owners send at a meeting, and who takes the place of one who is gone. */
import { at, median, type PeerId } from '../base.ts';
import { type MeetingDonor, OWNERS, publishedBytes, SENT_KINDS } from '../islands/ownerShares.ts';
import type { MeetingOwners, OwnedRange } from '../messages/meetingWords.ts';
import { FLOAT_BYTES, SHARED_KINDS } from '../plan/stateKinds.ts';
import type { Islands } from '../run/runFile.ts';
import type { Owners } from './owned.ts';

export interface OwnersSend {
  /** Seconds of the slowest: to publish, at every meeting, and to send on what others are to have, at this one. */
  readonly publishing: number;
  readonly moving: number;
  /** Of all of it, of a donor that is not much slower than the one in the middle: for deadlines. */
  readonly allowed: number;
}

/** `copies`: how many keep each range, in all groups. */
export function ownersSend(
  settings: Pick<Islands, 'publish'>,
  { ranges, savedBy = [] }: Pick<MeetingOwners, 'ranges' | 'savedBy'>,
  lines: readonly MeetingDonor[],
  copies: number,
): OwnersSend {
  const [published, moved] = [new Map<PeerId, number>(), new Map<PeerId, number>()];
  const add = (to: Map<PeerId, number>, peer: PeerId, bytes: number): void =>
    void to.set(peer, (to.get(peer) ?? 0) + bytes);
  for (const { range, have, keep } of ranges) {
    const workers = have.length > 0 ? have : keep;
    const elements = range[1] - range[0];
    const sender = at(workers, 0);
    add(published, sender, copies * publishedBytes(settings, elements));
    const newOnes = keep.filter((peer) => !workers.includes(peer)).length;
    const planes = newOnes * SHARED_KINDS.length + savedBy.length * SENT_KINDS;
    add(moved, sender, FLOAT_BYTES * elements * planes);
  }
  const seconds = (of: ReadonlyMap<PeerId, number>): number[] =>
    lines.map(({ peer, upload }) => (of.get(peer) ?? 0) / upload);
  const [publishing, moving] = [seconds(published), seconds(moved)];
  const both = publishing.map((own, i) => own + at(moving, i));
  const slowest = Math.max(0, ...both);
  return {
    publishing: Math.max(0, ...publishing),
    moving: Math.max(0, ...moving),
    allowed: Math.min(slowest, MUCH_SLOWER * (median(both.filter((own) => own > 0)) ?? 0)),
  };
}
const MUCH_SLOWER = 10;

/** With the elements that it has room for as an owner or a copy. */
type Roomy = MeetingDonor & { readonly roomFor: number };

/**
 * Where some are gone: who has a range keeps it, another one has it too, of those who have room if any has, and who of both has
 * the better uplink publishes it.
 */
export function repaired(had: Owners['ranges'], lines: readonly Roomy[]): Owners['ranges'] {
  const held = new Map<PeerId, number>();
  const seconds = ({ peer, download }: MeetingDonor, more: number): number => ((held.get(peer) ?? 0) + more) / download;
  const hold = (peer: PeerId, elements: number): void => void held.set(peer, (held.get(peer) ?? 0) + elements);
  for (const { range, peers } of had) for (const peer of peers) hold(peer, range[1] - range[0]);
  const uploadOf = (peer: PeerId): number => lines.find((line) => line.peer === peer)?.upload ?? 0;
  return had.map((one) => {
    const peers = [...one.peers];
    const elements = one.range[1] - one.range[0];
    while (peers.length < OWNERS) {
      const others = lines.filter(({ peer }) => !peers.includes(peer));
      const hasRoom = ({ peer, roomFor }: Roomy): boolean => (held.get(peer) ?? 0) + elements <= roomFor;
      const may = others.some(hasRoom) ? others.filter(hasRoom) : others;
      const [next] = may.toSorted((a, b) => seconds(a, elements) - seconds(b, elements));
      if (next === undefined) break;
      hold(next.peer, elements);
      peers.push(next.peer);
    }
    return { ...one, peers: peers.toSorted((a, b) => uploadOf(b) - uploadOf(a)) };
  });
}

/** The one of two ways to share out that takes less, over so many meetings. */
export function lessSent(
  ways: readonly [OwnedRange[], OwnedRange[]],
  costOf: (ranges: OwnedRange[]) => OwnersSend,
  meetings: number,
): OwnedRange[] {
  const [one, other] = ways.map(costOf);
  const sum = (cost: OwnersSend | undefined): number => (cost ? meetings * cost.publishing + cost.moving : 0);
  return sum(one) <= sum(other) ? ways[0] : ways[1];
}
