import { expect, it } from 'vitest';
import { type Random, seededRandom } from '../base.ts';
import { emptyTimes, layerCut, type StageTimes } from './layerCut.ts';

type StageSeconds = (stage: number, layers: number) => number;

/** As many micro-batches as there are, one peer a stage. */
function equal(stages: number, layers: number, microBatches: number, of: StageSeconds): StageTimes {
  const times = emptyTimes(stages, layers);
  const most = layers - stages + 1;
  for (let stage = 0; stage < stages; stage++)
    for (let count = 1; count <= most; count++) {
      const through = of(stage, count);
      times.through[stage * (most + 1) + count] = through;
      times.rest[stage * (most + 1) + count] =
        through === Number.POSITIVE_INFINITY ? through : (microBatches - 1) * through;
    }
  return times;
}

/** Every cut, by its own words. */
function bruteForce(stages: number, layers: number, microBatches: number, of: StageSeconds): number {
  const cuts = (stage: number, left: number): number[][] => {
    if (stage === stages - 1) return [[left]];
    return Array.from({ length: left - (stages - 1 - stage) }, (_, index) => index + 1).flatMap((count) =>
      cuts(stage + 1, left - count).map((rest) => [count, ...rest]),
    );
  };
  const seconds = cuts(0, layers).map((cut) => {
    const each = cut.map((count, stage) => of(stage, count));
    if (each.includes(Number.POSITIVE_INFINITY)) return Number.POSITIVE_INFINITY;
    return each.reduce((sum, one) => sum + one, 0) + (microBatches - 1) * Math.max(...each);
  });
  return Math.min(...seconds);
}

function randomSeconds(random: Random, stages: number): StageSeconds {
  const speeds = Array.from({ length: stages }, () => 0.1 + random());
  const rooms = Array.from({ length: stages }, () => (random() < 0.4 ? 1 + Math.floor(4 * random()) : 8));
  const extra = Array.from({ length: stages }, () => random());
  return (stage, layers) =>
    layers > (rooms[stage] ?? 0) ? Number.POSITIVE_INFINITY : (speeds[stage] ?? 1) * layers + (extra[stage] ?? 0);
}

it('[CL6] the cut of up to 8 layers over up to 6 unequal stages is the best there is', () => {
  for (let seed = 1; seed <= 400; seed++) {
    const random = seededRandom(seed);
    const stages = 1 + Math.floor(6 * random());
    const layers = stages + Math.floor((9 - stages) * random());
    const microBatches = 1 + Math.floor(12 * random());
    const of = randomSeconds(random, stages);
    const best = bruteForce(stages, layers, microBatches, of);
    const found = layerCut(stages, layers, equal(stages, layers, microBatches, of));
    expect(found === null, `seed ${seed}`).toBe(best === Number.POSITIVE_INFINITY);
    if (found) expect(found.seconds / best, `seed ${seed}`).toBeCloseTo(1, 9);
    if (found) expect(found.layers.reduce((sum, count) => sum + count, 0)).toBe(layers);
  }
});

it('[CL6] there is no cut of fewer layers than stages, nor of layers that fit nowhere', () => {
  const cut = (stages: number, layers: number, seconds: number) =>
    layerCut(
      stages,
      layers,
      equal(stages, layers, 1, () => seconds),
    );
  expect(cut(3, 2, 1)).toBeNull();
  expect(cut(2, 4, Number.POSITIVE_INFINITY)).toBeNull();
  expect(cut(2, 4, 1)?.seconds).toBe(2);
});
