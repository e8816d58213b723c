import { expect, it } from 'vitest';
import { HEARTBEAT_MS } from '../messages/messages.ts';
import { modelFromConfig } from '../model/families.ts';
import type { Plan } from '../plan/plan.ts';
import {
  allowedFor,
  allowedMs,
  baseAllowedMs,
  DEADLINES,
  evaluationAllowedMs,
  lookMs,
  NOTHING_SEEN,
  type Pace,
  paceAfter,
  quietMs,
  SILENCE,
  stepAllowedMs,
  withSeen,
} from './deadlines.ts';

/** All steps of the plan took as long; null: none was. */
const paceOf = (ms: number | null): Pace => ({ slowestMs: ms, fastestMs: ms });

it('[RE40] who is silent is known to be so after 5 s at most, and before anybody is late for what waits for it', () => {
  // From the last byte: the look that saw it may have come just before it, the one that says so just too early.
  const latestMs = SILENCE.donorMs + 2 * SILENCE.lookMs;
  expect(latestMs).toBeLessThanOrEqual(5_000);
  for (const { leastMs } of Object.values(DEADLINES)) expect(latestMs).toBeLessThan(leastMs);
  // Three heartbeats may be lost on the way or come late together.
  expect(SILENCE.donorMs).toBeGreaterThan(3 * HEARTBEAT_MS);
  expect(SILENCE.strangerMs).toBeGreaterThan(SILENCE.donorMs);
});

it('[CO73] what lies in another thing has the shorter time', () => {
  const { warmUp, gettingReady, handOver, firstStep, step, evaluation, upload, returning } = DEADLINES;
  const inequalities: [number, number][] = [
    [HEARTBEAT_MS, step.leastMs],
    [step.leastMs, handOver.leastMs],
    [handOver.leastMs, warmUp.leastMs],
    [warmUp.leastMs, gettingReady.leastMs],
    [handOver.mostMs, gettingReady.mostMs],
    [step.leastMs, firstStep.leastMs],
    [firstStep.leastMs, evaluation.leastMs + 1],
    [step.mostMs, evaluation.mostMs],
    [gettingReady.leastMs, upload.leastMs],
    [HEARTBEAT_MS, returning.leastMs],
    [returning.leastMs, gettingReady.leastMs],
  ];
  for (const [inner, outer] of inequalities) expect(inner).toBeLessThan(outer);
  for (const { leastMs, unknownMs, mostMs } of Object.values(DEADLINES))
    expect([leastMs, unknownMs, mostMs]).toEqual([leastMs, unknownMs, mostMs].toSorted((a, b) => a - b));
});

it('[CO73] a deadline is the prediction times a factor, between a floor and a ceiling', () => {
  const allowance = { factor: 4, leastMs: 100, unknownMs: 200, mostMs: 1_000 };
  expect([null, 10, 50, 400].map((predicted) => allowedMs(allowance, predicted))).toEqual([200, 100, 200, 1_000]);
});

it('[CO73] one who dawdles among others buys no time past the ceiling, claims of how much has to move an hour at most', () => {
  let seen = NOTHING_SEEN;
  for (const tookMs of [30_000, 30_000, 30_000, 590_000]) seen = withSeen(seen, 'gettingReady', tookMs);
  expect(allowedFor('gettingReady', seen)).toBe(120_000);
  expect(allowedFor('handOver', NOTHING_SEEN, { stepMs: null, movingMs: 1e12 })).toBe(3_600_000);
  for (let time = 0; time < 20; time++) seen = withSeen(seen, 'gettingReady', 1);
  expect(seen.gettingReady).toHaveLength(15);
  expect(allowedFor('gettingReady', seen, { stepMs: null, movingMs: 40_000 })).toBe(160_004);
});

it('[CO73] what the forecast says has its time several times over, an hour at most; never less than without one', () => {
  const HOUR_MS = 3_600_000;
  for (const ms of [0, 1, 5_000, 29_999, 200_000, 700_000, 1_800_000, 1e9]) {
    const predicted = { stepMs: ms, movingMs: ms };
    const long = [
      allowedFor('gettingReady', NOTHING_SEEN, predicted),
      allowedFor('handOver', NOTHING_SEEN, predicted),
      stepAllowedMs(paceOf(null), predicted),
      stepAllowedMs(paceOf(ms), predicted),
    ];
    for (const allowed of long) {
      expect(allowed, `${ms} ms`).toBeGreaterThanOrEqual(Math.min(4 * ms, HOUR_MS));
      expect(allowed, `${ms} ms`).toBeLessThanOrEqual(HOUR_MS);
    }
    expect(allowedFor('gettingReady', NOTHING_SEEN, predicted)).toBeGreaterThanOrEqual(
      allowedFor('handOver', NOTHING_SEEN, predicted),
    );
    for (const what of ['gettingReady', 'handOver', 'warmUp', 'upload'] as const)
      expect(allowedFor(what, NOTHING_SEEN, predicted)).toBeGreaterThanOrEqual(allowedFor(what, NOTHING_SEEN));
  }
  // Steps that take longer than was foretold lift nothing.
  expect(stepAllowedMs(paceOf(1e9), { stepMs: 1_000, movingMs: null })).toBe(600_000);
  expect(stepAllowedMs(paceOf(1e9), null)).toBe(600_000);
});

