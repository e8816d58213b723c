/** The learning rate of a step: a pure function of the run's `train`, so that every peer knows it without being told. */
import type { Train } from './runFile.ts';

export function learningRate({ optimizer, schedule }: Pick<Train, 'optimizer' | 'schedule'>, step: number): number {
  const peak = optimizer.learningRate;
  const warmup = schedule.warmupSteps;
  if (step < warmup) return (peak * (step + 1)) / (warmup + 1);
  if (schedule.type === 'constant') return peak;
  const low = peak * schedule.minRatio;
  if (step > schedule.decaySteps) return low;
  const decaying = schedule.decaySteps - warmup;
  // A cosine of no steps has the peak at its one step.
  const done = decaying === 0 ? 0 : (step - warmup) / decaying;
  return low + 0.5 * (1 + Math.cos(Math.PI * done)) * (peak - low);
}
