import { expect, test } from 'vitest';
import { peerId } from '../base.ts';
import { spansOf } from '../testing/timelineText.ts';
import { longestWait, useOf } from './waits.ts';

const [A, B] = [peerId('a'), peerId('b')];
const PLAN = { stages: [A, B].map((peer) => ({ members: [{ peer, microBatches: [0, 1] }] })) };

test('a forward waits for the stage before, a backward for the one behind', () => {
  // a: 0–1, 1–2, waits for b until 6, 6–8, waits until 9, 9–10. b: waits until 1, then works to 9, but for nothing.
  const timeline = [
    ...spansOf(A, '0F0 0-1, 0F1 1-2, 0B0 6-8, 0B1 9-10'),
    ...spansOf(B, '1F0 1-3, 1B0 3-6, 1F1 6-7, 1B1 7-9'),
  ];
  const { seconds, peers } = useOf(timeline, PLAN);
  expect(seconds).toBe(10);
  expect(peers.map(({ peer, busySeconds, waits }) => [peer, busySeconds, [...waits]])).toEqual([
    [A, 5, [[B, 5]]],
    [
      B,
      8,
      [
        [A, 1],
        [null, 1],
      ],
    ],
  ]);
  expect(peers.map(({ waits }) => longestWait(waits))).toEqual([
    { peer: B, seconds: 5 },
    { peer: A, seconds: 1 },
  ]);
});

test('a pause of less than two milliseconds is no wait', () => {
  expect(useOf(spansOf(A, '0F0 0-1, 0F1 1.0019-2'), PLAN).peers[0]?.waits.size).toBe(0);
});

test('a peer without spans is not busy and waits for nobody', () => {
  expect(useOf([], PLAN).peers).toEqual([A, B].map((peer) => ({ peer, busySeconds: 0, waits: new Map() })));
  expect(longestWait([])).toBeNull();
});
