/**
 * How the plan has one peer send to another, where that is not the default: over several connections side by side, each of
 * which has a window of its own, and the stream in an encoding of its own. And who takes turns on a line that they share.
 * See SPEC.md, PL23, PL25 and PL63.
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
function linkProblems(links: readonly PlanLink[], peers: readonly PeerId[]): string[] {
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

/** Peers behind one router whose stream takes turns on its line (lineTurns.ts). */
export type PlanLine = readonly PeerId[];

export const planLinesSchema: z.ZodType<readonly PlanLine[]> = z.array(z.array(peer).min(2)).min(1).max(4_096);

/** Their order follows what arrives: it is not known before who sends when. */
const WITHOUT_TURNS = ['eager', 'varuna'];
/** Whether the stream of a plan in this order can take turns. */
export const takesTurns = (schedule: string): boolean => !WITHOUT_TURNS.includes(schedule);

/** What is wrong with the lines of a plan of these peers, in sentences. */
function lineProblems(lines: readonly PlanLine[], peers: readonly PeerId[], schedule: string): string[] {
  if (lines.length > 0 && !takesTurns(schedule))
    return [`lines go with an order that is known before the step, not with ${schedule}`];
  const known = new Set(peers);
  const seen = new Set<PeerId>();
  return lines.flatMap((line, index) =>
    line.flatMap((one) => {
      const isKnown = known.has(one);
      if (isKnown && seen.size < seen.add(one).size) return [];
      const why = isKnown ? 'who is on a line already' : 'who is not in the plan';
      return [`line ${index} of the plan names ${one}, ${why}`];
    }),
  );
}

interface Ways {
  readonly links?: readonly PlanLink[];
  readonly lines?: readonly PlanLine[];
  readonly schedule: string;
}

/** What is wrong with either, and by which rule. */
export const wayProblems = ({ links = [], lines = [], schedule }: Ways, peers: readonly PeerId[]) => [
  ...linkProblems(links, peers).map((text) => ({ rule: 'PL23', text }) as const),
  ...lineProblems(lines, peers, schedule).map((text) => ({ rule: 'PL63', text }) as const),
];

/** How one peer writes its stream to another. */
type WireBetween = (from: PeerId, to: PeerId) => WireEncoding;

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
