/**
 * Cuts layers into the stages of a pipeline whose stages are unequal (Alpa's inter-operator pass, OSDI '22, with peers
 * already seated). m micro-batches take about
 *   Σ t_s + (m − 1) · max t_s
 * and its one idea is to fix the slowest stage first: among the cuts in which no stage takes longer than t, the least sum
 * is a shortest path over (stage, layers placed). Trying the possible t in ascending order, no later one can win once
 * (m − 1)·t alone and the least sum there is are worse than the best. Exact.
 */

/** Seconds that a stage takes for a micro-batch with so many layers; Infinity where they do not fit its peers. */
export type StageSeconds = (stage: number, layers: number) => number;

export interface LayerCut {
  /** Of each stage. */
  readonly layers: readonly number[];
  readonly seconds: number;
}

/** Null where no cut fits. Every stage has a layer. */
export function layerCut(stages: number, layers: number, microBatches: number, of: StageSeconds): LayerCut | null {
  const most = layers - stages + 1;
  if (most < 1) return null;
  const table = Array.from({ length: stages }, (_, stage) =>
    Float64Array.from({ length: most + 1 }, (_, count) => (count === 0 ? Number.POSITIVE_INFINITY : of(stage, count))),
  );
  const limits = [...new Set(table.flatMap((row) => [...row]))].filter(Number.isFinite).sort((a, b) => a - b);
  const loosest = limits.at(-1);
  if (loosest === undefined) return null;
  const leastSum = shortest(table, layers, loosest)?.sum;
  if (leastSum === undefined) return null;
  // Up to the least limit within which there is a cut at all, by bisection.
  let [low, high] = [0, limits.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (shortest(table, layers, limits[middle] ?? 0)) high = middle;
    else low = middle + 1;
  }
  let best: LayerCut | null = null;
  for (const limit of limits.slice(low)) {
    if (best !== null && leastSum + (microBatches - 1) * limit >= best.seconds) break;
    const found = shortest(table, layers, limit);
    if (!found) continue;
    const slowest = Math.max(...found.cut.map((count, stage) => table[stage]?.[count] ?? 0));
    const seconds = found.sum + (microBatches - 1) * slowest;
    if (best === null || seconds < best.seconds) best = { layers: found.cut, seconds };
  }
  return best;
}

/** The cut of the least sum in which no stage takes longer than `limit`. */
function shortest(table: readonly Float64Array[], layers: number, limit: number) {
  const most = (table[0]?.length ?? 1) - 1;
  let sums = new Float64Array(layers + 1).fill(Number.POSITIVE_INFINITY);
  sums[0] = 0;
  const choices: Int32Array[] = [];
  for (const row of table) {
    const next = new Float64Array(layers + 1).fill(Number.POSITIVE_INFINITY);
    const choice = new Int32Array(layers + 1);
    for (let placed = 0; placed <= layers; placed++) {
      const before = sums[placed] ?? 0;
      if (before === Number.POSITIVE_INFINITY) continue;
      for (let count = 1; count <= most && placed + count <= layers; count++) {
        const seconds = row[count] ?? 0;
        if (seconds > limit || before + seconds >= (next[placed + count] ?? 0)) continue;
        next[placed + count] = before + seconds;
        choice[placed + count] = count;
      }
    }
    sums = next;
    choices.push(choice);
  }
  const sum = sums[layers] ?? Number.POSITIVE_INFINITY;
  if (sum === Number.POSITIVE_INFINITY) return null;
  const cut: number[] = [];
  for (let placed = layers, stage = table.length - 1; stage >= 0; stage--) {
    const count = choices[stage]?.[placed] ?? 0;
    cut.unshift(count);
    placed -= count;
  }
  return { cut, sum };
}
