import { describe, expect, test } from 'vitest';
import { peerId } from '../base.ts';
import { type AlertInput, alertsOf, savedAt } from './alerts.ts';
import type { SnapshotPhase } from './snapshot.ts';
import { INITIAL_ALERT_LIMITS, type WatchedEvent, type WatchedStep } from './watch.ts';

const adapter = { vendor: '', architecture: '', description: '', software: false, browser: '' };
const donor = { peer: peerId('a'), adapter, state: 'computing' as const, stages: [], tokens: 0 };
const stepOf = (seconds: number): WatchedStep => ({
  ...{ step: 0, loss: 1, gradientNorm: 1, learningRate: 1, tokens: 1, seconds, donors: 1, stages: 1 },
  ...{ microBatches: 1, plan: 1, bytesDirect: 0, bytesRelayed: 0 },
});
const checkpoint = (atMs: number, step: number): WatchedEvent => ({
  ...{ id: 1, kind: 'checkpoint', atMs, step },
});
const MINUTE_MS = 60_000;
const input = (
  part: Partial<AlertInput> & { phase?: SnapshotPhase; hasDiverged?: boolean; computing?: number } = {},
): AlertInput => {
  const { phase = 'training', hasDiverged = false, computing = 1, ...rest } = part;
  return {
    snapshot: { phase, hasDiverged, donors: Array(computing).fill(donor), committedSteps: 9, sentence: 'NaN.' },
    ...{ curve: [stepOf(10)], events: [], limits: INITIAL_ALERT_LIMITS, stillMs: 0, savedMs: 0, freeBytes: null },
    ...rest,
  };
};

