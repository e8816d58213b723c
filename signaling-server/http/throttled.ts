/** Work that many ask for, done for all of them at once. */

/** Runs `work` soon after a request, at most once in `intervalMs`. */
export function throttled(intervalMs: number, work: () => void): { request(): void; cancel(): void } {
  let timer: NodeJS.Timeout | undefined;
  let lastMs = Number.NEGATIVE_INFINITY;
  const request = (): void => {
    if (timer !== undefined) return;
    timer = setTimeout(
      () => {
        timer = undefined;
        lastMs = Date.now();
        work();
      },
      Math.max(0, lastMs + intervalMs - Date.now()),
    );
  };
  return { request, cancel: () => clearTimeout(timer) };
}
