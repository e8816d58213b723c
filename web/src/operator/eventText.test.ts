import { expect, test } from 'vitest';
import { eventText, peerOf } from './eventText.ts';

test('[OP1] [OP63] what happened, in words', () => {
  const size = { epoch: 3, donors: 2, stages: 1, microBatches: 4, schedule: '1f1b' };
  expect(eventText({ kind: 'plan', ...size, reason: 'b joins' })).toBe('number 3, for 2 donors: b joins');
  const fault = { kind: 'fault', peer: 'a', reason: 'linkLost', about: 'abcdefghi', detail: 'no answer' } as const;
  expect([peerOf(fault), eventText(fault)]).toEqual(['a', 'lost its link to abcdef: no answer']);
  const rollBack = { kind: 'rollBack', atStep: 40, toStep: 30, reason: 'a is gone' } as const;
  expect([peerOf(rollBack), eventText(rollBack)]).toEqual([null, 'From step 40 to step 30: a is gone']);
  expect(eventText({ kind: 'operator', what: 'stop', session: 'f00' })).toBe('stop (session f00)');
  const adapter = { vendor: 'google', architecture: 'swiftshader', description: '' };
  expect(eventText({ kind: 'joined', peer: 'a', adapter })).toBe('google swiftshader');
});
