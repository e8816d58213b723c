import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Action, formatAction, formatSchedule, parseAction, parseSchedule } from './action.ts';

const action: fc.Arbitrary<Action> = fc.oneof(
  fc.record({
    op: fc.constantFrom('F' as const, 'R' as const, 'B' as const, 'SEND_F' as const, 'RECV_B' as const),
    stage: fc.nat(),
    microBatch: fc.nat(),
  }),
  fc.record({ op: fc.constantFrom('REDUCE' as const, 'UPDATE' as const, 'GATHER' as const), stage: fc.nat() }),
);

test('[SC1] an action reads back from its text', () => {
  fc.assert(
    fc.property(action, (one) => {
      expect(parseAction(formatAction(one))).toEqual(one);
    }),
    { seed: 3 },
  );
  expect(formatAction({ op: 'SEND_F', stage: 1, microBatch: 3 })).toBe('1SEND_F3');
  expect(formatAction({ op: 'REDUCE', stage: 0 })).toBe('0REDUCE');
});

test.each(['', 'F0', '0F', '0REDUCE1', '0X1', '0F1 ', '-1F0', '0f1'])('[SC1] "%s" is no action', (text) => {
  expect(() => parseAction(text)).toThrow('is no action');
});

test('[SC1] a schedule reads back from its text', () => {
  const text = 'a: 0F0 0SEND_F0 0REDUCE\nb:';
  expect(formatSchedule(parseSchedule(text))).toBe(text);
});
