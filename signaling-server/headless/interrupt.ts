/**
 * Ctrl-C and its kin. The first signal asks for an orderly end; one that comes a moment later is the same one (a shell
 * and npm both pass it on); a later one means it: the process ends at once. A command that was to come to an end and did
 * not has failed, exit code 1, whoever ended it; a server was to serve until then.
 */
import { monotonicMs } from '../monitoring/clock.ts';

const SAME_SIGNAL_MS = 1_000;
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

export interface Interrupt {
  /** Aborted by the first signal. */
  readonly signal: AbortSignal;
  /** Signals mean what they mean to any process again. */
  release(): void;
}

export function onInterrupt(): Interrupt {
  const controller = new AbortController();
  let firstMs = 0;
  const handle = (): void => {
    const nowMs = monotonicMs();
    if (!controller.signal.aborted) {
      firstMs = nowMs;
      controller.abort();
    } else if (nowMs - firstMs > SAME_SIGNAL_MS) {
      process.exit(1);
    }
  };
  for (const name of SIGNALS) process.on(name, handle);
  return {
    signal: controller.signal,
    release: () => {
      for (const name of SIGNALS) process.off(name, handle);
    },
  };
}

/** Resolves when the signal is aborted. */
export function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
