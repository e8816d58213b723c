import { expect, test } from 'vitest';
import { peerId } from '../../../swarm/base.ts';
import { CALL, RELAYED } from '../../../swarm/messages/signal.ts';
import { fakeNetwork } from '../testing/fakeLink.ts';
import { begun, isDue, meaningOf, nextAttempt, RETRY_FIRST_MS, retryLater, SOON_MS, type Way } from './way.ts';

const events = { signal: () => {}, opened: () => {}, message: () => {}, stranded: () => {}, closed: () => {} };
const BOB = peerId('bob');

/** The second attempt of epoch 4. */
function aWay(): Way {
  const link = fakeNetwork().openLink({ peer: BOB, initiator: false, iceServers: [], relayOnly: false, events });
  return {
    ...begun(link, { peer: BOB, epoch: 4, attempt: 1 }, undefined, 0),
    ...{ isProbe: false, deadlineMs: 0 },
  };
}

test.each([
  // epoch, attempt, data; where this end is the initiator, where it is not
  [3, 9, 'offer', 'stale', 'stale'],
  [4, 0, 'offer', 'stale', 'stale'],
  [4, 1, 'answer', 'more', 'more'],
  [4, 2, 'offer', 'stale', 'offer'],
  [5, 0, 'offer', 'stale', 'offer'],
  [4, 1, CALL, 'known', 'bad'],
  [5, 0, CALL, 'call', 'bad'],
  [4, 0, RELAYED, 'stale', 'stale'],
  [4, 1, RELAYED, 'relayed', 'relayed'],
] as const)('in epoch 4 after attempt 1, of %i attempt %i: %s', (epoch, attempt, data, initiator, other) => {
  const meaning = (initiates: boolean) => meaningOf({ epoch, attempt, data }, aWay(), initiates, 4);
  expect([meaning(true), meaning(false)]).toEqual([initiator, other]);
});

test('where there is no way yet, an older epoch is stale and any other one new', () => {
  const meaning = (epoch: number) => meaningOf({ epoch, attempt: 0, data: 'offer' }, undefined, false, 4);
  expect([3, 4, 5].map(meaning)).toEqual(['stale', 'offer', 'offer']);
});

test('what is left of an ended attempt begins nothing', () => {
  const way = aWay();
  way.link.close();
  expect(meaningOf({ epoch: 4, attempt: 1, data: 'candidate' }, way, false, 4)).toBe('stale');
});

test('attempts are numbered in their epoch', () => {
  expect(nextAttempt(undefined, 4)).toEqual({ epoch: 4, attempt: 0 });
  expect([3, 4, 5].map((epoch) => nextAttempt(aWay(), epoch))).toEqual([
    { epoch: 4, attempt: 2 },
    { epoch: 4, attempt: 2 },
    { epoch: 5, attempt: 0 },
  ]);
});

test('a failed attempt is followed soon where it is waited for, else after a pause that doubles', () => {
  const way = aWay();
  way.link.close();
  expect(isDue(way, 1e9)).toBe(false);
  const pauseMs = (isAwaited: boolean): number => {
    retryLater(way, isAwaited, 1_000);
    expect([isDue(way, (way.retryAtMs ?? 0) - 1), isDue(way, way.retryAtMs ?? 0)]).toEqual([false, true]);
    return (way.retryAtMs ?? 0) - 1_000;
  };
  expect([true, true, false, false, false].map(pauseMs)).toEqual([
    ...[SOON_MS, SOON_MS],
    ...[RETRY_FIRST_MS, 2 * RETRY_FIRST_MS, 4 * RETRY_FIRST_MS],
  ]);
  way.route = 'relayed';
  expect(pauseMs(true)).toBe(8 * RETRY_FIRST_MS);
});
