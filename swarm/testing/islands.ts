/** Islands for tests that do no arithmetic: who does which step when. */
import type { AutoIslands, CountedIslands } from '../run/runFile.ts';

const SETTINGS = {
  outer: { learningRate: 1, momentum: 0.5 },
  exchange: 'f32',
  publish: 'f32',
  overlap: false,
} as const;

export const islandsOf = (count: number, innerSteps: number): CountedIslands => ({ count, innerSteps, ...SETTINGS });

export const autoIslands = (roundSeconds: number): AutoIslands => ({ count: 'auto', roundSeconds, ...SETTINGS });

/** What a run has that says nothing else. */
export const sparseIslands = (roundSeconds: number): AutoIslands => ({
  ...autoIslands(roundSeconds),
  ...{ exchange: { top: 64, chunk: 4096, feedback: 0.95 }, publish: 'int8' },
});

/** The next round goes on beside a meeting. */
export const overlapping = <Of extends CountedIslands | AutoIslands>(islands: Of): Of => ({
  ...islands,
  overlap: true,
});
