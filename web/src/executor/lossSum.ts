/** The loss of a micro-batch, of the rows that count; null: it is not finite. */
export function lossSum(
  microBatch: number,
  rows: Float32Array,
  isCounted: (microBatch: number, row: number) => boolean,
): { microBatch: number; lossSum: number | null } {
  let total = 0;
  for (const [row, loss] of rows.entries()) if (isCounted(microBatch, row)) total += loss;
  return { microBatch, lossSum: Number.isFinite(total) ? total : null };
}
