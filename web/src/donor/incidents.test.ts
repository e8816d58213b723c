import { expect, test } from 'vitest';
import { slept } from './incidents.ts';

test('a second that took a minute was slept through', () => {
  expect(slept(0, 1_200)).toBeNull();
  expect(slept(1_000, 61_000)?.text).toContain('for 60 s');
});
