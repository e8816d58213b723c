import { expect, test } from 'vitest';
import { peerId } from '../../../swarm/base.ts';
import { NO_LIMITS } from '../../../swarm/limits.ts';
import type { DonorStatus } from '../executor/protocol.ts';
import { directionText, lineOf } from './line.tsx';

const statusOf = (sent: number, received: number, mostReceived: number): DonorStatus => ({
  ...{
    activity: 'waiting',
    step: 1,
    stages: [],
    stageCount: 2,
    gpuMemoryBytes: 0,
    droppedFrames: 0,
    answeredRows: 0,
    busyShare: null,
  },
  ...{ bytesSent: 0, bytesReceived: 0, microBatches: { done: 0, all: 0 }, waitsFor: null, lastStep: null },
  ...{ direction: null, rates: { sent, received, mostReceived } },
});
const linkAt = (receivedBytesPerSecond: number) => ({
  ...{ peer: peerId('other'), route: 'direct' as const, roundTripMs: 20, bytesPerSecond: 1e9, receivedBytesPerSecond },
});

test('what the line carries is as it was measured, or the best that was seen; what is used, the newest seconds', () => {
  const links = [linkAt(1e5), linkAt(8e5)];
  const status = statusOf(5e5, 2e5, 3e5);
  const limits = { ...NO_LIMITS, uploadBytesPerSecond: 6e5 };
  const state = { status, links, uploadBytesPerSecond: 2e6, limits };
  expect(lineOf(state).map(({ allowed }) => allowed)).toEqual([6e5, null]);
  expect(lineOf(state).map(directionText)).toEqual([
    '0.5 MB/s now, 25 % of the 2.0 MB/s it was seen to carry.',
    '0.2 MB/s now, 25 % of the 0.8 MB/s it was seen to carry.',
  ]);
});

test('a line of which nothing is known says so, and one at rest that nothing goes', () => {
  const none = { status: statusOf(0, 0, 0), links: [], uploadBytesPerSecond: null, limits: NO_LIMITS };
  expect(lineOf(none).map(directionText)).toEqual(Array(2).fill('Nothing now. What it can carry is not known yet.'));
  const rest = { ...none, status: statusOf(0, 0, 4e6) };
  expect(lineOf(rest).map(directionText)[1]).toBe('Nothing now. It was seen to carry 4.0 MB/s.');
  expect(lineOf({ ...none, status: null })).toEqual([]);
});
