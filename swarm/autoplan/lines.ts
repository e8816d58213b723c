/**
 * What is known of links, and of the lines that the links of one donor share. A rate is a claim, and a claim for more would
 * bring work: what both ends say alike is evidence, the sender by the words of arrivals, the receiver by the frames of long
 * tensors. What one end alone says makes a link no better than one that nobody measured, or than the same link the other
 * way. See SPEC.md, AP4 and AP24.
 */
import type { PeerId } from '../base.ts';
import type { LinkReport } from '../messages/profile.ts';
import type { Cluster } from '../planner/cluster.ts';

/** Of a link that was never measured: a good line at home. */
export const UNMEASURED_LINK = { latencySeconds: 0.01, bytesPerSecond: 5e6 };
/** Links to one donor that all carry less than this part of what their senders can share the receiver's line. */
const SLOWED = 0.8;

/** What a donor last reported. */
export interface ReportedLinks {
  readonly links: readonly LinkReport[];
  /** All of them at once; null: it was not measured. */
  readonly uploadBytesPerSecond: number | null;
}

/** Bytes a second; null: not known. */
export interface KnownLine {
  readonly upload: number | null;
  readonly download: number | null;
}

interface KnownLinks {
  readonly pairs: Cluster['links']['pairs'];
  readonly lines: ReadonlyMap<PeerId, KnownLine>;
}

/** The links between these peers, in their order, and their lines. */
export function knownLinks(peers: readonly PeerId[], reports: ReadonlyMap<PeerId, ReportedLinks>): KnownLinks {
  const place = new Map(peers.map((peer, index) => [peer, index]));
  const ends = new Map(
    peers.map((peer) => [peer, new Map(reports.get(peer)?.links.map((report) => [report.peer, report]))]),
  );
  const pairs: Cluster['links']['pairs'] = [];
  const sent = new Map<PeerId, Map<PeerId, number>>(peers.map((peer) => [peer, new Map()]));
  for (const [one, links] of ends)
    for (const [other, report] of links) {
      const back = ends.get(other)?.get(one);
      const [from, to] = [place.get(one) ?? 0, place.get(other)];
      // Of two peers at hand; once, in their order.
      if (to === undefined || to === from || (back !== undefined && to < from)) continue;
      const [there, here] = [rateOf(report, back), rateOf(back, report)];
      if (there !== null) sent.get(one)?.set(other, there);
      if (here !== null) sent.get(other)?.set(one, here);
      const windows = [report, back].flatMap((end) => end?.windowBytes ?? []);
      const rates = windows.length === 0 ? rateBetween(there, here) : windowed(windows, there, here);
      const pair = { ...latencyOf(report, back), ...rates };
      if (Object.keys(pair).length > 0) pairs.push({ between: from < to ? [one, other] : [other, one], ...pair });
    }
  const uploads = new Map(peers.map((peer) => [peer, uploadOf(sent.get(peer), reports.get(peer))]));
  const downloads = downloadsOf(sent, uploads);
  const lines = new Map(
    peers.map((peer) => [peer, { upload: uploads.get(peer) ?? null, download: downloads.get(peer) ?? null }]),
  );
  return { pairs, lines };
}

/** What goes from the one who says `sent` to the one who says `back`. */
function rateOf(sent: LinkReport | undefined, back: LinkReport | undefined): number | null {
  const heard = back?.receivedBytesPerSecond;
  if (!sent?.bytesPerSecond) return heard ? Math.min(heard, UNMEASURED_LINK.bytesPerSecond) : null;
  return Math.min(sent.bytesPerSecond, heard ?? Math.max(back?.bytesPerSecond ?? 0, UNMEASURED_LINK.bytesPerSecond));
}

/** A pair has one rate: the better way's, since the other one is bound by its sender's line. */
const rateBetween = (there: number | null, here: number | null) =>
  there === null && here === null ? {} : { bytesPerSecond: Math.max(there ?? 0, here ?? 0) };

/** What the line carries by more connections nobody knows: it is taken for a good one. */
const windowed = (windows: readonly number[], there: number | null, here: number | null) => ({
  bytesPerSecond: Math.max(UNMEASURED_LINK.bytesPerSecond, there ?? 0, here ?? 0),
  windowBytes: Math.max(...windows),
});

/** The longer round trip of what both say. */
function latencyOf(...ends: readonly (LinkReport | undefined)[]) {
  const trips = ends.flatMap((end) => end?.roundTripMs ?? []);
  if (trips.length === 0) return {};
  const least = trips.length === 1 ? UNMEASURED_LINK.latencySeconds : 0;
  return { latencySeconds: Math.max(least, ...trips.map((trip) => trip / 2_000)) };
}

/** No more than what its links carry together, as both their ends have it; one that sends to nobody keeps what it said. */
function uploadOf(sent: ReadonlyMap<PeerId, number> | undefined, report: ReportedLinks | undefined): number | null {
  // The line has carried no more than windows let through.
  if (report?.links.some(({ windowBytes }) => windowBytes !== undefined)) return null;
  const claimed = report?.uploadBytesPerSecond ?? null;
  if (sent === undefined || sent.size === 0) return claimed;
  const rates = [...sent.values()];
  const together = rates.reduce((sum, rate) => sum + rate, 0);
  return Math.min(together, Math.max(claimed ?? 0, ...rates));
}

/** Where several senders each send less to somebody than they can, it is that one's line that they share. */
function downloadsOf(
  sent: ReadonlyMap<PeerId, ReadonlyMap<PeerId, number>>,
  uploads: ReadonlyMap<PeerId, number | null>,
): Map<PeerId, number> {
  const into = new Map<PeerId, { rates: number[]; isSlowed: boolean }>();
  for (const [from, rates] of sent)
    for (const [to, rate] of rates) {
      const found = into.get(to) ?? { rates: [], isSlowed: true };
      found.rates.push(rate);
      found.isSlowed &&= rate < SLOWED * (uploads.get(from) ?? 0);
      into.set(to, found);
    }
  return new Map(
    [...into].flatMap(([peer, { rates, isSlowed }]) =>
      isSlowed && rates.length > 1 ? [[peer, rates.reduce((sum, rate) => sum + rate, 0)] as const] : [],
    ),
  );
}
