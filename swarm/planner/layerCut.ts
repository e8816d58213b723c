/**
 * Cuts layers into the stages of a pipeline whose stages are unequal (Alpa's inter-operator pass, OSDI '22, with peers
 * already seated). A micro-batch takes `through` at a stage, and the stage `rest` more until it has done all of them, so
 * that a step takes about
 *   Σ through_s + max rest_s        (m equal micro-batches at one peer a stage: Σ t_s + (m − 1) · max t_s)
 * and its one idea is to fix the slowest stage first: among the cuts in which no stage has more rest than a limit, the
 * least sum is a shortest path over (stage, layers placed). Trying the possible limits in ascending order, no later one
 * can win once the limit alone and the least sum there is are worse than the best. Exact.
 */

/**
 * Seconds of stage s with k layers at s · (most + 1) + k, where most = layers − stages + 1; they grow with k. Infinity
 * where the layers do not fit the stage's peers.
 */
export interface StageTimes {
  readonly through: Float64Array;
  readonly rest: Float64Array;
}

export interface LayerCut {
  /** Of each stage. */
  readonly layers: readonly number[];
  readonly seconds: number;
}

/** Of some stages and layers, with nothing in it. */
export function emptyTimes(stages: number, layers: number): StageTimes {
  const length = stages * Math.max(0, layers - stages + 2);
  const forever = () => new Float64Array(length).fill(Number.POSITIVE_INFINITY);
  return { through: forever(), rest: forever() };
}

/** Null where no cut fits. Every stage has a layer. `leastRest` is there whatever the cut, a link's for example. */
export function layerCut(stages: number, layers: number, times: StageTimes, leastRest = 0): LayerCut | null {
  const most = layers - stages + 1;
  if (most < 1) return null;
  const limits = limitsOf(times.rest, leastRest);
  const loosest = limits.at(-1);
  if (loosest === undefined || mostWithin(times.rest, stages, most, loosest) < layers) return null;
  // Up to the least limit within which there is a cut at all, by bisection.
  let [low, high] = [0, limits.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (mostWithin(times.rest, stages, most, limits[middle] ?? 0) >= layers) high = middle;
    else low = middle + 1;
  }
  const leastSum = shortest(stages, layers, times, loosest).sum;
  let best: LayerCut | null = null;
  for (let index = low; index < limits.length; index++) {
    const limit = limits[index] ?? 0;
    if (best !== null && leastSum + limit >= best.seconds) break;
    if (index > low && limit === limits[index - 1]) continue;
    const { sum, cut } = shortest(stages, layers, times, limit);
    let rest = leastRest;
    for (let stage = 0; stage < stages; stage++)
      rest = Math.max(rest, times.rest[stage * (most + 1) + (cut[stage] ?? 0)] ?? 0);
    if (best === null || sum + rest < best.seconds) best = { layers: cut, seconds: sum + rest };
  }
  return best;
}

/** What the slowest stage's rest may be, ascending. */
function limitsOf(rest: Float64Array, leastRest: number): Float64Array {
  const limits = new Float64Array(rest.length);
  let count = 0;
  for (const seconds of rest) if (seconds !== Number.POSITIVE_INFINITY) limits[count++] = Math.max(seconds, leastRest);
  return limits.subarray(0, count).sort();
}

/** Layers that all stages together hold within a limit; 0 where one of them holds none. */
function mostWithin(rest: Float64Array, stages: number, most: number, limit: number): number {
  let sum = 0;
  for (let stage = 0; stage < stages; stage++) {
    const row = stage * (most + 1);
    let [low, high] = [0, most];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((rest[row + middle] ?? 0) <= limit) low = middle;
      else high = middle - 1;
    }
    if (low === 0) return 0;
    sum += low;
  }
  return sum;
}

/** The cut of the least sum in which no stage has more rest than `limit`. There is one. */
function shortest(stages: number, layers: number, { through, rest }: StageTimes, limit: number) {
  const most = layers - stages + 1;
  const width = layers + 1;
  const sums = new Float64Array((stages + 1) * width).fill(Number.POSITIVE_INFINITY);
  const choices = new Int32Array(stages * width);
  sums[0] = 0;
  for (let stage = 0; stage < stages; stage++) {
    const [row, here, next] = [stage * (most + 1), stage * width, (stage + 1) * width];
    // Every stage before and after has a layer at least.
    const end = layers - (stages - 1 - stage);
    for (let placed = stage; placed < end; placed++) {
      const before = sums[here + placed] ?? 0;
      if (before === Number.POSITIVE_INFINITY) continue;
      for (let count = 1; placed + count <= end; count++) {
        if ((rest[row + count] ?? 0) > limit) break;
        const sum = before + (through[row + count] ?? 0);
        if (sum >= (sums[next + placed + count] ?? 0)) continue;
        sums[next + placed + count] = sum;
        choices[here + placed + count] = count;
      }
    }
  }
  const cut: number[] = [];
  for (let placed = layers, stage = stages - 1; stage >= 0; stage--) {
    const count = choices[stage * width + placed] ?? 0;
    cut.push(count);
    placed -= count;
  }
  return { cut: cut.reverse(), sum: sums[stages * width + layers] ?? 0 };
}
