/**
 * Whether this tab was loaded anew while it donated. The one idea: a mark in the tab's own storage, left when the page
 * goes and taken when it comes, that counts only where the browser says that this was a reload or the way back. A tab
 * that is copied, restored or opened anew takes nothing over: that is another visit.
 */

const MARK = 'shoal.donating';
const FRESH_MS = 10 * 60_000;

/** Null: it does not donate. */
export function markDonating(atMs: number | null): void {
  try {
    if (atMs === null) sessionStorage.removeItem(MARK);
    else sessionStorage.setItem(MARK, String(atMs));
  } catch {
    // A browser that keeps nothing: a reload is a new visit then.
  }
}

export function wasDonating(nowMs: number): boolean {
  try {
    const marked = Number(sessionStorage.getItem(MARK) ?? Number.NaN);
    sessionStorage.removeItem(MARK);
    const [entry] = performance.getEntriesByType('navigation');
    const type = entry instanceof PerformanceNavigationTiming ? entry.type : 'navigate';
    return (type === 'reload' || type === 'back_forward') && nowMs - marked < FRESH_MS;
  } catch {
    return false;
  }
}
