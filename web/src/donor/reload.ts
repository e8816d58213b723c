/**
 * Whether this tab was loaded anew while it donated, or rested by its person's wish. A mark in the tab's own storage is
 * left when the page goes and taken when it comes; it counts only where the browser says that this was a reload or the way
 * back. A tab that is copied, restored or opened anew takes nothing over: that is another visit.
 */
import { z } from 'zod';
import type { DonorState, Rest } from './state.ts';

const MARK = 'shoal.donating';
/** Who comes back later has been elsewhere. */
const FRESH_MS = 2 * 60_000;

const markSchema = z.object({
  atMs: z.number(),
  /** How far the run was then: one that has less afterwards went back meanwhile. */
  seen: z.object({ run: z.string(), committedSteps: z.number() }).nullable(),
  rest: z
    .discriminatedUnion('kind', [
      z.object({ kind: z.literal('button') }),
      z.object({ kind: z.literal('snooze'), untilMs: z.number() }),
    ])
    .nullable(),
});
type Mark = z.infer<typeof markSchema>;

/** Null: it does not donate. */
export function markDonating(mark: Readonly<Mark> | null): void {
  try {
    if (mark === null) sessionStorage.removeItem(MARK);
    else sessionStorage.setItem(MARK, JSON.stringify(mark));
  } catch {
    // A browser that keeps nothing: a reload is a new visit then.
  }
}

/** Until when this tab donated before it was loaded, and whether that goes on now; `rest`: it rested. */
interface LastDonation {
  readonly untilMs: number;
  readonly goesOn: boolean;
  readonly rest: Rest | null;
  readonly seen: DonorState['seen'];
}

/**
 * Null: it did not. Only the wall clock spans a reload, and it may have been set meanwhile. A small step either way does
 * no harm; after a large one, back or forward, nobody can tell how long ago that was, and the person is asked again.
 */
export function lastDonation(nowMs: number): LastDonation | null {
  try {
    const mark = sessionStorage.getItem(MARK);
    sessionStorage.removeItem(MARK);
    if (mark === null) return null;
    const { atMs, rest, seen } = markSchema.parse(JSON.parse(mark));
    const [entry] = performance.getEntriesByType('navigation');
    const type = entry instanceof PerformanceNavigationTiming ? entry.type : 'navigate';
    const isSameVisit = type === 'reload' || type === 'back_forward';
    return { untilMs: Math.min(atMs, nowMs), goesOn: isSameVisit && Math.abs(nowMs - atMs) < FRESH_MS, rest, seen };
  } catch {
    return null;
  }
}
