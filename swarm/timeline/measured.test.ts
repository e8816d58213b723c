import { expect, test } from 'vitest';
import { peerId } from '../base.ts';
import { equalSplit } from '../planner/equalSplit.ts';
import { formatAction } from '../schedule/action.ts';
import { outlineModel } from '../testing/randomPlan.ts';
import { measuredSpans, type ReportedSpan, reported } from './measured.ts';

const [A, B] = [peerId('a'), peerId('b')];
const plan = equalSplit(outlineModel(4, false), 4, [A, B], { microBatches: 2 });
const span = (action: string, start: number, end: number): ReportedSpan => ({ action, start, end });
const shown = (spans: readonly ReportedSpan[]): string[] =>
  measuredSpans(plan, A, spans).map(
    ({ action, startSeconds, endSeconds }) => `${formatAction(action)} ${startSeconds}-${endSeconds}`,
  );

test('work waits in the GPU’s queue: it begins when the work before it has ended', () => {
  expect(shown([span('0F0', 10, 13), span('0F1', 10.5, 15), span('0B0', 20, 21)])).toEqual([
    '0F0 10-13',
    '0F1 13-15',
    '0B0 20-21',
  ]);
});

test('spans are taken in the order of their ends', () => {
  expect(shown([span('0F1', 1, 5), span('0F0', 0, 3)])).toEqual(['0F0 0-3', '0F1 3-5']);
});

test('a report says when work was handed in, and says it back', () => {
  const spans = [span('0F0', 0, 2), { ...span('0F1', 1, 3), aloneSeconds: 0.5 }];
  expect(measuredSpans(plan, A, spans).map(reported)).toEqual(spans);
});

test('what is no work of this peer is left out', () => {
  const odd = ['9F0', '0F9', '1F0', '0SEND_F0', '0REDUCE', '1REDUCE', 'F', '', '0F0 ', '<b>F0'];
  expect(shown([...odd.map((action) => span(action, 0, 1)), span('0B0', 3, 2)])).toEqual([]);
});
