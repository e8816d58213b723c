/**
 * Whether this tab was loaded anew while it donated. A mark in the tab's own storage is left when the page goes and
 * taken when it comes; it counts only where the browser says that this was a reload or the way back. A tab that is
 * copied, restored or opened anew takes nothing over: that is another visit.
 */

const MARK = 'shoal.donating';
/** Who comes back later has been elsewhere. */
const FRESH_MS = 2 * 60_000;

/** Null: it does not donate. */
export function markDonating(atMs: number | null): void {
  try {
    if (atMs === null) sessionStorage.removeItem(MARK);
    else sessionStorage.setItem(MARK, String(atMs));
  } catch {
    // A browser that keeps nothing: a reload is a new visit then.
  }
}

/**
 * Until when this tab donated before it was loaded, and whether that goes on now; null: it did not. Only the wall clock
 * spans a reload, and it may have been set meanwhile. A small step either way does no harm; after a large one, back or
 * forward, nobody can tell how long ago that was, and the person is asked again.
 */
export function lastDonation(nowMs: number): { readonly untilMs: number; readonly goesOn: boolean } | null {
  try {
    const mark = sessionStorage.getItem(MARK);
    sessionStorage.removeItem(MARK);
    if (mark === null) return null;
    const markedMs = Number(mark);
    const [entry] = performance.getEntriesByType('navigation');
    const type = entry instanceof PerformanceNavigationTiming ? entry.type : 'navigate';
    const isSameVisit = type === 'reload' || type === 'back_forward';
    return { untilMs: Math.min(markedMs, nowMs), goesOn: isSameVisit && Math.abs(nowMs - markedMs) < FRESH_MS };
  } catch {
    return null;
  }
}
