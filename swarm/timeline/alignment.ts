/**
 * A step's spans as its peers measured them, each by a clock of its own, put on one clock: messages say how two clocks
 * stand to each other, as in NTP. What a peer was sent it is handed after the sender's work has ended, and so the other
 * way round: forwards bound the difference from one side, backwards from the other, and the middle is wrong by no more
 * than half of a round trip. Peers who sent each other nothing begin together.
 */
import { got, type PeerId } from '../base.ts';
import { type Plan, peers } from '../plan/plan.ts';
import { formatAction } from '../schedule/action.ts';
import { type MeasuredSpan, measuredSpans, type ReportedSpan } from './measured.ts';
import type { Timeline } from './timeline.ts';

/** Spans of work that the plan gave to somebody else are left out. The first one starts at 0. */
export function aligned(plan: Plan, reports: ReadonlyMap<PeerId, readonly ReportedSpan[]>): Timeline {
  const spans = new Map(
    peers(plan).flatMap((peer) => {
      const reported = reports.get(peer);
      return reported ? [[peer, measuredSpans(plan, peer, reported)] as const] : [];
    }),
  );
  const offsets = clockOffsets(spans);
  const moved = [...spans].flatMap(([peer, own]) => onClock(own, got(offsets, peer)));
  const first = Math.min(...moved.map(({ startSeconds }) => startSeconds));
  const places = new Map([...spans.keys()].map((peer, place) => [peer, place]));
  return onClock(moved, -first).sort(
    (a, b) => a.startSeconds - b.startSeconds || got(places, a.peer) - got(places, b.peer),
  );
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
    const known = own.get(to) ?? [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
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

const firstStart = (spans: readonly MeasuredSpan[]): number =>
  Math.min(...spans.map(({ startSeconds }) => startSeconds));

function middle(least: number, most: number): number {
  if (!Number.isFinite(least)) return most;
  return Number.isFinite(most) ? (least + most) / 2 : least;
}
