import { expect, test } from 'vitest';
import type { DonorStatus } from '../executor/protocol.ts';
import { headlineOf } from './sentences.ts';
import { INITIAL_STATE } from './state.ts';

const STATUS: DonorStatus = {
  ...{ activity: 'computing', step: 0, stages: [], stageCount: 1, gpuMemoryBytes: 0, droppedFrames: 0 },
  ...{ busyShare: null, bytesSent: 0, bytesReceived: 0, rates: { sent: 0, received: 0, mostReceived: 0 } },
  ...{ microBatches: { done: 3, all: 16 }, direction: 'forward', waitsFor: null, lastStep: null },
};

test('[DO16] a tab’s first step says how far it is, and that it takes a while', () => {
  const sentenceOf = (status: DonorStatus): string =>
    headlineOf({ ...INITIAL_STATE, phase: { kind: 'computing' }, status }).sentence;
  expect(sentenceOf(STATUS)).toBe('Your first step: 3 of 16 parts done. On a slow computer it takes a minute.');
  for (const all of [0, 1])
    expect(sentenceOf({ ...STATUS, microBatches: { done: 0, all } })).toMatch(/^Your first step has begun\./);
  const lastStep = { epoch: 1, step: 0, seconds: 4, bytes: 0, spans: [], waits: [] };
  expect(sentenceOf({ ...STATUS, lastStep })).not.toMatch(/first step/);
});
