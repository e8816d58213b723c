/** Work that many ask for, done again only where what it was done with has changed. */
import { monotonicMs } from '../monitoring/clock.ts';

/** What is worked out of many rows may be so old for each of them: a tenth of the time is spent on it, however many there are. */
const ROW_MS = 0.2;
const FEW_ROWS = 100;

/** `rows`: of how many the value was worked out, where they grow with everyone who ever came. */
export function keptWhile<T>(version: () => unknown, work: () => T, rows: (value: T) => number = () => 0): () => T {
  let kept: { readonly of: unknown; readonly untilMs: number; readonly value: T } | null = null;
  return () => {
    const nowMs = monotonicMs();
    if (kept !== null && nowMs < kept.untilMs) return kept.value;
    const now = version();
    if (kept !== null && kept.of === now) return kept.value;
    const value = work();
    const count = rows(value);
    kept = { of: now, untilMs: count > FEW_ROWS ? nowMs + ROW_MS * count : nowMs, value };
    return value;
  };
}
