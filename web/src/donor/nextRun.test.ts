import { expect, test } from 'vitest';
import { hasBegun } from './nextRun.ts';

test('the next run has begun when another one is there, or the same one goes on', () => {
  const finished = { run: 'whale', phase: 'finished' } as const;
  expect(hasBegun(null, { run: 'other', phase: 'training' })).toBe(false);
  expect(hasBegun('whale', finished)).toBe(false);
  expect(hasBegun('whale', { ...finished, phase: 'training' })).toBe(true);
  expect(hasBegun('whale', { run: 'other', phase: 'waiting' })).toBe(true);
});
