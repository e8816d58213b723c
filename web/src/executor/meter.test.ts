import { expect, test, vi } from 'vitest';
import { peerId } from '../../../swarm/base.ts';
import { seated } from '../../../swarm/plan/plan.ts';
import { equalSplit } from '../../../swarm/planner/equalSplit.ts';
import type { ComputeAction } from '../../../swarm/schedule/action.ts';
import { outlineModel } from '../../../swarm/testing/randomPlan.ts';
import { parseAction } from '../../../swarm/testing/scheduleText.ts';
import { spansOf } from '../../../swarm/testing/timelineText.ts';
import { BUSY_WINDOW_SECONDS, BusyMeter, Meter, RateWindow } from './meter.ts';
import type { DonorStatus } from './protocol.ts';
import { sendFrames } from './sendFrames.ts';
import { Traffic } from './traffic.ts';

test('work that overlaps in the queue is busy time once', () => {
  let now = 0;
  const at = (seconds: number): number => {
    now = seconds;
    return seconds;
  };
  const busy = new BusyMeter(() => now);
  expect(busy.share).toBeNull();
  for (const [seconds, call] of [
    [0, 'begin'],
    [1, 'begin'],
    [2, 'end'],
    [3, 'end'],
  ] as const) {
    at(seconds);
    busy[call]();
  }
  at(4);
  expect(busy.share).toBe(0.75);
  busy.begin();
  at(6);
  expect(busy.share).toBeCloseTo(5 / 6);
});

test('what work waited for, while the GPU stood still, is no busy time', () => {
  let now = 0;
  const busy = new BusyMeter(() => now);
  busy.begin();
  now = 4;
  busy.end(3);
  expect(busy.share).toBe(0.25);
  busy.begin();
  now = 8;
  busy.end();
  expect(busy.share).toBe(5 / 8);
});

test('the busy share forgets what is older than a minute', () => {
  let now = 0;
  const busy = new BusyMeter(() => now);
  busy.begin();
  now = 10;
  busy.end();
  now = BUSY_WINDOW_SECONDS + 5;
  expect(busy.share).toBeCloseTo(5 / BUSY_WINDOW_SECONDS);
  now = 2 * BUSY_WINDOW_SECONDS;
  expect(busy.share).toBe(0);
});

test('a step’s trace has its work and what it stood still for, from the step’s begin', async () => {
  let now = 100;
  const shown: DonorStatus[] = [];
  const meter = new Meter(
    () => now,
    (status) => shown.push(status),
  );
  const other = peerId('other');
  meter.received(5);
  meter.begin(3, 7, 2);
  meter.sent(40);
  meter.received(2);
  // A file that is fetched meanwhile is no part of the step.
  meter.received(1_000);
  meter.ofFile(1_000);
  let arrive: () => void = () => undefined;
  const coming = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  const wait = meter.awaited(other, coming);
  expect(shown.at(-1)?.waitsFor).toBe(other);
  now = 101;
  arrive();
  await wait;
  meter.computed({ op: 'F', stage: 1, microBatch: 0 });
  meter.computed({ op: 'B', stage: 1, microBatch: 0 });
  expect(shown.at(-1)).toMatchObject({ waitsFor: null, microBatches: { done: 1, all: 2 }, direction: 'backward' });
  now = 105;
  const own = peerId('own');
  meter.end(spansOf(own, '1F0 101-102, 1B0 102-104'));
  expect(shown.at(-1)?.lastStep).toEqual({
    epoch: 3,
    step: 7,
    seconds: 5,
    bytes: 42,
    spans: spansOf(own, '1F0 1-2, 1B0 2-4'),
    waits: [{ peer: other, startSeconds: 0, endSeconds: 1 }],
  });
});

test('[CO75] a step waits for who has not taken its tensors; when it is over its last word stands until the next one', async () => {
  const meter = new Meter(
    () => 0,
    () => undefined,
  );
  const [giver, taker] = [peerId('giver'), peerId('taker')];
  let take: () => void = () => undefined;
  const ways = { sendFrame: () => new Promise<void>((resolve) => (take = resolve)) };
  const traffic = new Traffic({ now: () => 0, wait: async () => undefined });
  expect(meter.progress).toBeNull();
  meter.begin(3, 7, 1);
  const sent = sendFrames(taker, [new ArrayBuffer(8)], { traffic, meter, ways }, new AbortController().signal);
  void meter.awaited(giver, new Promise(() => undefined));
  await Promise.resolve();
  await Promise.resolve();
  expect(meter.progress).toEqual({ epoch: 3, step: 7, done: 1, waitsFor: [giver, taker], hasReported: false });
  take();
  await sent;
  expect(meter.progress?.waitsFor).toEqual([giver]);
  meter.reported();
  meter.end([]);
  expect(meter.progress).toEqual({ epoch: 3, step: 7, done: 1, waitsFor: [giver], hasReported: true });
  meter.begin(3, 8, 1);
  expect(meter.progress).toMatchObject({ step: 8, done: 0, hasReported: false });
  meter.drop();
  expect(meter.progress).toBeNull();
});

test('[CO75] who has something of its own to read back waits for nobody', async () => {
  const meter = new Meter(
    () => 0,
    () => undefined,
  );
  meter.begin(3, 7, 1);
  void meter.awaited(peerId('giver'), new Promise(() => undefined));
  let hand: () => void = () => undefined;
  meter.ofStep(7).readingBack(new Promise<void>((resolve) => (hand = resolve)));
  expect(meter.progress?.waitsFor).toEqual([]);
  hand();
  await vi.waitFor(() => expect(meter.progress?.waitsFor).toEqual(['giver']));
});

