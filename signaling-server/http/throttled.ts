/** Work that many ask for, done for all of them at once. */
import { monotonicMs } from '../monitoring/clock.ts';

/**
 * Runs `work` soon after a request, at most once in `intervalMs`, or for as long after it as `work` itself says. After
 * `close` never again: what is closed next may still ask for it.
 */
export function throttled(intervalMs: number, work: () => unknown): { request(): void; close(): void } {
  let timer: NodeJS.Timeout | undefined;
  let dueMs = -Infinity;
  let isClosed = false;
  const request = (): void => {
    if (isClosed || timer !== undefined) return;
    timer = setTimeout(
      () => {
        timer = undefined;
        const startedMs = monotonicMs();
        dueMs = startedMs + intervalMs; // also where it throws
        const pauseMs = work();
        if (typeof pauseMs === 'number') dueMs = Math.max(dueMs, startedMs + pauseMs);
      },
      Math.max(0, dueMs - monotonicMs()),
    );
  };
  const close = (): void => {
    isClosed = true;
    clearTimeout(timer);
  };
  return { request, close };
}
