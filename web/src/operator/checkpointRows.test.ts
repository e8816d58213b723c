import { expect, it } from 'vitest';
import { goBackQuestion } from './checkpointRows.tsx';

const at = (committedSteps: number, kept = false) => ({ committedSteps, kept, samplesAfter: 0, evaluationsAfter: 0 });

it('who goes back reads what goes, counted, and what stays', () => {
  const target = { ...at(20), samplesAfter: 3, evaluationsAfter: 1 };
  const checkpoints = [at(0), target, at(30), at(40, true), at(45)];
  expect(goBackQuestion({ committedSteps: 50, checkpoints }, target)).toBe(
    '30 steps after 20 will be done again, and the credit for them is taken back. Deleted: 3 samples, 1 evaluation, 2 checkpoints that you don’t keep. Kept checkpoints stay, to export or clone: 40.',
  );
  expect(goBackQuestion({ committedSteps: 31, checkpoints: [at(0), at(30)] }, at(0))).toBe(
    '31 steps after 0 will be done again, and the credit for them is taken back. Deleted: 1 checkpoint that you don’t keep. To save it, press No and mark it Keep.',
  );
  expect(goBackQuestion({ committedSteps: 31, checkpoints: [at(0), at(20), at(30)] }, at(0))).toBe(
    '31 steps after 0 will be done again, and the credit for them is taken back. Deleted: 2 checkpoints that you don’t keep. To save one of these checkpoints, press No and mark it Keep.',
  );
  expect(goBackQuestion({ committedSteps: 21, checkpoints: [at(0), at(20)] }, at(20))).toBe(
    '1 step after 20 will be done again, and the credit for it is taken back.',
  );
});
