import { expect, test } from 'vitest';
import { plainReason } from './plainReason.ts';

test('a planner’s refusal as people read it', () => {
  const exact =
    'the model does not fit these peers, 5798356 bytes of memory are missing: with so many more it would fit a with layers [0, 2), b with layers [2, 3)';
  expect(plainReason(exact)).toBe(
    'the model does not fit these peers, 5.5 MiB of memory are missing: with so many more it would fit a with layers 1–2, b with layer 3',
  );
  expect(plainReason('b is left idle: with it a step takes 0.134 s')).toBe(
    'b is left idle: with it a step takes 0.134 s',
  );
});