describe('alerts', () => {
  test('nothing while steps come, and while nobody wants any', () => {
    expect(alertsOf(input({ stillMs: 50_000 }))).toEqual([]);
    for (const phase of ['paused', 'finished'] as const)
      expect(alertsOf(input({ phase, computing: 0, stillMs: 1e9 }))).toEqual([]);
  });

  test('a run that stalls: five times the usual step, half a minute at least', () => {
    expect(alertsOf(input({ stillMs: 51_000 }))).toEqual([
      { kind: 'stalled', text: 'Training is stuck: no step for 51 s.' },
    ]);
    expect(alertsOf(input({ curve: [stepOf(0.1)], stillMs: 29_000 }))).toEqual([]);
    expect(alertsOf(input({ curve: [], stillMs: 31_000 }))).toHaveLength(1);
  });

  test('[RE20] a run that went back to a checkpoint, until it has come as far again', () => {
    const back = { id: 3, kind: 'rollBack', atMs: 0, step: 6, atStep: 10, toStep: 6, reason: 'a is gone' } as const;
    expect(alertsOf(input({ events: [checkpoint(0, 6), back] }))).toEqual([
      {
        kind: 'rollBack',
        text: 'The run went back to the newest checkpoint and does steps 6 to 10 again: a is gone.',
      },
    ]);
    expect(alertsOf(input({ events: [{ ...back, atStep: 9 }, checkpoint(0, 6)] }))).toEqual([]);
  });

  test('too few donors, a run that diverges', () => {
    expect(alertsOf(input({ computing: 0 }))).toEqual([
      { kind: 'donors', text: 'Too few donors: 0 training, and you want at least 1.' },
    ]);
    expect(alertsOf(input({ phase: 'preparing', computing: 0 }))).toEqual([]);
    expect(alertsOf(input({ phase: 'preparing', computing: 0, stillMs: 90_000 }))).toHaveLength(1);
    expect(alertsOf(input({ phase: 'paused', hasDiverged: true }))).toEqual([
      { kind: 'diverged', text: 'The run has paused by itself: NaN.' },
    ]);
  });

  test('donors of before a server began are awaited for a minute before they are missed', () => {
    const back = input({ phase: 'waiting', computing: 0 });
    const snapshot = { ...back.snapshot, isReturning: true as const };
    expect(alertsOf({ ...back, snapshot, stillMs: 59_000 })).toEqual([]);
    expect(alertsOf({ ...back, snapshot, stillMs: 61_000 }).map(({ kind }) => kind)).toEqual(['donors']);
    expect(alertsOf(back).map(({ kind }) => kind)).toEqual(['donors']);
  });

  test('a server that can save nothing: that alone, in its own words', () => {
    const held = input({ phase: 'paused', computing: 0, stillMs: 1e9 });
    expect(alertsOf({ ...held, snapshot: { ...held.snapshot, cannotSave: true, sentence: 'NATS is away.' } })).toEqual([
      { kind: 'notSaved', text: 'NATS is away.' },
    ]);
  });

  test('no checkpoint, where one would save something', () => {
    const late = { savedMs: 31 * MINUTE_MS };
    expect(alertsOf(input({ ...late, events: [checkpoint(0, 4)] }))).toEqual([
      { kind: 'checkpoint', text: 'No checkpoint for 31 min: 5 steps would be lost.' },
    ]);
    expect(alertsOf(input({ ...late, events: [checkpoint(0, 9)] }))).toEqual([]);
    expect(alertsOf(input({ ...late, events: [checkpoint(0, 4)], savedMs: 29 * MINUTE_MS }))).toEqual([]);
  });

  test('a checkpoint that was there at the page’s opening is as old as the wall clock says, and never from the future', () => {
    const opened = { wallMs: 90 * MINUTE_MS, monotonicMs: 500 };
    expect(savedAt(null, 'run', [checkpoint(30 * MINUTE_MS, 4)], opened).atMs).toBe(500 - 60 * MINUTE_MS);
    expect(savedAt(null, 'run', [checkpoint(91 * MINUTE_MS, 4)], opened).atMs).toBe(500);
    expect(savedAt(null, 'run', [], opened)).toEqual({ run: 'run', id: null, atMs: 500 });
  });

  test('one that is saved while the page is open counts from then, however the wall clock jumps', () => {
    const first = checkpoint(30 * MINUTE_MS, 4);
    for (const jumpMs of [-86_400_000, -3_000, 0, 30_000, 86_400_000]) {
      const wallMs = 30 * MINUTE_MS + jumpMs;
      const known = savedAt(null, 'run', [first], { wallMs: 30 * MINUTE_MS, monotonicMs: 0 });
      expect(savedAt(known, 'run', [first], { wallMs, monotonicMs: 9 })).toBe(known);
      const newer = [first, { ...checkpoint(31 * MINUTE_MS, 8), id: 2 }];
      expect(savedAt(known, 'run', newer, { wallMs, monotonicMs: 60_000 }).atMs).toBe(60_000);
      expect(savedAt({ ...known, run: 'another' }, 'run', [first], { wallMs, monotonicMs: 0 }).atMs).toBe(
        jumpMs > 0 ? -jumpMs : 0,
      );
    }
  });

  test('a loss that jumps and a speed that falls: the newest ten steps against the fifty before', () => {
    const steps = (count: number, loss: number, seconds: number) =>
      Array.from({ length: count }, () => ({ ...stepOf(seconds), loss }));
    const kinds = (newest: readonly WatchedStep[], before = steps(50, 2, 1)) =>
      alertsOf(input({ curve: [...before, ...newest] })).map(({ kind }) => kind);
    expect(kinds(steps(10, 2.3, 1))).toEqual([]);
    expect(kinds(steps(10, 2.5, 1))).toEqual(['loss']);
    expect(kinds([...steps(6, 2, 1), ...steps(4, 9, 1)])).toEqual([]);
    expect(kinds(steps(10, 2, 1.9))).toEqual([]);
    expect(kinds(steps(10, 2, 2.1))).toEqual(['speed']);
    expect(kinds(steps(10, 9, 9), steps(49, 2, 1))).toEqual([]);
  });

  test('a disk that is nearly full', () => {
    expect(alertsOf(input({ freeBytes: 2.1e9 }))).toEqual([]);
    expect(alertsOf(input({ freeBytes: 1.5e9 }))[0]?.text).toContain('1.5 GB are left');
  });
});
