/**
 * Judges a timeline, predicted or measured: no peer does two things at once, nothing starts before what it needs has
 * ended. It knows nothing of how the timeline was made, so it judges the simulator too. See SPEC.md, SC4.
 */
import { type PeerId, pushToKey } from '../base.ts';
import type { Model } from '../model/model.ts';
import type { Plan, Problem } from '../plan/plan.ts';
import { formatAction, isTransfer, type Schedule, workKey } from '../schedule/action.ts';
import { type GridMark, grid } from '../schedule/grid.ts';
import { before, wiring } from '../schedule/order.ts';
import type { Span, Timeline } from '../timeline/timeline.ts';

/** What begins earlier by less is on time: sums in another order differ. */
const SLACK_SECONDS = 1e-9;

export function timelineProblems(model: Pick<Model, 'tied'>, plan: Plan, timeline: Timeline): Problem[] {
  const own = new Map<PeerId, Span[]>();
  for (const span of timeline) pushToKey(own, span.peer, span);
  for (const spans of own.values()) spans.sort((a, b) => a.startSeconds - b.startSeconds);
  const schedule: Schedule = new Map([...own].map(([peer, spans]) => [peer, spans.map(({ action }) => action)]));
  const early = tooEarly(model, plan, timeline, schedule);
  const marks = [...own].flatMap(([peer, spans]): [PeerId, GridMark][] => {
    const mark = conflict(spans) ?? firstOf(spans, early);
    return mark ? [[peer, mark]] : [];
  });
  return marks.length === 0 ? [] : [{ rule: 'SC4', text: `this cannot be:\n${grid(schedule, new Map(marks))}` }];
}

/** The first of a peer's spans, by start, that begins while another is going on. */
function conflict(spans: readonly Span[]): GridMark | null {
  let last: Span | null = null;
  for (const [index, span] of spans.entries()) {
    if (isTransfer(span.action)) continue;
    if (last && span.startSeconds < last.endSeconds - SLACK_SECONDS)
      return {
        index,
        note: `starts at ${span.startSeconds} s, but ${formatAction(last.action)} ends at ${last.endSeconds} s`,
      };
    last = span;
  }
  return null;
}

/** Work that starts before its needs have ended, and why that is too early. */
function tooEarly(model: Pick<Model, 'tied'>, plan: Plan, timeline: Timeline, schedule: Schedule): Map<string, string> {
  const wires = wiring(model, plan, schedule);
  const ends = new Map(timeline.map((span) => [workKey(span), span.endSeconds]));
  const found = new Map<string, string>();
  for (const span of timeline) {
    // A receive is awaited from the moment its peer comes to it: what counts is when it ends.
    const since = span.action.op.startsWith('RECV') ? span.endSeconds : span.startSeconds;
    for (const need of before(span, wires)) {
      const end = ends.get(workKey(need));
      const name = `${formatAction(need.action)} of ${need.peer}`;
      if (end === undefined) found.set(workKey(span), `needs ${name}, which is nowhere`);
      else if (since < end - SLACK_SECONDS)
        found.set(workKey(span), `starts at ${since} s, but ${name} ends at ${end} s`);
    }
  }
  return found;
}

function firstOf(spans: readonly Span[], early: ReadonlyMap<string, string>): GridMark | null {
  const index = spans.findIndex((span) => early.has(workKey(span)));
  const span = spans[index];
  return span ? { index, note: early.get(workKey(span)) ?? '' } : null;
}
