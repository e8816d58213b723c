import { expect, it } from 'vitest';
import { type Random, seededRandom } from '../base.ts';
import { layerCut, type StageSeconds } from './layerCut.ts';

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
    const found = layerCut(stages, layers, microBatches, of);
    expect(found === null, `seed ${seed}`).toBe(best === Number.POSITIVE_INFINITY);
    if (found) expect(found.seconds / best, `seed ${seed}`).toBeCloseTo(1, 9);
    if (found) expect(found.layers.reduce((sum, count) => sum + count, 0)).toBe(layers);
  }
});

it('[CL6] there is no cut of fewer layers than stages, nor of layers that fit nowhere', () => {
  expect(layerCut(3, 2, 1, () => 1)).toBeNull();
  expect(layerCut(2, 4, 1, () => Number.POSITIVE_INFINITY)).toBeNull();
});