it('[CO11] the first step of a plan has four times what is predicted, at least a minute; an evaluation as many rounds', () => {
  const predicted = { stepMs: 30_000, movingMs: null };
  expect(stepAllowedMs(paceOf(null), null)).toBe(60_000);
  expect(stepAllowedMs(paceOf(null), predicted)).toBe(120_000);
  expect(stepAllowedMs(paceOf(6_000), predicted)).toBe(24_000);
  expect(evaluationAllowedMs(paceOf(null), null, 1)).toBe(60_000);
  expect(evaluationAllowedMs(paceOf(6_000), null, 10)).toBe(240_000);
});

it('[CO76] who is quiet is so for longer than heartbeats come late, for less than a step may take, and for a whole step', () => {
  for (const slowestMs of [null, 100, 2_000, 6_000, 40_000, 10_000_000]) {
    const quiet = quietMs(paceOf(slowestMs), null);
    const look = lookMs(paceOf(slowestMs), null);
    expect(quiet).toBeGreaterThan(3 * HEARTBEAT_MS);
    expect(look).toBeGreaterThan(quiet);
    expect(look).toBeLessThan(stepAllowedMs(paceOf(slowestMs), null));
    // Two steps' time, or less than the least that a step may take.
    expect(look).toBeLessThanOrEqual(Math.max(2 * (slowestMs ?? 15_000), DEADLINES.step.leastMs));
    expect(quiet).toBeLessThan(stepAllowedMs(paceOf(slowestMs), null));
    expect(quiet).toBeGreaterThanOrEqual(Math.min(slowestMs ?? 0, DEADLINES.step.mostMs / DEADLINES.step.factor));
  }
});

it('[CO11] who takes a little longer in each step buys no time: a deadline is bound by the fastest step, and by the prediction', () => {
  const dawdled = (predictedMs: number | null): number => {
    const predicted = predictedMs === null ? null : { stepMs: predictedMs, movingMs: null };
    let pace = paceAfter(paceOf(null), 2_000);
    for (let step = 0; step < 50; step++) pace = paceAfter(pace, stepAllowedMs(pace, predicted) - 1);
    return stepAllowedMs(pace, predicted);
  };
  // Half a minute, or twenty times what is predicted; without a prediction the fastest stands for it.
  expect([10, 1_000, 3_000, null].map(dawdled)).toEqual([30_000, 30_000, 60_000, 40_000]);
  // Where all steps of a plan take longer than was foretold they have as long as ever.
  expect(stepAllowedMs(paceOf(30_000), { stepMs: 1_000, movingMs: null })).toBe(120_000);
});

it('[CO73] a member that has to fetch what stands has as long for it as a slow line takes, an hour at most', () => {
  const model = modelFromConfig({
    model_type: 'gpt2',
    n_layer: 2,
    n_head: 1,
    n_embd: 64,
    n_positions: 8,
    vocab_size: 256,
  });
  if (!model.ok) throw new Error(model.reason);
  const stages = [
    { layers: [0, 1], members: [{ peer: 'a' }, { peer: 'b' }] },
    { layers: [1, 2], members: [{ peer: 'a' }] },
  ];
  const plan = { stages } as unknown as Plan; // what is asked of it
  expect(baseAllowedMs(model.value, plan)).toBe(0);
  const { blocks } = model.value;
  const [whole, table] = [blocks.reduce((sum, { elements }) => sum + elements, 0), 256 * 64];
  // a has all of it, and its last stage the token table of the tied head once more.
  expect(baseAllowedMs({ ...model.value, standing: blocks }, plan)).toBe((4 * (whole + table)) / 500);
  const huge = blocks.map((one) => ({ ...one, elements: 1e10 }));
  expect(baseAllowedMs({ ...model.value, standing: huge }, plan)).toBe(3_600_000);
});
