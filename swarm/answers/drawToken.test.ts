/** Tokens are drawn from softmax(logits/temperature), cut to its nucleus; sharp, the likeliest. */
import { expect, test } from 'vitest';
import { arrayOf, at, normal, seededRandom, totalOf } from '../base.ts';
import { drawToken } from './drawToken.ts';

const V = 8;
const random = seededRandom(5);
const logits = arrayOf(V, () => 2 * normal(random));

function shares(temperature: number, allowed: readonly number[]): number[] {
  const powers = logits.map((logit, v) => (allowed.includes(v) ? Math.exp(logit / temperature) : 0));
  const sum = powers.reduce((total, power) => total + power, 0);
  return powers.map((power) => power / sum);
}

/** Pearson's statistic of that many draws; with 7 degrees of freedom it is above 24.3 once in a thousand. */
function deviation(expected: readonly number[], draws: readonly number[]): number {
  return expected.reduce((sum, share, v) => {
    const count = draws.filter((token) => token === v).length;
    if (share === 0) return count === 0 ? sum : Infinity;
    return sum + (count - share * draws.length) ** 2 / (share * draws.length);
  }, 0);
}

const all = arrayOf(V, (v) => v);
const byLogit = all.toSorted((a, b) => at(logits, b) - at(logits, a));

test.each([0.5, 1, 2])('[AN4] temperature %d: the distribution is the softmax', (temperature) => {
  const draws = arrayOf(4000, (number) => drawToken(logits, { temperature, topP: 1, seed: 17, number }));
  expect(deviation(shares(temperature, all), draws)).toBeLessThan(24.3);
});

test('other seeds draw alike, not the same', () => {
  const of = (seed: number) => arrayOf(4000, (number) => drawToken(logits, { temperature: 1, topP: 1, seed, number }));
  expect(deviation(shares(1, all), of(1))).toBeLessThan(24.3);
  expect(deviation(shares(1, all), of(2 ** 32 - 1))).toBeLessThan(24.3);
  expect(of(1)).toEqual(of(1));
  expect(of(1)).not.toEqual(of(2));
});

test.each([1, 2, 3, 5])('a nucleus of the %i likeliest: no other comes, these as often as they should', (size) => {
  const whole = shares(1, all);
  const upTo = (count: number) => totalOf(byLogit.slice(0, count), (v) => at(whole, v));
  const topP = (upTo(size - 1) + upTo(size)) / 2;
  const draws = arrayOf(4000, (number) => drawToken(logits, { temperature: 1, topP, seed: 3, number }));
  expect(deviation(shares(1, byLogit.slice(0, size)), draws)).toBeLessThan(24.3);
});

test('temperature 0 takes the likeliest, of equal ones the first', () => {
  expect(drawToken(logits, { temperature: 0, topP: 0.1, seed: 9, number: 4 })).toBe(byLogit[0]);
  expect(drawToken([1, 3, 3, 2], { temperature: 0, topP: 1, seed: 0, number: 0 })).toBe(1);
});
