import { describe, expect, test } from 'vitest';
import { peerId } from '../base.ts';
import { parseSchedule } from '../testing/scheduleText.ts';
import { slots } from './slots.ts';

const a = peerId('a');

describe('slots', () => {
  const of = (text: string) => [...(slots(parseSchedule(text)).get(a) ?? [])];

  test('are the most micro-batches between forward and backward of a stage', () => {
    expect(of('a: 0F0 0F1 0F2 0B0 0B1 0B2')).toEqual([[0, 3]]);
    expect(of('a: 0F0 0F1 0B0 0F2 0B1 0B2')).toEqual([[0, 2]]);
    expect(of('a: 0F0 2F0 2B0 2F1 2B1 0B0')).toEqual([
      [0, 1],
      [2, 1],
    ]);
  });

  test('an evaluation needs one', () => {
    expect(of('a: 0F0 0SEND_F0 0F1 0SEND_F1')).toEqual([[0, 1]]);
  });
});

test('a slot is free when the stage before of the same peer has read the gradient in it', () => {
  const counts = (text: string) => [...slots(parseSchedule(text))].map(([, stages]) => [...stages]);
  // Where 1F1 took the slot of 1B0 it would write over what 0B0 reads.
  expect(counts('a: 0F0 1F0 0F1 1B0 1F1 0B0 1B1 0B1')).toEqual([
    [
      [0, 2],
      [1, 2],
    ],
  ]);
  expect(counts('a: 0F0 1F0 0F1 1B0 0B0 1F1 1B1 0B1')).toEqual([
    [
      [0, 2],
      [1, 1],
    ],
  ]);
  expect(counts('a: 0F0 0F1 0B0 0B1\nb: 1F0 1B0 1F1 1B1')).toEqual([[[0, 2]], [[1, 1]]]);
});
