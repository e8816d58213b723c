/**
 * A step's spans as its peers measured them, each by a clock of its own, put on one clock. Its one idea: messages say
 * how two clocks stand to each other, as in NTP. What a peer was sent it starts after the sender's work has ended, and
 * so the other way round: forwards bound the difference from one side, backwards from the other, and the middle is
 * wrong by no more than half of a round trip. Peers who sent each other nothing begin together.
 */
import type { PeerId } from '../base.ts';
import { type Action, parseAction } from '../schedule/action.ts';
import { type Plan, peers } from './plan.ts';
import type { Span, Timeline } from './timeline.ts';

/** As a report has it. */
export interface MeasuredSpan {
  readonly action: string;
  readonly start: number;
  readonly end: number;
}

/** What a donor sends is not always an action. */
const WORK = /^\d{1,6}[FRB]\d{1,6}$/;

type Micro = Extract<Action, { readonly microBatch: number }>;
type Own = Span & { readonly action: Micro };

/** Spans of work that the plan gave to somebody else are left out. The first one starts at 0. */
export function aligned(plan: Plan, measured: ReadonlyMap<PeerId, readonly MeasuredSpan[]>): Timeline {
  const everyone = peers(plan).filter((peer) => measured.has(peer));
  const owners = new Map(
    plan.stages.flatMap(({ members }, stage) =>
      members.flatMap(({ peer, microBatches }) => microBatches.map((id) => [`${stage} ${id}`, peer] as const)),
    ),
  );
  const spans = new Map(everyone.map((peer) => [peer, spansOf(owners, peer, measured.get(peer) ?? [])]));
  const offsets = clockOffsets(spans);
  const moved = [...spans].flatMap(([peer, own]) => oneByOne(own).map((span) => shifted(span, offsets.get(peer) ?? 0)));
  const first = Math.min(...moved.map(({ startSeconds }) => startSeconds));
  const place = new Map(everyone.map((peer, index) => [peer, index]));
  return moved
    .map((span) => shifted(span, -first))
    .sort((a, b) => a.startSeconds - b.startSeconds || (place.get(a.peer) ?? 0) - (place.get(b.peer) ?? 0));
}

/** Work waits in the GPU's queue: a span begins when the one before it has ended, not when it was handed in. */
function oneByOne(spans: readonly Own[]): Span[] {
  let free = Number.NEGATIVE_INFINITY;
  return spans
    .toSorted((a, b) => a.endSeconds - b.endSeconds)
    .map((span) => {
      const startSeconds = Math.min(span.endSeconds, Math.max(span.startSeconds, free));
      free = span.endSeconds;
      return { ...span, startSeconds };
    });
}

const shifted = (span: Span, seconds: number): Span => ({
  ...span,
  startSeconds: span.startSeconds + seconds,
  endSeconds: span.endSeconds + seconds,
});

function spansOf(owners: ReadonlyMap<string, PeerId>, peer: PeerId, measured: readonly MeasuredSpan[]): Own[] {
  return measured.flatMap(({ action: text, start, end }) => {
    if (!WORK.test(text) || end < start) return [];
    const action = parseAction(text);
    if (!('microBatch' in action) || owners.get(`${action.stage} ${action.microBatch}`) !== peer) return [];
    return { peer, action, startSeconds: start, endSeconds: end };
  });
}

/** From each peer to each that it sent to or had something from: the least and the most that the other's clock is behind. */
type Bounds = Map<PeerId, Map<PeerId, [least: number, most: number]>>;

function bounds(spans: ReadonlyMap<PeerId, readonly Own[]>): Bounds {
  const found: Bounds = new Map();
  const between = (from: PeerId, to: PeerId): [number, number] => {
    const own = found.get(from) ?? new Map<PeerId, [number, number]>();
    found.set(from, own);
    const known = own.get(to) ?? [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
    own.set(to, known);
    return known;
  };
  const work = new Map([...spans.values()].flat().map((span) => [workOf(span.action), span]));
  for (const span of work.values()) {
    const { op, stage, microBatch } = span.action;
    if (op === 'R') continue;
    const source = work.get(workOf({ op, stage: stage + (op === 'F' ? -1 : 1), microBatch }));
    if (source === undefined || source.peer === span.peer) continue;
    // Moved by d this one starts at or after the source's end; the other way round the bound is from above.
    const difference = source.endSeconds - span.startSeconds;
    const there = between(source.peer, span.peer);
    there[0] = Math.max(there[0], difference);
    const back = between(span.peer, source.peer);
    back[1] = Math.min(back[1], -difference);
  }
  return found;
}

const workOf = ({ op, stage, microBatch }: Micro): string => `${stage}${op}${microBatch}`;

function clockOffsets(spans: ReadonlyMap<PeerId, readonly Own[]>): Map<PeerId, number> {
  const known = bounds(spans);
  const offsets = new Map<PeerId, number>();
  for (const start of spans.keys()) {
    if (offsets.has(start)) continue;
    offsets.set(start, -firstStart(spans.get(start) ?? []));
    const queue = [start];
    for (let peer = queue.shift(); peer !== undefined; peer = queue.shift()) {
      for (const [other, [least, most]] of known.get(peer) ?? []) {
        if (offsets.has(other)) continue;
        offsets.set(other, (offsets.get(peer) ?? 0) + middle(least, most));
        queue.push(other);
      }
    }
  }
  return offsets;
}

const firstStart = (spans: readonly Own[]): number => Math.min(...spans.map(({ startSeconds }) => startSeconds));

function middle(least: number, most: number): number {
  if (!Number.isFinite(least)) return most;
  return Number.isFinite(most) ? (least + most) / 2 : least;
}
