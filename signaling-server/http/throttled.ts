/** Work that many ask for, done for all of them at once. */
import { monotonicMs } from '../monitoring/clock.ts';

/** Runs `work` soon after a request, at most once in `intervalMs`. */
export function throttled(intervalMs: number, work: () => void): { request(): void; cancel(): void } {
  let timer: NodeJS.Timeout | undefined;
  let lastMs = Number.NEGATIVE_INFINITY;
  const request = (): void => {
    if (timer !== undefined) return;
    timer = setTimeout(
      () => {
        timer = undefined;
        lastMs = monotonicMs();
        work();
      },
      Math.max(0, lastMs + intervalMs - monotonicMs()),
    );
  };
  return { request, cancel: () => clearTimeout(timer) };
}
