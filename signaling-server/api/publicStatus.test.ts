import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { modelOf, parseRunFile } from '../../swarm/run/runFile.ts';
import { failed, need } from '../commands/failure.ts';
import { minuteTraffic, sentenceOf, stepBytesOfTwo } from './publicStatus.ts';

const stepOf = (plan: number, donors: number, bytesDirect: number) => ({
  ...{ plan, donors, bytesDirect, bytesRelayed: 100, seconds: 2 },
});

it('what a donor moves in a minute is both ends of what the newest plan’s steps send, shared by its donors', () => {
  // (2 · 1,000 / 4 + 2 · 3,000 / 4) bytes in 4 s.
  expect(minuteTraffic([stepOf(1, 2, 9e9), stepOf(2, 4, 900), stepOf(2, 4, 2_900)], 5)).toEqual({
    bytes: (2_000 / 4) * 60,
    isMeasured: true,
  });
  expect(minuteTraffic([], 5)).toBe(null);
});

it('beside one who trains alone it is what a plan of two sends at that pace, whatever getting ready moved', () => {
  expect(minuteTraffic([stepOf(1, 2, 9e9), stepOf(2, 1, 9e9), stepOf(2, 1, 9e9)], 500)).toEqual({
    bytes: ((2 * 500) / 4) * 60,
    isMeasured: false,
  });
  expect(minuteTraffic([stepOf(2, 1, 0)], null)).toBe(null);
  const text = readFileSync(new URL('../../e2e/golden/untied-gpt2/run.json', import.meta.url), 'utf8');
  const file = need(parseRunFile(JSON.parse(text), 'run.json'), failed);
  const { train } = file;
  // Two stages of one donor each: what stands between them goes forward once and its gradient back, in float32.
  const values = train.globalBatchSize * train.sequenceLength * modelOf(file).width;
  expect(stepBytesOfTwo(modelOf(file), file)).toBe(2 * 4 * values);
});

it('nobody is asked to join as the first while a server waits for its donors of before', () => {
  expect(sentenceOf({ phase: 'waiting' })).toMatch(/^No donors right now/);
  expect(sentenceOf({ phase: 'waiting', isReturning: true })).toMatch(/^The server is back and waits for its donors/);
  expect(sentenceOf({ phase: 'training', isReturning: true })).toBe('The model is being trained.');
});
