/**
 * The two clocks of a page. Whatever lasts is measured by the one that only ever goes forward; the other one is set by
 * people and by the network, and is for what people read, and for days and hours.
 */

/** Milliseconds since this page was opened. */
export const monotonicMs = (): number => performance.now();

/** Milliseconds since 1970, by the machine's clock. */
export const wallMs = (): number => Date.now();

/** One moment, by both clocks. */
export interface Moment {
  readonly wallMs: number;
  readonly monotonicMs: number;
}

export const thisMoment = (): Moment => ({ wallMs: wallMs(), monotonicMs: monotonicMs() });
