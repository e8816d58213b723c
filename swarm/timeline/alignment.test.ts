import { describe, expect, test } from 'vitest';
import { peerId } from '../base.ts';
import type { Plan } from '../plan/plan.ts';
import { formatAction } from '../schedule/action.ts';
import { aligned, alignedBehind, withKeepers, workEnds } from './alignment.ts';
import type { ReportedSpan } from './measured.ts';

const [A, B] = [peerId('a'), peerId('b')];
const member = (peer: typeof A, microBatches: number[]) => ({
  peer,
  microBatches,
  samples: microBatches.length,
  recompute: [],
});
const microBatches = [0, 1].map((id) => ({ id, samples: [id, id + 1] as [number, number] }));
const PIPELINE: Plan = {
  stages: [
    { layers: [0, 1], members: [member(A, [0, 1])] },
    { layers: [1, 2], members: [member(B, [0, 1])] },
  ],
  microBatches,
  state: [],
  schedule: 'gpipe',
};
/** `0F0 1-2` in seconds of the peer's own clock. */
const spans = (text: string): ReportedSpan[] =>
  text.split(', ').map((span) => {
    const [action = '', times = ''] = span.split(' ');
    const [start, end] = times.split('-').map(Number);
    return { action, start: start ?? 0, end: end ?? 0 };
  });
const shown = (plan: Plan, a: string, b: string): string[] =>
  aligned(
    plan,
    new Map([
      [A, spans(a)],
      [B, spans(b)],
    ]),
  ).map(
    ({ peer, action, startSeconds, endSeconds }) =>
      `${peer} ${formatAction(action)} ${startSeconds.toFixed(2)}-${endSeconds.toFixed(2)}`,
  );

describe('spans of several clocks', () => {
  // In truth every message takes 0.25 s. a's clock is 7 s ahead, b's 1,000 s.
  const a = '0F0 7-8, 0F1 8-9, 0B0 11.5-13.5, 0B1 14.5-16.5';
  const b = '1F0 1001.25-1002.25, 1B0 1002.25-1004.25, 1F1 1004.25-1005.25, 1B1 1005.25-1007.25';

  test('messages both ways put two clocks on one', () => {
    expect(shown(PIPELINE, a, b)).toEqual([
      'a 0F0 0.00-1.00',
      'a 0F1 1.00-2.00',
      'b 1F0 1.25-2.25',
      'b 1B0 2.25-4.25',
      'b 1F1 4.25-5.25',
      'a 0B0 4.50-6.50',
      'b 1B1 5.25-7.25',
      'a 0B1 7.50-9.50',
    ]);
  });

  test('nothing starts before what it was sent had ended', () => {
    const line = aligned(
      PIPELINE,
      new Map([
        [A, spans(a)],
        [B, spans(b)],
      ]),
    );
    const of = (text: string) => line.find(({ action }) => formatAction(action) === text);
    for (const [before, after] of [
      ['0F0', '1F0'],
      ['0F1', '1F1'],
      ['1B0', '0B0'],
      ['1B1', '0B1'],
    ] as const)
      expect(of(after)?.startSeconds).toBeGreaterThanOrEqual(of(before)?.endSeconds ?? Number.NaN);
  });

  test('lanes that send each other nothing begin together', () => {
    const lanes: Plan = { ...PIPELINE, stages: [{ layers: [0, 2], members: [member(A, [0]), member(B, [1])] }] };
    expect(shown(lanes, '0F0 5-6, 0B0 6-8', '0F1 90-92, 0B1 92-96')).toEqual([
      'a 0F0 0.00-1.00',
      'b 0F1 0.00-2.00',
      'a 0B0 1.00-3.00',
      'b 0B1 2.00-6.00',
    ]);
  });

  test('work that waits in a queue begins when the work before it has ended', () => {
    expect(shown(PIPELINE, '0F0 0-2, 0F1 0.5-3', '1F0 9-10')).toEqual([
      'a 0F0 0.00-2.00',
      'a 0F1 2.00-3.00',
      'b 1F0 2.00-3.00',
    ]);
  });

  test('what is no work of this peer’s is left out', () => {
    expect(shown(PIPELINE, '0F0 0-1, 1F0 0-1, 7F0 0-1, 0F9 0-1, <b>F0 0-1, 0B0 3-2', '0F0 0-1')).toEqual([
      'a 0F0 0.00-1.00',
    ]);
    expect(aligned(PIPELINE, new Map())).toEqual([]);
  });

  test('[IS22] a meeting stands behind the step, on its clock, where its donor’s own work is known and was before', () => {
    const reports = new Map([
      [A, spans(a)],
      [B, spans(b)],
    ]);
    const meeting = (peer: typeof A, startSeconds: number, endSeconds: number) => ({
      ...{ peer, action: { op: 'MEET' as const }, startSeconds, endSeconds },
    });
    const behind = [meeting(A, 17, 18), meeting(B, 1007.5, 1008), meeting(peerId('c'), 1, 2)];
    const times = (at: typeof behind) =>
      alignedBehind(workEnds(PIPELINE, reports), at).map(({ peer, startSeconds, endSeconds }) => [
        peer,
        startSeconds,
        endSeconds,
      ]);
    // a began at 7 by its clock, which is the step's 0; b's clock is 993 s further.
    expect(times(behind)).toEqual([
      ['a', 10, 11],
      ['b', 7.5, 8],
    ]);
    expect(times([meeting(A, 16, 18)])).toEqual([]);
  });

  test('who computes nothing begins its update with the others, on whatever clock', () => {
    const c = peerId('c');
    const update = (peer: typeof A, startSeconds: number) => ({
      ...{ peer, action: { op: 'UPDATE' as const }, startSeconds, endSeconds: startSeconds + 1 },
    });
    const passed = { peer: c, action: { op: 'SEND_V' as const }, startSeconds: 71, endSeconds: 72 };
    const reports = new Map([
      [A, spans(a)],
      [B, spans(b)],
    ]);
    // a began at 7 by its clock, which is the step's 0; b's clock is 993 s further: they begin at 10.25 and 10.5.
    const told = new Map([
      [A, [update(A, 17.25)]],
      [B, [update(B, 1010.5)]],
      [c, [passed, update(c, 70)]],
    ]);
    const ends = withKeepers(workEnds(PIPELINE, reports), told);
    expect(ends.get(c)).toEqual({ endSeconds: 70, shiftSeconds: 10.25 - 70 });
    expect(alignedBehind(ends, told.get(c) ?? []).map(({ startSeconds }) => startSeconds)).toEqual([11.25, 10.25]);
    // Where nobody who computed tells of an update nothing is known of its clock.
    const alone = withKeepers(workEnds(PIPELINE, reports), new Map([[c, [update(c, 70)]]]));
    expect(alone.has(c)).toBe(false);
  });
});
