/** Against AdamW computed here in the plainest way, element by element, in float64. */
import { describe, expect, test } from 'vitest';
import { type Random, seededRandom } from '../base.ts';
import { implausible, largestUpdate, progress } from './plausibleState.ts';

const BETAS: readonly (readonly [number, number])[] = [
  [0.9, 0.999],
  [0.9, 0.95],
  [0, 0.99],
  [0.95, 0.9],
  [0.5, 0.2],
];
const STEPS = 40;

/** The largest |m̂| / √v̂ that these gradients come to, by step. */
function updates([beta1, beta2]: readonly [number, number], gradients: readonly number[]): number[] {
  let [m, v] = [0, 0];
  return gradients.map((gradient, step) => {
    m = beta1 * m + (1 - beta1) * gradient;
    v = beta2 * v + (1 - beta2) * gradient ** 2;
    return Math.abs(m / (1 - beta1 ** (step + 1))) / Math.sqrt(v / (1 - beta2 ** (step + 1)));
  });
}

describe('[SV50] the largest update', () => {
  test('no gradients come to more, and the worst ones to as much', () => {
    const draw: Random = seededRandom(7);
    for (const betas of BETAS) {
      for (let round = 0; round < 50; round++) {
        const gradients = Array.from({ length: STEPS }, () => (draw() - 0.5) * 10 ** (6 * draw()));
        for (const [step, update] of updates(betas, gradients).entries())
          expect(update).toBeLessThanOrEqual(largestUpdate(betas, step + 1) * (1 + 1e-9));
      }
      // Cauchy and Schwarz: equality where each gradient is (β₁/β₂)ⁱ, i steps before the last.
      const [beta1, beta2] = betas;
      if (beta1 === 0) continue;
      const worst = Array.from({ length: STEPS }, (_, step) => (beta1 / beta2) ** (STEPS - 1 - step));
      expect(updates(betas, worst).at(-1)).toBeCloseTo(largestUpdate(betas, STEPS), 6);
    }
  });

  test('the first one is 1, whatever the betas; where the second one is 0 there is no bound', () => {
    for (const betas of BETAS) expect(largestUpdate(betas, 1)).toBeCloseTo(1, 9);
    expect(largestUpdate([0.9, 0], 5)).toBe(Number.POSITIVE_INFINITY);
    expect(largestUpdate([0, 0], 5)).toBe(1);
  });
});

describe('[SV50] a shard', () => {
  const train = {
    optimizer: {
      type: 'adamw' as const,
      ...{ learningRate: 0.01, betas: [0, 0.5] as [number, number], epsilon: 1e-8, weightDecay: 0 },
    },
    schedule: { type: 'constant' as const, warmupSteps: 0 },
  };
  const still = { elements: 100, before: 100, moved: 0, m: 0, v: 0, velocity: 0, leftOver: 0 };

  test('moves no further than its steps can take it, and twice that at most is believed', () => {
    // With β₁ = 0 an update is 1/√(1 − β₂) = √2 at most, √(3/2) at the second step, 1 at the first; 100 elements: ten times.
    const way = progress(train, 0, 2);
    const most = 10 * 0.01 * (1 + Math.sqrt(1.5));
    expect(implausible({ ...still, moved: (1.99 * most) ** 2 }, way, 1)).toBeNull();
    expect(implausible({ ...still, moved: (2.01 * most) ** 2 }, way, 1)).toMatch(
      /^its values are .* from those 2 steps/,
    );
    expect(implausible({ ...still, moved: Number.POSITIVE_INFINITY }, way, 1)).not.toBeNull();
  });

  test('shrinks by its decay', () => {
    const way = progress({ ...train, optimizer: { ...train.optimizer, learningRate: 0.01, weightDecay: 10 } }, 0, 1);
    expect(way.decay).toBeCloseTo(0.1, 12);
    // A norm of 10 loses 1 by decay, beside the 0.1 by its gradient.
    expect(implausible({ ...still, moved: 1.1 ** 2 }, way, 1)).toBeNull();
    expect(implausible({ ...still, moved: 2.3 ** 2 }, way, 1)).not.toBeNull();
  });

  test('without a learning rate it stays where it was, also where no update has a bound', () => {
    const resting = {
      ...train,
      optimizer: { ...train.optimizer, learningRate: 0, betas: [0.9, 0] as [number, number] },
    };
    expect(implausible(still, progress(resting, 0, 5), 1)).toBeNull();
    expect(implausible({ ...still, moved: 1 }, progress(resting, 0, 5), 1)).not.toBeNull();
  });

  test('has no larger moments than the largest gradient', () => {
    const way = progress(train, 0, 1);
    expect(implausible({ ...still, m: 3.9, v: 3.9 }, way, 1)).toBeNull();
    expect(implausible({ ...still, m: 4.1 }, way, 1)).toMatch(/^its first moments have a norm of 2.02/);
    expect(implausible({ ...still, v: 4.1 }, way, 1)).toMatch(/^its second moments add up to 4.10/);
    expect(implausible({ ...still, m: 1e30, v: 1e30 }, way, Number.POSITIVE_INFINITY)).toBeNull();
  });

  test('of islands has no larger outer momentum, and left over no more, than their rounds can have made', () => {
    // 100 elements that go 0.1 at most, and a norm of 10 of which a round takes 2 %.
    const rounds = { way: { reach: 0.1, decay: 0.02 }, velocity: 3, leftOver: 2 };
    const most = 10 * 0.1 + 0.02 * 10;
    const way = { ...progress(train, 0, 0), rounds };
    expect(implausible({ ...still, velocity: (5.99 * most) ** 2, leftOver: (3.99 * most) ** 2 }, way, 1)).toBeNull();
    expect(implausible({ ...still, velocity: (6.01 * most) ** 2 }, way, 1)).toMatch(
      /^its outer momentum has a norm of 7.21/,
    );
    expect(implausible({ ...still, leftOver: (4.01 * most) ** 2 }, way, 1)).toMatch(
      /^what its packets left over has a norm of 4.81/,
    );
  });
});
