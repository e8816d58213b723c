/**
 * What is known of links, and of the lines that the links of one donor share. A rate is a claim, and a claim for more would
 * bring work: what both ends say alike is evidence, the sender by the words of arrivals, the receiver by the frames of long
 * tensors. What one end alone says makes a link no better than one that nobody measured, or than the same link the other
 * way. See SPEC.md, AP4.
 */
import { type PeerId, total } from '../base.ts';
import type { Limits } from '../limits.ts';
import type { LinkReport } from '../messages/profile.ts';
import type { Cluster } from '../planner/cluster.ts';
import type { LineCaps } from '../planner/streamWires.ts';

/** Of a link that was never measured: a good line at home. */
export const UNMEASURED_LINK = { latencySeconds: 0.01, bytesPerSecond: 5e6 };
/** A window limits what takes no longer than so many round trips: more would wait for the line. */
const UNDELAYED = 2;
/** Links to one donor that all carry less than this part of what their senders can share the receiver's line. */
const SLOWED = 0.8;

/** What a donor last reported. */
export interface ReportedLinks {
  readonly links: readonly LinkReport[];
  /** All of them at once; null: it was not measured. */
  readonly uploadBytesPerSecond: number | null;
  /** Whoever has the same one is behind the same router; null, absent: nobody is. */
  readonly line?: string | null;
  /** With so many of them in the plan it was measured; absent: alone. */
  readonly measuredWith?: number;
}

/** Bytes a second; null: not known. */
interface Line {
  readonly upload: number | null;
  readonly download: number | null;
}

/** `own`: what it says of it itself, and others cannot lower. */
interface KnownLine extends Line {
  readonly own: Line;
}

interface KnownLinks {
  readonly pairs: Cluster['links']['pairs'];
  readonly lines: ReadonlyMap<PeerId, KnownLine>;
}

/** One way of a pair. */
interface Way {
  readonly rate: number;
  /** What its sender says, or a good link where it says nothing, whatever less its receiver has heard. */
  readonly most: number;
  readonly isSaid: boolean;
  readonly heard: number | null;
}
type Ways = ReadonlyMap<PeerId, ReadonlyMap<PeerId, Way>>;

/** Null: not known. No link that carries anything carries less than a byte a second. */
export const measuredRate = (bytesPerSecond: number | null | undefined): number | null =>
  bytesPerSecond != null && bytesPerSecond >= 1 ? bytesPerSecond : null;

/** The links between these peers, in their order, and their lines. */
export function knownLinks(peers: readonly PeerId[], reports: ReadonlyMap<PeerId, ReportedLinks>): KnownLinks {
  const place = new Map(peers.map((peer, index) => [peer, index]));
  const ends = new Map(
    peers.map((peer) => [peer, new Map(reports.get(peer)?.links.map((report) => [report.peer, report]))]),
  );
  const pairs: Cluster['links']['pairs'] = [];
  const sent = new Map<PeerId, Map<PeerId, Way>>(peers.map((peer) => [peer, new Map()]));
  for (const [one, links] of ends)
    for (const [other, report] of links) {
      const back = ends.get(other)?.get(one);
      const [from, to] = [place.get(one) ?? 0, place.get(other)];
      // Of two peers at hand; once, in their order.
      if (to === undefined || to === from || (back !== undefined && to < from)) continue;
      const [there, here] = [wayOf(report, back), wayOf(back, report)];
      // What goes from one to another behind a router says nothing of its line.
      const isAcross = !areBehindOne(reports, one, other);
      if (there !== null && isAcross) sent.get(one)?.set(other, there);
      if (here !== null && isAcross) sent.get(other)?.set(one, here);
      const latency = latencyOf(report, back);
      const windows = [
        ...windowOf(report, there?.rate, latency.latencySeconds),
        ...windowOf(back, here?.rate, latency.latencySeconds),
      ];
      const rates = [there, here].flatMap((way) => way?.rate ?? []);
      const pair = { ...latency, ...(windows.length === 0 ? rateBetween(rates) : windowed(windows, rates)) };
      if (Object.keys(pair).length > 0) pairs.push({ between: from < to ? [one, other] : [other, one], ...pair });
    }
  const uploads = new Map(peers.map((peer) => [peer, uploadOf(sent.get(peer), claimOf(reports, peer))]));
  const downloads = downloadsOf(sent, uploads);
  const lines = new Map(
    peers.map((peer) => {
      const [up, down] = [uploads.get(peer) ?? UNKNOWN, downloads.get(peer) ?? UNKNOWN];
      return [peer, { upload: up.known, download: down.known, own: { upload: up.own, download: down.own } }];
    }),
  );
  return { pairs, lines };
}

const areBehindOne = (reports: ReadonlyMap<PeerId, ReportedLinks>, one: PeerId, other: PeerId): boolean => {
  const line = reports.get(one)?.line ?? null;
  return line !== null && reports.get(other)?.line === line;
};

/** Of its line; what all its links carried at once is no word on that where some of them do not take it. */
function claimOf(reports: ReadonlyMap<PeerId, ReportedLinks>, peer: PeerId): ReportedLinks | undefined {
  const report = reports.get(peer);
  const across = report?.links.filter((link) => !areBehindOne(reports, peer, link.peer)) ?? [];
  return report === undefined || across.length === report.links.length
    ? report
    : { ...report, links: across, uploadBytesPerSecond: null };
}

