import { expect, test } from 'vitest';
import { below, seededRandom } from '../../swarm/base.ts';
import { Allowance, granted } from './allowance.ts';

test('whoever counts beside the server comes to the same, however seldom it hears what changed', () => {
  for (let seed = 1; seed <= 300; seed++) {
    const random = seededRandom(seed);
    const allowance = new Allowance();
    /** Of a gateway: what it was told, and what it would be had it been told each change at once. */
    let [told, model] = [below(random, 50), 0];
    for (let change = 0; change < 40; change++) {
      const bytes = below(random, 30);
      const kind = below(random, 4);
      if (kind === 0) {
        allowance.grow(bytes);
        model += bytes;
      } else if (kind === 1) {
        allowance.cutTo(bytes);
        model = Math.min(model, bytes);
      } else if (kind === 2) {
        if (allowance.take(Math.min(bytes, model))) model -= Math.min(bytes, model);
      } else {
        told = granted(told, allowance.handOn());
        expect(told, `seed ${seed}, change ${change}`).toBe(model);
        const sent = below(random, told + 1);
        told -= sent;
        model -= sent;
        allowance.spent(sent);
      }
    }
    expect(allowance.bytes).toBe(model);
  }
});

test('more than it has is taken of none, and nothing is told twice', () => {
  const allowance = new Allowance();
  allowance.grow(10);
  expect([allowance.take(11), allowance.take(4), allowance.bytes]).toEqual([false, true, 6]);
  expect(granted(0, allowance.handOn())).toBe(6);
  expect(granted(6, allowance.handOn())).toBe(6);
});