test('a step that is given up leaves no trace', () => {
  const shown: DonorStatus[] = [];
  const meter = new Meter(
    () => 0,
    (status) => shown.push(status),
  );
  meter.begin(1, 0, 1);
  meter.drop();
  meter.end([]);
  expect(shown.at(-1)?.lastStep).toBeNull();
});

test('while another plan is prepared the tab’s part is that of the new plan, and none where it has none', () => {
  const shown: DonorStatus[] = [];
  const meter = new Meter(
    () => 0,
    (status) => shown.push(status),
  );
  const [me, other] = [peerId('me'), peerId('other')];
  const planOf = (seats: readonly (typeof me)[]) =>
    seated(equalSplit(outlineModel(4, true), 1, [me, other], { microBatches: 1 }), seats);
  meter.prepare(planOf([me, other]), me, 1, 3);
  const part = { stages: [{ stage: 0, layers: [0, 2] }], stageCount: 2 };
  expect(shown.at(-1)).toMatchObject({ activity: 'preparing', step: 3, ...part });
  meter.begin(1, 3, 1);
  meter.computed(parseAction('0B0') as ComputeAction);
  expect(shown.at(-1)).toMatchObject({ ...part, microBatches: { done: 1, all: 1 } });
  meter.prepare(planOf([other, me]), me, 1, 4);
  const after = { stages: [{ stage: 1, layers: [2, 4] }], stageCount: 2, microBatches: { done: 0, all: 0 } };
  expect(shown.at(-1)).toMatchObject({ activity: 'preparing', step: 4, ...after });
  meter.prepare(planOf([other, other]), me, 1, 5);
  expect(shown.at(-1)).toMatchObject({ activity: 'preparing', stages: [] });
});

test('[IS22] a meeting is told with the next report, until one was, and stands in its own step’s trace', () => {
  const shown: DonorStatus[] = [];
  const meter = new Meter(
    () => 0,
    (status) => shown.push(status),
  );
  const own = peerId('own');
  const meeting = { peer: own, action: { op: 'MEET' as const }, startSeconds: 3, endSeconds: 4 };
  expect(meter.behind).toBeNull();
  meter.begin(1, 5, 1);
  meter.didBehind(5, meeting);
  meter.end(spansOf(own, '0F0 1-2'));
  expect(shown.at(-1)?.lastStep?.spans).toEqual(spansOf(own, '0F0 1-2, MEET 3-4'));
  for (let attempt = 0; attempt < 2; attempt++) {
    meter.begin(1, 6, 1);
    expect(meter.behind).toEqual({ step: 5, spans: [{ action: 'MEET', start: 3, end: 4 }] });
  }
  meter.end(spansOf(own, '0F0 5-6'));
  expect(shown.at(-1)?.lastStep?.spans).toEqual(spansOf(own, '0F0 5-6'));
  expect(meter.behind).toBeNull();
});

test('an update that ends while the next step goes is told with its report, and no later', () => {
  const meter = new Meter(
    () => 0,
    () => undefined,
  );
  const own = peerId('own');
  const span = (op: 'UPDATE' | 'SEND_V', startSeconds: number) => ({
    ...{ peer: own, action: { op }, startSeconds, endSeconds: startSeconds + 1 },
  });
  meter.begin(1, 7, 1);
  const seventh = meter.ofStep(7);
  seventh.didBehind(span('SEND_V', 1));
  meter.end(spansOf(own, '0F0 0-1'));
  // Of islands that take turns the next step has a lower number.
  meter.begin(1, 2, 1);
  const second = meter.ofStep(2);
  seventh.didBehind(span('UPDATE', 2));
  const told = (spans: readonly string[], step: number) => ({
    step,
    spans: spans.map((action) => expect.objectContaining({ action })),
  });
  expect(second.behind()).toEqual(told(['SEND_V', 'UPDATE'], 7));
  second.didBehind(span('SEND_V', 5));
  seventh.didBehind(span('UPDATE', 2));
  expect(second.behind()).toEqual(told(['SEND_V'], 2));
});

test('[IS22] a meeting apart from the steps stands behind the newest one, however long it was waited for', async () => {
  let now = 10;
  const meter = new Meter(
    () => now,
    () => undefined,
  );
  const own = peerId('own');
  let arrive: (outcome: string) => void = () => undefined;
  const held = new Promise<string>((resolve) => {
    arrive = resolve;
  });
  meter.begin(1, 5, 1);
  meter.end(spansOf(own, '0F0 1-2'));
  const meeting = meter.meeting(own, held);
  now = 14;
  arrive('all of it');
  expect(await meeting).toBe('all of it');
  expect(meter.behind).toEqual({ step: 5, spans: [{ action: 'MEET', start: 10, end: 14 }] });
});

test('the mean of the ten newest whole seconds, and the most that one had', () => {
  let now = 100;
  const rate = new RateWindow(() => now);
  expect([rate.bytesPerSecond, rate.most]).toEqual([0, 0]);
  rate.add(300);
  now = 100.9;
  rate.add(200);
  // The second is not over.
  expect([rate.bytesPerSecond, rate.most]).toEqual([0, 500]);
  now = 103;
  rate.add(100);
  now = 104;
  expect([rate.bytesPerSecond, rate.most]).toEqual([60, 500]);
  now = 110.5;
  expect(rate.bytesPerSecond).toBe(60);
  now = 111;
  expect(rate.bytesPerSecond).toBe(10);
  now = 200;
  expect([rate.bytesPerSecond, rate.most]).toEqual([0, 500]);
});
