/**
 * Messages between peers: from one to another one at a time, first produced first sent. n bytes hold the direction for
 * n/rate seconds and arrive a latency later; the two directions are apart. See SPEC.md, SI3.
 */

export interface LinkCost {
  /** One way. */
  readonly latencySeconds: number;
  /** Null: unlimited. */
  readonly bytesPerSecond: number | null;
  /** Place in the costs' list of the line that its messages share with others'. */
  readonly line?: number;
}

/** A link as problem and cluster files say it. */
interface LinkLimits extends LinkCost {
  /** What one stream has on its way at most. Null: unlimited. */
  readonly windowBytes: number | null;
  /** Connections side by side, each with a window of its own. */
  readonly streams: number;
}

/** A window comes back after a round trip: min(bytesPerSecond, streams · windowBytes / (2 · latency)). */
export function linkRate({ latencySeconds, bytesPerSecond, windowBytes, streams }: LinkLimits): number | null {
  if (windowBytes === null || latencySeconds === 0) return bytesPerSecond;
  const windowed = (streams * windowBytes) / (2 * latencySeconds);
  return bytesPerSecond === null ? windowed : Math.min(bytesPerSecond, windowed);
}
