/**
 * A step's spans as its peers measured them, each by a clock of its own, put on one clock: messages say how two clocks
 * stand to each other, as in NTP. What a peer was sent it is handed after the sender's work has ended, and so the other
 * way round: forwards bound the difference from one side, backwards from the other, and the middle is wrong by no more
 * than half of a round trip. Peers who sent each other nothing begin together.
 */
import { got, median, type PeerId } from '../base.ts';
import { type Plan, peers } from '../plan/plan.ts';
import { formatAction } from '../schedule/action.ts';
import type { BesideSpan } from './beside.ts';
import { type MeasuredSpan, measuredSpans, type ReportedSpan } from './measured.ts';
import { type Interval, shifted, type Timeline } from './timeline.ts';

type Reports = ReadonlyMap<PeerId, readonly ReportedSpan[]>;

/** Spans of work that the plan gave to somebody else are left out. The first one starts at 0. */
export function aligned(plan: Plan, reports: Reports): Timeline {
  const spans = measuredByPeer(plan, reports);
  const shifts = shiftsOf(spans);
  const places = new Map([...spans.keys()].map((peer, place) => [peer, place]));
  return [...spans]
    .flatMap(([peer, own]) => onClock(own, got(shifts, peer)))
    .sort((a, b) => a.startSeconds - b.startSeconds || got(places, a.peer) - got(places, b.peer));
}

/** Where a peer's work in a step ended by its own clock, and how far the step's clock is from that. */
export interface WorkEnd {
  readonly endSeconds: number;
  readonly shiftSeconds: number;
}

export function workEnds(plan: Plan, reports: Reports): Map<PeerId, WorkEnd> {
  const spans = measuredByPeer(plan, reports);
  const shifts = shiftsOf(spans);
  return new Map(
    [...spans].flatMap(([peer, own]) => {
      const last = own.at(-1);
      return last ? [[peer, { endSeconds: last.endSeconds, shiftSeconds: got(shifts, peer) }] as const] : [];
    }),
  );
}

/** What these peers did beside their work in the step, on its clock: of those alone whose own work in it is known. */
export const alignedBeside = (ends: ReadonlyMap<PeerId, WorkEnd>, beside: readonly BesideSpan[]): BesideSpan[] =>
  beside.flatMap((span) => {
    const end = ends.get(span.peer);
    return end ? [shifted(span, end.shiftSeconds)] : [];
  });

/** What they did behind the step: their own work came first. What was sent may have begun before that ended. */
export const alignedBehind = (ends: ReadonlyMap<PeerId, WorkEnd>, behind: readonly BesideSpan[]): BesideSpan[] =>
  alignedBeside(
    ends,
    behind.filter(({ peer, action, startSeconds, endSeconds }) => {
      const end = ends.get(peer)?.endSeconds ?? Infinity;
      return ('stage' in action ? endSeconds : startSeconds) >= end;
    }),
  );

/**
 * The same, and of those who compute nothing and tell of an update: the commit comes to all at about the same time, so that
 * theirs begins where the others' do, in the middle.
 */
export function withKeepers(
  ends: ReadonlyMap<PeerId, WorkEnd>,
  behind: ReadonlyMap<PeerId, readonly BesideSpan[]>,
): ReadonlyMap<PeerId, WorkEnd> {
  const begins = new Map(
    [...behind].flatMap(([peer, spans]) => {
      const updates = spans.filter(({ action: { op } }) => op === 'UPDATE' || op === 'UPDATE_HOST');
      return updates.length === 0 ? [] : [[peer, firstStart(updates)] as const];
    }),
  );
  const others = [...begins].flatMap(([peer, begun]) => {
    const end = ends.get(peer);
    return end ? [begun + end.shiftSeconds] : [];
  });
  const commonSeconds = median(others);
  if (commonSeconds === null) return ends;
  const keepers = [...begins].filter(([peer]) => !ends.has(peer));
  return new Map([
    ...ends,
    ...keepers.map(([peer, begun]) => [peer, { endSeconds: begun, shiftSeconds: commonSeconds - begun }] as const),
  ]);
}

/** Of those whose reports have any. */
const measuredByPeer = (plan: Plan, reports: Reports): ReadonlyMap<PeerId, readonly MeasuredSpan[]> =>
  new Map(
    peers(plan).flatMap((peer) => {
      const own = measuredSpans(plan, peer, reports.get(peer) ?? []);
      return own.length > 0 ? [[peer, own] as const] : [];
    }),
  );

/** From each peer's clock to the step's. */
function shiftsOf(spans: ReadonlyMap<PeerId, readonly MeasuredSpan[]>): ReadonlyMap<PeerId, number> {
  const offsets = clockOffsets(spans);
  const first = Math.min(...[...spans].map(([peer, own]) => firstStart(own) + got(offsets, peer)));
  return new Map([...offsets].map(([peer, offset]) => [peer, offset - first]));
}

const onClock = (timeline: Timeline, offset: number) =>
  timeline.map(({ peer, action, startSeconds, endSeconds }) => ({
    ...{ peer, action },
    startSeconds: startSeconds + offset,
    endSeconds: endSeconds + offset,
  }));

/** From each peer to each that it sent to or had something from: the least and the most that the other's clock is behind. */
type Bounds = Map<PeerId, Map<PeerId, [least: number, most: number]>>;

function bounds(spans: ReadonlyMap<PeerId, readonly MeasuredSpan[]>): Bounds {
  const found: Bounds = new Map();
  const between = (from: PeerId, to: PeerId): [number, number] => {
    const own = found.get(from) ?? new Map<PeerId, [number, number]>();
    found.set(from, own);
    const known = own.get(to) ?? [-Infinity, Infinity];
    own.set(to, known);
    return known;
  };
  const spanOf = new Map([...spans.values()].flat().map((span) => [formatAction(span.action), span]));
  for (const span of spanOf.values()) {
    const { op, stage, microBatch } = span.action;
    if (op === 'R') continue;
    const source = spanOf.get(formatAction({ op, stage: stage + (op === 'F' ? -1 : 1), microBatch }));
    if (source === undefined || source.peer === span.peer) continue;
    // Moved by d this one is handed in at or after the source's end; the other way round the bound is from above.
    const difference = source.endSeconds - span.submittedSeconds;
    const there = between(source.peer, span.peer);
    there[0] = Math.max(there[0], difference);
    const back = between(span.peer, source.peer);
    back[1] = Math.min(back[1], -difference);
  }
  return found;
}

function clockOffsets(spans: ReadonlyMap<PeerId, readonly MeasuredSpan[]>): Map<PeerId, number> {
  const known = bounds(spans);
  const offsets = new Map<PeerId, number>();
  for (const start of spans.keys()) {
    if (offsets.has(start)) continue;
    offsets.set(start, -firstStart(got(spans, start)));
    const queue = [start];
    for (let peer = queue.shift(); peer !== undefined; peer = queue.shift()) {
      for (const [other, [least, most]] of known.get(peer) ?? []) {
        if (offsets.has(other)) continue;
        offsets.set(other, got(offsets, peer) + middle(least, most));
        queue.push(other);
      }
    }
  }
  return offsets;
}

const firstStart = (spans: readonly Interval[]): number => Math.min(...spans.map(({ startSeconds }) => startSeconds));

function middle(least: number, most: number): number {
  if (!Number.isFinite(least)) return most;
  return Number.isFinite(most) ? (least + most) / 2 : least;
}
