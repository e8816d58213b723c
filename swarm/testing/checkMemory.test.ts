import { expect, test } from 'vitest';
import { arrayOf } from '../base.ts';
import { chimera } from '../schedule/chimera.ts';
import { gpipe } from '../schedule/gpipe.ts';
import { oneForwardOneBackward } from '../schedule/oneForwardOneBackward.ts';
import { bidirectionalPlan, loopedPlan } from '../schedule/placement.ts';
import { memoryProblems } from './checkMemory.ts';
import { donors } from './randomPlan.ts';
import { parseSchedule } from './scheduleText.ts';

const roomFor = (microBatches: number) => ({ bytesInFlight: () => 10, bytesFree: () => 10 * microBatches });

test('[LI3] an overrun is shown with the forward that does not fit', () => {
  const schedule = parseSchedule('a: 0F0 0F1 0F2 0B0 0B1 0B2\nb: 1F0 1B0 1F1 1B1 1F2 1B2');
  expect(memoryProblems(schedule, roomFor(2))).toEqual([
    {
      rule: 'LI3',
      text: [
        'micro-batches in flight do not fit:',
        'a: 0F0 0F1 [0F2] 0B0 0B1 0B2  needs 30 of 20 bytes',
        'b: 1F0 1B0 1F1 1B1 1F2 1B2',
      ].join('\n'),
    },
  ]);
  expect(memoryProblems(schedule, roomFor(3))).toEqual([]);
});

test('[LI3] only the neighbourhood of a place in long lists is shown', () => {
  const [problem] = memoryProblems(gpipe(loopedPlan(donors(1), 100, 1)), roomFor(50));
  expect(problem?.text.split('\n')[1]).toBe(
    `d0: … ${arrayOf(25, (index) => (index === 12 ? '[0F50]' : `0F${38 + index}`)).join(' ')} …  needs 510 of 500 bytes`,
  );
});

test('[LI3] 1f1b fits where gpipe does not, chimera is in between', () => {
  const plan = loopedPlan(donors(4), 8, 1);
  expect(memoryProblems(oneForwardOneBackward(plan), roomFor(4))).toEqual([]);
  expect(memoryProblems(oneForwardOneBackward(plan), roomFor(3))).toHaveLength(1);
  expect(memoryProblems(gpipe(plan), roomFor(7))).toHaveLength(1);
  expect(memoryProblems(chimera(bidirectionalPlan(donors(4), 8, 1)), roomFor(4))).toEqual([]);
});

test('[LI3] each stage and peer has its own size', () => {
  const schedule = parseSchedule('a: 0F0 2F0 2B0 0B0\nb: 1F0 1B0');
  const use = { bytesInFlight: (stage: number) => 2 ** stage, bytesFree: () => 4 };
  expect(memoryProblems(schedule, use)[0]?.text).toContain('a: 0F0 [2F0] 2B0 0B0  needs 5 of 4 bytes');
});
