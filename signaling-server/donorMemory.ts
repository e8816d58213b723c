/** GPU bytes of a donor: what its plans predicted, and what it reported. */
export interface DonorMemory {
  readonly predictedBytes: number;
  readonly peakBytes: number;
}

/** The most of either, over all its plans. */
export const mostMemory = (before: DonorMemory | undefined, now: DonorMemory): DonorMemory => ({
  predictedBytes: Math.max(before?.predictedBytes ?? 0, now.predictedBytes),
  peakBytes: Math.max(before?.peakBytes ?? 0, now.peakBytes),
});
