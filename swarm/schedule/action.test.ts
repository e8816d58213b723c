import fc from 'fast-check';
import { expect, test } from 'vitest';
import { formatSchedule, parseAction, parseSchedule } from '../testing/scheduleText.ts';
import { type Action, formatAction } from './action.ts';

const action: fc.Arbitrary<Action> = fc.oneof(
  fc.record({
    op: fc.constantFrom('F' as const, 'R' as const, 'B' as const, 'SEND_F' as const, 'RECV_B' as const),
    stage: fc.nat(),
    microBatch: fc.nat(),
  }),
  fc.record({ op: fc.constantFrom('REDUCE' as const, 'GATHER' as const), stage: fc.nat() }),
  fc.record({ op: fc.constantFrom('REPORT' as const, 'COMMIT' as const, 'UPDATE' as const, 'SEND_V' as const) }),
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
  expect(formatAction({ op: 'COMMIT' })).toBe('COMMIT');
});

test.each(['', 'F0', '0F', '0REDUCE1', 'REDUCE', '0COMMIT', 'COMMIT0', 'SEND_V1', '0X1', '0F1 ', '-1F0', '0f1'])(
  '[SC1] "%s" is no action',
  (text) => {
    expect(() => parseAction(text)).toThrow('is no action');
  },
);

test('[SC1] a schedule reads back from its text', () => {
  const text = 'a: 0F0 0SEND_F0 0REDUCE REPORT COMMIT SEND_V\nb:';
  expect(formatSchedule(parseSchedule(text))).toBe(text);
});
