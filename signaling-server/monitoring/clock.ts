/**
 * The two clocks. Whatever lasts is measured by the one that only ever goes forward: the other one is set by people and
 * by the network, a day forward or a few seconds back, and is for what people read: when something happened.
 */

/** Whole milliseconds since this process began. */
export const monotonicMs = (): number => Math.round(performance.now());

/** Milliseconds since 1970, by the machine's clock. */
export const wallMs = (): number => Date.now();

/** By the timers that tests may replace, as those of `node:timers/promises` cannot be. */
export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
