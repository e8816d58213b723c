import { describe, expect, test } from 'vitest';
import { peerId } from '../../../swarm/base.ts';
import { spansOf } from '../../../swarm/testing/timelineText.ts';
import type { DonorStatus, StepTrace } from '../executor/protocol.ts';
import { INITIAL_STATE } from './state.ts';
import { minuteText, phaseWords, traceText, workSentence, workShare } from './work.ts';

const OTHER = peerId('3f2a1c');
const TRACE: StepTrace = {
  ...{ epoch: 1, step: 4, seconds: 10, bytes: 0 },
  spans: spansOf(peerId('this'), '0F0 0-2, 0F1 2-3, 0B0 8-9'),
  waits: [
    { peer: OTHER, startSeconds: 3, endSeconds: 8 },
    { peer: null, startSeconds: 9, endSeconds: 10 },
  ],
};

describe('a step in words', () => {
  test('its share of work is that of its spans in the whole step', () => {
    expect(workShare(TRACE)).toBeCloseTo(0.4);
    expect(workShare({ ...TRACE, seconds: 0 })).toBe(0);
  });

  test('it says whether this GPU works hard, rests as it was told, or waits and for whom', () => {
    const half = { ...INITIAL_STATE, limits: { ...INITIAL_STATE.limits, speed: 0.5 } };
    expect(workSentence(INITIAL_STATE, { ...TRACE, seconds: 4 })).toBe(
      'Working hard: your GPU was busy for 100 % of the last step.',
    );
    expect(workSentence(INITIAL_STATE, TRACE)).toBe(
      'Mostly waiting for the others: your GPU was busy for 40 % of the last step.',
    );
    expect(workSentence(half, { ...TRACE, waits: [] })).toBe(
      'Taking it easy, as you chose: your GPU was busy for 40 % of the last step.',
    );
    expect(workSentence(half, TRACE)).toMatch(/^Mostly waiting/);
    // Nobody who is told that this tab eases off reads that it works hard.
    expect(workSentence({ ...half, eased: 0.1 }, { ...TRACE, seconds: 4, waits: [] })).toMatch(/^Easing off/);
    expect(workSentence({ ...half, eased: 0.5 }, { ...TRACE, waits: [] })).toBe(
      'Easing off for this computer: your GPU was busy for 40 % of the last step.',
    );
  });

  test('who is busy for more than it gives reads why: other work stretches the same part', () => {
    const quarter = { ...INITIAL_STATE, limits: { ...INITIAL_STATE.limits, speed: 0.25 } };
    expect(workSentence(quarter, TRACE)).toBe(
      'Other work slows this GPU: it was busy for 40 % of the last step, not 25 %.',
    );
  });

  test('every sentence of a step fits into the three lines that are kept for it', () => {
    const half = { ...INITIAL_STATE, limits: { ...INITIAL_STATE.limits, speed: 0.5 } };
    const sentences = [half, INITIAL_STATE, { ...half, eased: 0.5 }].flatMap((state) =>
      [TRACE, { ...TRACE, waits: [] }, { ...TRACE, seconds: 4 }].map((trace) => workSentence(state, trace)),
    );
    for (const sentence of sentences) expect(sentence.length, sentence).toBeLessThanOrEqual(80);
  });

  test('who trains alone is not said to wait for others', () => {
    const adapter = { vendor: '', architecture: '', description: '', software: false, browser: 'b' };
    const alone = {
      ...{ run: 'r', phase: 'training' as const, sentence: '', generation: 1, epoch: 1, committedSteps: 4, steps: 9 },
      ...{ loss: null, evaluationLoss: null, tokensPerSecond: null },
      donors: [{ peer: OTHER, adapter, state: 'computing' as const, stages: [], tokens: 0 }],
    };
    expect(workSentence({ ...INITIAL_STATE, snapshot: alone }, TRACE)).toBe(
      'You train it alone right now: your GPU was busy for 40 % of the last step.',
    );
  });

  test('a screen reader hears the same', () => {
    expect(traceText(INITIAL_STATE, TRACE)).toBe(
      'Step 5 took 10 s: 2 forward, 1 backward. Waited longest for donor 3f2a1c: 5.00 s.',
    );
  });

  test('traffic is compared with what a person knows', () => {
    expect([4e5, 3e6, 2e7, 6e7, 2e8, 1e9].map(minuteText)).toEqual([
      '400 kB a minute, less than reading news pages',
      '3.0 MB a minute, about as much as listening to music',
      '20 MB a minute, about as much as a video call',
      '60 MB a minute, about as much as a film in HD',
      '200 MB a minute, about as much as a film in 4K',
      '1.0 GB a minute, more than a film in 4K',
    ]);
  });
});

test('what it does at this moment is one word, with whom it waits for', () => {
  const status: DonorStatus = {
    ...{
      activity: 'computing' as const,
      step: 0,
      stages: [],
      stageCount: 0,
      gpuMemoryBytes: 0,
      droppedFrames: 0,
      answeredRows: 0,
      busyShare: null,
    },
    ...{
      bytesSent: 0,
      bytesReceived: 0,
      microBatches: { done: 0, all: 2 },
      waitsFor: null,
      rates: { sent: 0, received: 0, mostReceived: 0 },
      lastStep: null,
    },
    direction: null,
  };
  const words = (change: Partial<Parameters<typeof phaseWords>[1]>) =>
    Object.values(phaseWords({ snapshot: null }, { ...status, ...change })).join(' ');
  expect(words({})).toMatch(/^Forward/);
  expect(words({ direction: 'backward' })).toMatch(/^Backward/);
  expect(words({ microBatches: { done: 2, all: 2 } })).toBe('Sending gradients');
  expect(words({ waitsFor: peerId('abcdef') })).toBe('Waiting for donor abcdef');
  expect(words({ activity: 'updating' })).toBe('Updating the weights');
});
