/**
 * Layered accumulation (Cephalo, ICS '25): all micro-batches of a pass go through one block before the next one comes, so that
 * a step gathers each block twice and sends its gradient once, however many micro-batches a member carries. All of them are in
 * flight at once then, as under gpipe. A stage before others would hand on nothing until its last layer, so it is for a plan
 * of one stage.
 */

/** What of a plan says so. */
interface Layered {
  readonly stages: readonly { readonly layered?: true; readonly gathered?: unknown }[];
  readonly schedule: string;
}

/** The passes of a member through its stage, each the micro-batches that a block is there for; ascending. */
export function passesOf(
  { layered }: { readonly layered?: true },
  { microBatches }: { readonly microBatches: readonly number[] },
): number[][] {
  const ascending = microBatches.toSorted((a, b) => a - b);
  return layered ? [ascending] : ascending.map((id) => [id]);
}

/** Why a plan cannot be layered as it says, in words, or null. */
export function layeredProblem({ stages, schedule }: Layered): string | null {
  const index = stages.findIndex(({ layered }) => layered);
  if (index < 0) return null;
  const place = `stage ${index} is layered`;
  if (stages[index]?.gathered === undefined) return `${place}, but gathers nothing`;
  if (stages.length > 1) return `${place}, which is for a plan of one stage`;
  return schedule === 'gpipe' ? null : `${place}, which goes with schedule gpipe, not with ${schedule}`;
}
