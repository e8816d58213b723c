/**
 * How the plan has one peer send to another, where that is not the default: over several connections side by side, each of
 * which has a window of its own, and the stream in an encoding of its own. See SPEC.md, PL23 and PL25.
 */
import { z } from 'zod';
import { type PeerId, peerId } from '../base.ts';
import { plainWire, type RunWire, WIRE_ENCODINGS, type WireEncoding } from '../wire.ts';

/** More of them hardly make a link faster, and each costs both ends a handshake and buffers. */
export const MOST_STREAMS = 8;

export interface PlanLink {
  readonly from: PeerId;
  readonly to: PeerId;
  /** Of the stream; absent: the run's. */
  readonly wire?: WireEncoding;
  readonly streams: number;
}

const peer = z.string().min(1).transform(peerId);
export const planLinksSchema: z.ZodType<readonly PlanLink[]> = z
  .array(
    z.object({
      ...{ from: peer, to: peer },
      wire: z.enum(WIRE_ENCODINGS).exactOptional(),
      streams: z.int().min(1).max(MOST_STREAMS).default(1),
    }),
  )
  .max(65_536);

/** What is wrong with the links of a plan of these peers, in sentences. */
export function linkProblems(links: readonly PlanLink[], peers: readonly PeerId[]): string[] {
  const known = new Set(peers);
  const seen = new Set<string>();
  return links.flatMap(({ from, to }, index) => {
    const place = `link ${index} of the plan, from ${from} to ${to},`;
    const stranger = [from, to].find((end) => !known.has(end));
    if (stranger !== undefined) return `${place} names ${stranger}, who is not in the plan`;
    if (from === to) return `${place} joins a peer with itself`;
    const key = JSON.stringify([from, to]);
    if (seen.has(key)) return `${place} is there more than once`;
    seen.add(key);
    return [];
  });
}

/** How one peer writes its stream to another. */
export type WireBetween = (from: PeerId, to: PeerId) => WireEncoding;

export function wireBetween({ links }: { readonly links?: readonly PlanLink[] }, wire: RunWire): WireBetween {
  const plain = plainWire(wire);
  const known = new Map<PeerId, Map<PeerId, WireEncoding>>();
  for (const { from, to, wire: own } of links ?? []) {
    if (own === undefined) continue;
    const row = known.get(from) ?? new Map<PeerId, WireEncoding>();
    known.set(from, row.set(to, own));
  }
  return known.size === 0 ? () => plain : (from, to) => known.get(from)?.get(to) ?? plain;
}

/** Connections to each partner: a connection carries both ways, so that the direction that needs more of them decides. */
export function streamsOf(links: readonly PlanLink[] | undefined, me: PeerId): Map<PeerId, number> {
  const found = new Map<PeerId, number>();
  for (const { from, to, streams } of links ?? []) {
    const other = from === me ? to : to === me ? from : null;
    if (other !== null) found.set(other, Math.max(found.get(other) ?? 1, streams));
  }
  return found;
}
