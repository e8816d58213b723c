/**
 * Ctrl-C and its kin. The first signal asks for an orderly end; one that comes a moment later is the same one (a shell
 * and npm both pass it on); a later one means it: the process ends at once. A command that was to come to an end and did
 * not has failed, exit code 1, whoever ended it; a server was to serve until then.
 *
 * npm passes SIGTERM to the shell that it runs a script in, and to nothing else: dash dies of it and leaves this process
 * behind. So the end of that shell counts as a signal.
 */
import { monotonicMs } from '../monitoring/clock.ts';

const SAME_SIGNAL_MS = 1_000;
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

const PARENT_POLL_MS = 250;
const PARENT_PID = process.ppid;
/** Whether the parent is that shell. Any other may end before its child, as one that starts a server in the background. */
const isParentOfNpm = /^node setup\.mjs( |$)/.test(process.env.npm_lifecycle_script ?? '');

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
  const watch = isParentOfNpm
    ? setInterval(() => {
        if (process.ppid !== PARENT_PID) controller.abort();
      }, PARENT_POLL_MS).unref()
    : undefined;
  return {
    signal: controller.signal,
    release: () => {
      clearInterval(watch);
      for (const name of SIGNALS) process.off(name, handle);
    },
  };
}

/** Resolves when the signal is aborted. */
export function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
