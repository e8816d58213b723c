import { expect, test } from 'vitest';
import { budgetRate, learningRate } from './learningRate.ts';

const optimizer = {
  type: 'adamw' as const,
  learningRate: 1,
  betas: [0.9, 0.95] as [number, number],
  epsilon: 1e-8,
  weightDecay: 0,
};

const LAST = 9;
const rates = (warmupSteps: number, decaySteps: number | null, minRatio = 0.2): number[] => {
  const schedule =
    decaySteps === null
      ? { type: 'constant' as const, warmupSteps }
      : { type: 'cosine' as const, warmupSteps, decaySteps, minRatio };
  return Array.from({ length: LAST + 1 }, (_, step) => learningRate({ optimizer, schedule }, step));
};

const expectRates = (found: readonly number[], expected: readonly number[]): void => {
  expect(found).toHaveLength(expected.length);
  for (const [step, rate] of expected.entries()) expect(found[step], `step ${step}`).toBeCloseTo(rate, 15);
};

test('[CO100] the rate warms up, then stays', () => {
  expectRates(rates(3, null), [0.25, 0.5, 0.75, 1, 1, 1, 1, 1, 1, 1]);
  expectRates(rates(0, null), new Array(10).fill(1));
});

/** Of learningRate 1: the closed form, each case of it on a line of its own. */
function closedForm(step: number, warmup: number, decay: number, low: number): number {
  if (step < warmup) return (step + 1) / (warmup + 1);
  if (step > decay) return low;
  const share = decay === warmup ? 0 : (step - warmup) / (decay - warmup);
  return low + ((1 + Math.cos(Math.PI * share)) / 2) * (1 - low);
}

test('[CO100] the cosine falls from the rate to its low end and stays there', () => {
  // By hand: half way the cosine is 0, a third of the way 1/2.
  expectRates(rates(1, 5), [
    0.5,
    1,
    0.2 + 0.8 * ((1 + Math.SQRT1_2) / 2),
    0.6,
    0.2 + 0.4 * (1 - Math.SQRT1_2),
    ...new Array(5).fill(0.2),
  ]);
  for (let warmup = 0; warmup <= 6; warmup++)
    for (let decay = 0; decay <= 12; decay++)
      expectRates(
        rates(warmup, decay, 0.1),
        Array.from({ length: LAST + 1 }, (_, step) => closedForm(step, warmup, decay, 0.1)),
      );
});

test('[CO100] decaySteps equal to warmupSteps: the peak at that step, as in get_cosine_schedule_with_warmup of transformers', () => {
  expectRates(rates(2, 2), [1 / 3, 2 / 3, 1, ...new Array(7).fill(0.2)]);
  expectRates(rates(0, 0), [1, ...new Array(9).fill(0.2)]);
});

test('[CO100] decaySteps below warmupSteps: low right after the warm-up', () => {
  expectRates(rates(4, 2), [0.2, 0.4, 0.6, 0.8, ...new Array(6).fill(0.2)]);
});

test('[CO101] of a budget the rate rises with the share that is used, and falls along the cosine', () => {
  const cosine = { type: 'cosine' as const, warmupSteps: 0, decaySteps: 1, minRatio: 0.2, warmup: 0.1, decay: 0.9 };
  const found = [0, 0.05, 0.1, 0.5, 0.9, 1].map((share) => budgetRate({ optimizer, schedule: cosine }, share));
  expectRates(found, [0.01, 0.5, 1, 0.6, 0.2, 0.2]);
  const constant = { type: 'constant' as const, warmupSteps: 0, warmup: 0.02 };
  const constantly = [0, 0.01, 0.02, 1].map((share) => budgetRate({ optimizer, schedule: constant }, share));
  expectRates(constantly, [0.05, 0.5, 1, 1]);
});
