import { expect, test } from 'vitest';
import { encodeTensor, PAYLOAD_BYTES } from '../../../swarm/messages/frame.ts';
import { rate } from '../../../swarm/messages/profile.ts';
import { ArrivalMeter, LineMeter, loneRate, RoundTrips, WindowMeter } from './rateMeter.ts';

const FRAME = 65_536;
const ROUND_TRIP_MS = 50;
const QUIET = { leastMs: ROUND_TRIP_MS, typicalMs: ROUND_TRIP_MS };

/** A line of so many bytes a millisecond, a queue: when word comes of what is handed over then. */
function line(bytesPerMs: number) {
  let freeMs = 0;
  return (sentMs: number, bytes: number): number => {
    freeMs = Math.max(freeMs, sentMs) + bytes / bytesPerMs;
    return freeMs + ROUND_TRIP_MS;
  };
}

test('[WP29] a lone stretch tells of the link’s rate where it took three round trips or more', () => {
  expect(loneRate(60_000, 300, 100)).toBe(300_000);
  expect(loneRate(60_000, 299, 100)).toBeNull();
  expect(loneRate(60_000, 20, 0)).toBe(3_000_000);
  expect(loneRate(60_000, 0, 0)).toBeNull();
});

test.each([
  ['frames that are handed over at once', () => 0, FRAME],
  ['pairs of frames with long pauses', (index: number) => 400 * Math.floor(index / 2), FRAME],
  ['lone small frames, each in a fraction of a round trip', (index: number) => 90 * index, 21_301],
  ['frames that overlap on their way and leave the line idle between', (index: number) => 30 * index, 34_816],
])('[AP4] the rate of a line from %s', (_, sentAt, bytes) => {
  const meter = new LineMeter();
  const there = line(2_500);
  for (let index = 0; index < 16; index++) {
    const sentMs = sentAt(index);
    meter.arrived(bytes, sentMs, there(sentMs, bytes), QUIET);
  }
  expect(meter.bytesPerSecond).toBeCloseTo(2_500_000, 3);
});

test('[AP4] words that come early and late by turns tell of the same rate', () => {
  const meter = new LineMeter();
  const there = line(2_500);
  for (let index = 0; index < 64; index++) {
    const late = index % 2 === 0 ? 9 : -9;
    meter.arrived(FRAME, 300 * index, there(300 * index, FRAME) + late, { leastMs: 45, typicalMs: ROUND_TRIP_MS });
  }
  expect(meter.bytesPerSecond).toBeCloseTo(2_500_000, 3);
});

test('[AP4] a line that became slower is known for it, and one that carried little is not known', () => {
  const meter = new LineMeter();
  meter.arrived(FRAME, 0, 100, QUIET);
  expect(meter.bytesPerSecond).toBeNull();
  for (const [bytesPerMs, fromMs] of [
    [2_500, 0],
    [500, 1_000_000],
  ] as const) {
    const there = line(bytesPerMs);
    for (let index = 0; index < 128; index++) meter.arrived(FRAME, fromMs, there(fromMs, FRAME), QUIET);
  }
  expect(meter.bytesPerSecond).toBeCloseTo(500_000, 3);
});

test('[AP4] a line that is always full is measured by its words alone, though pings wait behind its frames too', () => {
  const meter = new LineMeter();
  const there = line(2_500);
  for (let index = 0; index < 64; index++) {
    const sentMs = 26 * index;
    meter.arrived(FRAME, sentMs, there(sentMs, FRAME), { leastMs: ROUND_TRIP_MS, typicalMs: 300 });
  }
  expect(Math.abs((meter.bytesPerSecond ?? 0) / 2_500_000 - 1)).toBeLessThan(0.02); // one frame of 64 seems to take no time
});

test('a window limits where nothing on the way waits for the line', () => {
  const meter = new WindowMeter();
  for (let index = 0; index < 7; index++) meter.sample(20_000);
  expect(meter.limiting(1, 250_000, 80)).toBeNull(); // too few
  meter.sample(20_000);
  expect(meter.limiting(1, 250_000, 80)).toBe(20_000); // 80 ms
  expect(meter.limiting(4, 1_000_000, 80)).toBe(20_000);
  expect(meter.limiting(1, 100_000, 80)).toBeNull(); // 200 ms
  expect(meter.limiting(1, null, 80)).toBeNull();
});

test('[AP4] the least round trip is the way’s own, the typical one is what words take', () => {
  const trips = new RoundTrips();
  expect(trips.measured).toBeNull();
  for (const ms of [52, 340, 51, 190, 55, 400, 53]) trips.sample(ms);
  expect(trips.measured).toEqual({ leastMs: 51, typicalMs: 55 });
  for (let count = 0; count < 16; count++) trips.sample(20);
  expect(trips.measured).toEqual({ leastMs: 20, typicalMs: 20 });
});

test('[AP4] from the receiving end a line’s rate is that between the frames of one tensor', () => {
  const meter = new ArrivalMeter();
  let nowMs = 0;
  for (let index = 0; index < 8; index++) {
    nowMs += 5_000 + 37 * index; // a new tensor: whenever it is there
    const range = [0, (4 * PAYLOAD_BYTES) / 4] as const;
    const tensor = encodeTensor(
      { kind: 'gradient', epoch: 0, step: 0, stage: 0, index, range },
      new Float32Array(range[1]),
    );
    for (const frame of tensor) {
      meter.arrived(frame, nowMs);
      nowMs += FRAME / 1_250;
    }
  }
  expect(meter.bytesPerSecond).toBeCloseTo(1_250_000, 3);
});

test('whoever has frames or words come at almost one moment gets nobody’s report refused', () => {
  const meter = new LineMeter();
  for (let index = 0; index < 4; index++) meter.arrived(FRAME, 0, 1e-9 * (index + 1), { leastMs: 0, typicalMs: 0 });
  expect([meter.bytesPerSecond, loneRate(FRAME, 1e-9, 0)]).toEqual([1e12, 1e12]);
  expect(rate.safeParse(meter.bytesPerSecond).success).toBe(true);
});
