import { expect, test } from 'vitest';
import { stillMs, stillnessAt } from './alertsCard.tsx';

test('a run that is out of sight does not stand still by that, and stands on where it did not move meanwhile', () => {
  const begun = stillnessAt(null, 'training 4', true, 1_000);
  const still = stillnessAt(begun, 'training 4', true, 11_000);
  expect(stillMs(still)).toBe(10_000);
  const away = stillnessAt(still, 'training 4', false, 60_000);
  expect(stillMs(away)).toBe(10_000);
  const back = stillnessAt(away, 'training 4', true, 70_000);
  expect(stillMs(back)).toBe(10_000);
  expect(stillMs(stillnessAt(back, 'training 4', true, 72_000))).toBe(12_000);
  expect(stillMs(stillnessAt(away, 'training 5', true, 70_000))).toBe(0);
  expect(stillMs(stillnessAt(still, 'training 5', true, 12_000))).toBe(0);
});
