/**
 * Whether a worker that failed is started again, and when. Pure. Chromium forgives one crash of its GPU process, then
 * gives this page no adapter for two minutes, then none until the browser is restarted: so a lost device is tried for a
 * little more than two minutes, while a fault of the page itself gets three tries.
 */

/** Failures that followed each other too closely to count as separate. */
export interface Trouble {
  readonly sinceMs: number;
  readonly lastMs: number;
  readonly count: number;
}

const CALM_MS = 60_000;
const DEVICE_LIMIT_MS = 130_000;
const DEVICE_FIRST_PAUSE_MS = 300;
const DEVICE_PAUSE_MS = 5_000;
const INTERNAL_TRIES = 3;
const INTERNAL_FIRST_PAUSE_MS = 500;

/** `hasComputed`: since the failure before; then a lost device is tried for its two minutes anew. */
export function nextTrouble(before: Trouble | null, nowMs: number, hasComputed: boolean): Trouble {
  if (!before || nowMs - before.lastMs > CALM_MS) return { sinceMs: nowMs, lastMs: nowMs, count: 1 };
  return { sinceMs: hasComputed ? nowMs : before.sinceMs, lastMs: nowMs, count: before.count + 1 };
}

/** The pause before the next try; null where trying has no sense any more. */
export function restartPauseMs({ sinceMs, lastMs, count }: Trouble, reason: 'deviceLost' | 'internal'): number | null {
  if (reason === 'internal') return count > INTERNAL_TRIES ? null : INTERNAL_FIRST_PAUSE_MS * 4 ** (count - 1);
  if (lastMs - sinceMs > DEVICE_LIMIT_MS) return null;
  return count === 1 ? DEVICE_FIRST_PAUSE_MS : DEVICE_PAUSE_MS;
}
