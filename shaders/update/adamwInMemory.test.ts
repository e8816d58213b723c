import { expect, test } from 'vitest';
import { at, seededRandom } from '../../swarm/base.ts';
import { adamw, adamwScalars } from './adamw.ts';
import { adamwInMemory } from './adamwInMemory.ts';
import { decayDims } from './updateRuns.ts';

const COUNT = 4_099;
const SETTINGS = { learningRate: 3e-3, clipScale: 0.37, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weightDecay: 0.1 };

const arraysOf = (seed: number) => {
  const random = seededRandom(seed);
  const drawn = (scale: number) => Float32Array.from({ length: COUNT }, () => scale * (random() - 0.5));
  const [values, grads, m] = [drawn(1), drawn(0.3), drawn(0.01)];
  return { values, grads, m, v: drawn(1).map((one) => (one * one) / 1000) };
};

/** A register of float32: each operation goes through it. */
const register = new Float32Array(1);
const rounded = (value: number): number => {
  register[0] = value;
  return at(register, 0);
};

test.each([[true], [false]])(
  '[ST20] the update in main memory rounds every operation to float32, decay %s',
  (decays) => {
    const mine = arraysOf(7);
    const scalars = adamwScalars({ ...SETTINGS, update: 5 });
    const [rate, clip, beta1, beta2, epsilon, correction1, correction2, decay] = [...scalars] as [
      ...[number, number, number, number, number, number, number, number],
    ];
    const expected = arraysOf(7);
    for (let i = 0; i < COUNT; i++) {
      const g = rounded(at(expected.grads, i) * clip);
      const m = rounded(rounded(beta1 * at(expected.m, i)) + rounded(rounded(1 - beta1) * g));
      const v = rounded(rounded(beta2 * at(expected.v, i)) + rounded(rounded(1 - beta2) * rounded(g * g)));
      const kept = decays ? rounded(1 - rounded(rate * decay)) : 1;
      const root = rounded(rounded(Math.sqrt(rounded(v * rounded(1 / correction2)))) + epsilon);
      const down = rounded(rounded(rounded(rate / correction1) * m) / root);
      expected.values[i] = rounded(rounded(at(expected.values, i) * kept) - down);
      expected.m[i] = m;
      expected.v[i] = v;
    }
    adamwInMemory(mine, [0, 2_000], decays, scalars);
    adamwInMemory(mine, [2_000, COUNT], decays, scalars);
    expect(mine).toEqual(expected);
  },
);

test('[ST20] it is AdamW: within the tolerance of the kernel beside its reference in float64', () => {
  const [mine, theirs] = [arraysOf(11), arraysOf(11)];
  const scalars = adamwScalars({ ...SETTINGS, update: 3 });
  adamwInMemory(mine, [0, COUNT], true, scalars);
  const places = { offset: 0, count: COUNT, gradientOffset: 0, momentOffset: 0 };
  adamw.cpu({ ...theirs, scalars }, { ...places, ...decayDims([[0, COUNT]]) });
  for (const name of ['values', 'm', 'v'] as const)
    for (let i = 0; i < COUNT; i++)
      expect(Math.abs(at(mine[name], i) - at(theirs[name], i)), `${name} ${i}`).toBeLessThan(
        2e-6 + 1e-6 * Math.abs(at(theirs[name], i)),
      );
});
