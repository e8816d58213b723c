/**
 * How long a layer's forward and backward take, without what waiting for them takes: the time of an empty wait is taken
 * off, and there is one wait for as many passes as make it small. A backward follows its forward, so n of each are timed
 * as forwards alone, f·n, and as one backward with pairs behind it, b·n + f·(n − 1).
 */
import type { EmptyWait } from '../../../shaders/kernel/queueWait.ts';

/** A device that needs longer for both is measured twice: a driver may compile at the first run of a text. */
export const PATIENCE_SECONDS = 0.5;
/** The least of a few runs; of more of them, up to so many, while all together are short: the first ones are slow. */
const TIMED_RUNS = 3;
const MOST_TIMED_RUNS = 16;
const ENOUGH_SECONDS = 0.15;
/** A run is so many times as long as an empty wait, */
const WAITS_IN_A_RUN = 20;
/** at least so long, as browsers round their clocks, */
const LEAST_RUN_SECONDS = 0.005;
/** but of no more passes. */
const MOST_PASSES = 64;
/** The first runs, compilations of a driver among them, say how many passes; a later one no more. */
const TRIED_RUNS = 4;

interface TimedLayer {
  readonly forward: () => void;
  /** Of the newest forward. */
  readonly backward: () => void;
  readonly settled: () => Promise<void>;
}

interface LayerTime {
  readonly forwardSeconds: number;
  readonly backwardSeconds: number;
}

/** `now`: seconds. */
export async function timePasses(
  { forward, backward, settled }: TimedLayer,
  { leastSeconds, medianSeconds }: EmptyWait,
  now: () => number,
): Promise<LayerTime> {
  const worthSeconds = Math.max(LEAST_RUN_SECONDS, WAITS_IN_A_RUN * medianSeconds);
  const timed = async (work: () => void): Promise<number> => {
    const begun = now();
    work();
    await settled();
    return Math.max(now() - begun - leastSeconds, 0);
  };
  let [forwards, backwards] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  let passes = 1;
  const begun = now();
  for (let run = 0; run < MOST_TIMED_RUNS; run++) {
    const isTimed = run >= TIMED_RUNS && Number.isFinite(forwards);
    if (isTimed && now() - begun > ENOUGH_SECONDS) break;
    const alone = await timed(() => repeat(passes, forward));
    const paired = await timed(() => {
      backward();
      repeat(passes - 1, forward, backward);
    });
    // As often as it takes, had the clock not moved at all.
    const wanted = Math.ceil(worthSeconds / Math.max((alone + paired) / passes, worthSeconds / MOST_PASSES));
    if (run < TRIED_RUNS && wanted > 2 * passes) {
      passes = wanted;
      [forwards, backwards] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
      continue;
    }
    forwards = Math.min(forwards, alone);
    backwards = Math.min(backwards, paired);
    if (run > 0 && forwards + backwards > PATIENCE_SECONDS) break;
  }
  const forwardSeconds = forwards / passes;
  return { forwardSeconds, backwardSeconds: Math.max(0, backwards - (passes - 1) * forwardSeconds) / passes };
}

function repeat(times: number, ...works: readonly (() => void)[]): void {
  for (let time = 0; time < times; time++) for (const work of works) work();
}
