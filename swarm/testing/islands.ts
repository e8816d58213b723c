/** Islands for tests that do no arithmetic: who does which step when. */
import type { Islands } from '../run/runFile.ts';

export const islandsOf = (count: number, innerSteps: number): Islands => ({
  count,
  innerSteps,
  outer: { learningRate: 1, momentum: 0.5 },
  exchange: 'f32',
  publish: 'f32',
  overlap: false,
});
