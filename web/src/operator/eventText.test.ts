import { expect, test } from 'vitest';
import { eventDetail, eventText, peerOf } from './eventText.ts';

test('what happened, in words', () => {
  const size = { epoch: 3, donors: 2, stages: 1, microBatches: 4, schedule: '1f1b' };
  expect(eventText({ kind: 'plan', ...size, reason: 'b joins' })).toBe('number 3, for 2 donors: b joins');
  const fault = { kind: 'fault', peer: 'a', reason: 'linkLost', about: 'abcdef', detail: 'no answer' } as const;
  expect([peerOf(fault), eventText(fault), eventDetail(fault)]).toEqual(['a', 'lost its link to abcdef', 'no answer']);
  const rollBack = { kind: 'rollBack', atStep: 40, toStep: 30, reason: 'a is gone' } as const;
  expect([peerOf(rollBack), eventText(rollBack)]).toEqual([null, 'from step 40 to step 30: a is gone']);
  expect(eventText({ kind: 'operator', what: 'stop', session: 'f00' })).toBe('stop (session f00)');
  const adapter = { vendor: 'google', architecture: 'swiftshader', description: '' };
  expect(eventText({ kind: 'joined', peer: 'a', adapter })).toBe('google swiftshader');
});

test.each([
  ['it was refused: faulty, the report has shard embedding 0', 'it could not do its part of the work'],
  [
    'it was refused: tooLate, it measured nothing; it had no work, so nothing was lost',
    'it did not answer in time; it had no work, so nothing was lost',
  ],
  [
    'abc was refused: the server saw another slice go by than it says',
    'abc was removed: what it sent could not be right',
  ],
  ['abc: badFrame: frame 3 of stage 2 is short', 'abc got damaged data'],
  ['abc: internal: invariant violated', 'abc ran into an error'],
  ['abc: the link to def was lost: ice failed', 'abc lost its link to def'],
  [
    'Step 13 was not committed: its loss is not a finite number, and abc made it of finite ones (forward 1 of stage 2)',
    'Step 13 came out wrong (its loss is no number); it began with abc',
  ],
  [
    'The keepers of layer.0[0,64) and others did not get the same slices',
    'Two donors got different copies of the same data',
  ],
  [
    'Step 5 overflowed and is done again at a loss scale of 1024',
    'Step 5 had numbers too large for half precision and is done again',
  ],
])('the history says %j in plain words, and keeps what was said', (reason, plain) => {
  const rollBack = { kind: 'rollBack', atStep: 40, toStep: 30, reason } as const;
  expect([eventText(rollBack), eventDetail(rollBack)]).toEqual([`from step 40 to step 30: ${plain}`, reason]);
});

test('what is plain already has no details', () => {
  const rollBack = { kind: 'rollBack', atStep: 40, toStep: 30, reason: 'abc lost its GPU' } as const;
  expect(eventDetail(rollBack)).toBe(null);
  expect(eventDetail({ kind: 'left', peer: 'a' })).toBe(null);
});
