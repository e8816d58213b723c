/** The learning rate of a step: a pure function of the run's `train`, so that every peer knows it without being told. */
import type { Train } from './runFile.ts';

type Rates = Pick<Train, 'optimizer' | 'schedule'>;

export function learningRate({ optimizer, schedule }: Rates, step: number): number {
  const peak = optimizer.learningRate;
  const warmup = schedule.warmupSteps;
  if (step < warmup) return (peak * (step + 1)) / (warmup + 1);
  return schedule.type === 'constant' ? peak : fallen(peak, schedule.minRatio, step, [warmup, schedule.decaySteps]);
}

/** The least share of a budget that a rate rises from: the first step is given out at 0. */
const LEAST_SHARE = 0.001;

/** Of a step that is given out when this share of the run's time is used. */
export function budgetRate({ optimizer, schedule }: Rates, share: number): number {
  const peak = optimizer.learningRate;
  const { warmup = 0 } = schedule;
  if (share < warmup) return (peak * Math.max(share, LEAST_SHARE)) / warmup;
  return schedule.type === 'constant' ? peak : fallen(peak, schedule.minRatio, share, [warmup, schedule.decay ?? 1]);
}

/** Along a cosine from the peak at `from` to the lowest rate at `to`, and from there on. */
function fallen(peak: number, minRatio: number, at: number, [from, to]: readonly [number, number]): number {
  const low = peak * minRatio;
  if (at > to) return low;
  // Where both ends are one, the fall below would be 0 / 0 there, which is the peak.
  if (to === from) return peak;
  const done = (at - from) / (to - from);
  return low + 0.5 * (1 + Math.cos(Math.PI * done)) * (peak - low);
}
