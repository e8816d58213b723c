/** How long a run has not moved, as far as a page can see: while nothing comes of it no time passes. Pure. */
export interface Stillness {
  /** What would be another one if it moved. */
  readonly key: string;
  readonly isSeen: boolean;
  readonly sinceMs: number;
  /** When it was seen last. */
  readonly seenMs: number;
}

export const stillMs = ({ sinceMs, seenMs }: Stillness): number => seenMs - sinceMs;

export function stillnessAt(known: Stillness | null, key: string, isSeen: boolean, nowMs: number): Stillness {
  if (known !== null && !isSeen) return { ...known, isSeen };
  if (known?.key !== key) return { key, isSeen, sinceMs: nowMs, seenMs: nowMs };
  // Out of sight it stood no less, but that time does not count.
  const unseenMs = known.isSeen ? 0 : nowMs - known.seenMs;
  return { key, isSeen, sinceMs: known.sinceMs + unseenMs, seenMs: nowMs };
}
