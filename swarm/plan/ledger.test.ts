import { describe, expect, it } from 'vitest';
import { peerId } from '../base.ts';
import { stepLedger } from './ledger.ts';
import type { Plan } from './plan.ts';

const member = (peer: string, samples: number) => ({ peer: peerId(peer), microBatches: [], samples, recompute: [] });

describe('stepLedger', () => {
  it('[LE1] shares the tokens of a step out by layers and samples, each counted once', () => {
    const plan: Plan = {
      stages: [
        { layers: [0, 3], members: [member('a', 4), member('b', 2)] },
        { layers: [3, 4], members: [member('c', 6)] },
        { layers: [4, 6], members: [member('a', 6)] },
      ],
      microBatches: [],
      state: [],
      schedule: 'gpipe',
    };
    expect(stepLedger(plan, 6, 10)).toEqual([
      { peer: 'a', tokens: (4 * 3 + 6 * 2) * (10 / 6) },
      { peer: 'b', tokens: 2 * 3 * (10 / 6) },
      { peer: 'c', tokens: 6 * 1 * (10 / 6) },
    ]);
    expect(stepLedger(plan, 6, 10).reduce((sum, { tokens }) => sum + tokens, 0)).toBe(60);
  });
});