/** What goes from the one who says `sent` to the one who says `back`. */
function wayOf(sent: LinkReport | undefined, back: LinkReport | undefined): Way | null {
  const [said, heard] = [measuredRate(sent?.bytesPerSecond), measuredRate(back?.receivedBytesPerSecond)];
  if (said === null && heard === null) return null;
  const good = UNMEASURED_LINK.bytesPerSecond;
  const most = Math.min(said ?? good, Math.max(heard ?? 0, back?.bytesPerSecond ?? 0, good));
  return { rate: Math.min(most, heard ?? most), most, isSaid: said !== null, heard };
}

/** A pair has one rate: the better way's, since the other one is bound by its sender's line. */
const rateBetween = (rates: readonly number[]) => (rates.length === 0 ? {} : { bytesPerSecond: Math.max(...rates) });

/** What the line carries by more connections nobody knows: it is taken for a good one. */
const windowed = (windows: readonly number[], rates: readonly number[]) => ({
  bytesPerSecond: Math.max(UNMEASURED_LINK.bytesPerSecond, ...rates),
  windowBytes: Math.max(...windows),
});

/**
 * The window that limits a way. A claim for one that has room for more than the way carries says nothing of the way; and
 * what the way has carried it carries, however small the windows were that somebody met with as it began.
 */
function windowOf(end: LinkReport | undefined, rate: number | null | undefined, latencySeconds = 0): number[] {
  if (end?.windowBytes === undefined) return [];
  const { windowBytes, streams = 1 } = end;
  const carriedBytes = (rate ?? 0) * 2 * latencySeconds;
  return streams * windowBytes <= UNDELAYED * carriedBytes ? [Math.max(windowBytes, carriedBytes / streams)] : [];
}

/** The longer round trip of what both say. */
function latencyOf(...ends: readonly (LinkReport | undefined)[]): { readonly latencySeconds?: number } {
  const trips = ends.flatMap((end) => end?.roundTripMs ?? []);
  if (trips.length === 0) return {};
  const least = trips.length === 1 ? UNMEASURED_LINK.latencySeconds : 0;
  return { latencySeconds: Math.max(least, ...trips.map((trip) => trip / 2_000)) };
}

/** What is planned with, and what the donor says itself. */
interface Claim {
  readonly known: number | null;
  readonly own: number | null;
}

const UNKNOWN: Claim = { known: null, own: null };

/**
 * No more than what its links carry together, as both their ends have it; one that sends to nobody keeps what it said. One
 * receiver alone cannot make the line slow: the lowest part of what was sent counts as the next one does.
 */
function uploadOf(sent: ReadonlyMap<PeerId, Way> | undefined, report: ReportedLinks | undefined): Claim {
  // The line has carried no more than windows let through.
  if (report?.links.some((link) => windowOf(link, link.bytesPerSecond, (link.roundTripMs ?? 0) / 2_000).length > 0))
    return UNKNOWN;
  const claimed = measuredRate(report?.uploadBytesPerSecond);
  const ways = [...(sent?.values() ?? [])];
  if (ways.length === 0) return { known: claimed, own: claimed };
  if (claimed === null && !ways.some(({ isSaid }) => isSaid))
    return ways.length < 2 ? UNKNOWN : { known: Math.max(...ways.map(({ rate }) => rate)), own: null };
  // `least`: of what is said to be sent at least this part counts.
  const line = (least: number): number => {
    const rates = ways.map(({ rate, most, isSaid }) => ({ rate: Math.max(rate, least * most), isSaid }));
    const said = rates.flatMap(({ rate, isSaid }) => (isSaid ? rate : []));
    return Math.min(total(rates.map(({ rate }) => rate)), Math.max(claimed ?? 0, ...said));
  };
  const [, nextLowest = 1] = ways.map(({ rate, most }) => rate / most).toSorted((a, b) => a - b);
  return { known: line(nextLowest), own: line(1) };
}

/** Where several senders each send less to somebody than they can, it is that one's line that they share. */
function downloadsOf(sent: Ways, uploads: ReadonlyMap<PeerId, Claim>): Map<PeerId, Claim> {
  const into = new Map<PeerId, { ways: Way[]; isSlowed: boolean }>();
  for (const [from, ways] of sent)
    for (const [to, way] of ways) {
      const found = into.get(to) ?? { ways: [], isSlowed: true };
      found.ways.push(way);
      found.isSlowed &&= way.rate < SLOWED * (uploads.get(from)?.known ?? 0);
      into.set(to, found);
    }
  const shared = [...into].filter(([, { ways, isSlowed }]) => isSlowed && ways.length > 1);
  return new Map(
    shared.map(([peer, { ways }]) => {
      const heard = ways.flatMap((way) => way.heard ?? []);
      return [
        peer,
        { known: total(ways.map(({ rate }) => rate)), own: heard.length < ways.length ? null : total(heard) },
      ];
    }),
  );
}

/** What donors set themselves, no measurement. */
export const lineCapsOf = (donors: readonly { readonly peer: PeerId; readonly limits: Limits }[]): LineCaps =>
  new Map(
    donors.map(({ peer, limits }) => [
      peer,
      { upload: limits.uploadBytesPerSecond, download: limits.downloadBytesPerSecond },
    ]),
  );
