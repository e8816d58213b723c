import { describe, expect, test } from 'vitest';
import type { Snapshot } from '../../../swarm/messages/snapshot.ts';
import { UNKNOWN_SURROUNDINGS } from './conditions.ts';
import { type DonorEvent, nextState } from './events.ts';
import type { DonorPhase } from './phase.ts';
import { DEFAULT_PREFERENCES } from './preferences.ts';
import { headlineOf } from './sentences.ts';
import { type DonorState, due, INITIAL_STATE, isStale } from './state.ts';

test('what a tab shows of the run is old while nothing comes from the server, whoever told it', () => {
  const snapshot = { run: 'r' } as Snapshot; // there is one
  const away: DonorPhase = { kind: 'reconnecting', reason: 'server' };
  for (const phase of [away, { kind: 'paused', connected: false }] as const)
    expect(isStale({ phase, snapshot }, false)).toBe(true);
  for (const phase of [{ kind: 'computing' }, { kind: 'paused', connected: true }] as const)
    expect(isStale({ phase, snapshot }, true)).toBe(false);
  for (const isLost of [true, false]) expect(isStale({ phase: away, snapshot: null }, isLost)).toBe(isLost);
});

const onDay = (day: string): DonorEvent => ({
  type: 'surroundingsSeen',
  surroundings: { ...UNKNOWN_SURROUNDINGS, day },
});
const CAPPED: DonorEvent = {
  type: 'learned',
  now: { preferences: { ...DEFAULT_PREFERENCES, uploadBytesPerDay: 100e6 } },
};
const sent = (bytesSent: number): DonorEvent => ({
  type: 'workerShowed',
  status: {
    ...{
      activity: 'computing',
      step: 0,
      stages: [],
      stageCount: 0,
      gpuMemoryBytes: 0,
      droppedFrames: 0,
      answeredRows: 0,
      busyShare: null,
    },
    ...{
      bytesSent,
      bytesReceived: 0,
      microBatches: { done: 0, all: 0 },
      waitsFor: null,
      rates: { sent: 0, received: 0, mostReceived: 0 },
      lastStep: null,
    },
    direction: null,
  },
});
const COMPUTING: DonorState = { ...INITIAL_STATE, phase: { kind: 'computing' } };
const reached = (...events: readonly DonorEvent[]): DonorState => events.reduce(nextState, COMPUTING);
const AT_ONCE: DonorEvent = { type: 'pausedAtOnce', rest: null };

describe('the traffic of a day', () => {
  test('asks for a pause shortly before its cap, and stops all at the cap', () => {
    expect(due(reached(onDay('2026-11-21'), CAPPED, sent(92e6)))).toBeNull();
    expect(due(reached(onDay('2026-11-21'), CAPPED, sent(94e6)))).toBe('pause');
    expect(due(reached(onDay('2026-11-21'), CAPPED, sent(100e6)))).toBe('stop');
  });

  test('stopped by it a tab waits for the next day, then begins by itself; the person’s own stop does not', () => {
    const stopped = reached(onDay('2026-11-21'), CAPPED, sent(101e6), AT_ONCE);
    expect(due(stopped)).toBeNull();
    expect(headlineOf(stopped)).toMatchObject({
      word: 'Paused',
      sentence: 'Today’s upload is used up: 101 MB of 100 MB. Your GPU goes on after midnight.',
    });
    expect(due(nextState(stopped, onDay('2026-11-22')))).toBe('resume');
    const byHand = reached(onDay('2026-11-21'), CAPPED, sent(1), { type: 'pausedAtOnce', rest: { kind: 'button' } });
    expect(due(nextState(byHand, onDay('2026-11-22')))).toBeNull();
  });

  test('outlasts a lost connection: the worker’s count goes on where it was', () => {
    const lost: DonorEvent = { type: 'signalingChanged', state: { kind: 'closed', pauseMs: 500, isKept: true } };
    expect(reached(onDay('2026-11-21'), sent(5e6), lost, sent(6e6)).today.sentBytes).toBe(6e6);
    const anew: DonorEvent = {
      type: 'gpuOpened',
      adapter: { vendor: '', architecture: '', description: '', software: false, browser: '' },
    };
    expect(reached(onDay('2026-11-21'), sent(5e6), lost, anew, sent(6e6)).today.sentBytes).toBe(11e6);
  });
});
