import { describe, expect, it } from 'vitest';
import { peerId, totalOf } from '../base.ts';
import { stepLedger } from './ledger.ts';
import type { Plan } from './plan.ts';

const member = (peer: string, microBatches: number[]) => ({
  ...{ peer: peerId(peer), microBatches, samples: 0, recompute: [] },
});

describe('stepLedger', () => {
  it('[LE1] shares the tokens of a step out by layers and samples, each counted once', () => {
    const plan: Plan = {
      stages: [
        { layers: [0, 3], members: [member('a', [0]), member('b', [1])] },
        { layers: [3, 4], members: [member('c', [0, 1])] },
        { layers: [4, 6], members: [member('a', [0, 1])] },
      ],
      microBatches: [
        { id: 0, samples: [0, 4] },
        { id: 1, samples: [4, 6] },
      ],
      state: [],
      schedule: 'gpipe',
    };
    const ledger = stepLedger(plan, 6, ([from, to]) => 10 * (to - from));
    expect(ledger).toEqual([
      { peer: 'a', tokens: (4 * 3 + 6 * 2) * (10 / 6) },
      { peer: 'b', tokens: 2 * 3 * (10 / 6) },
      { peer: 'c', tokens: 6 * 1 * (10 / 6) },
    ]);
    expect(totalOf(ledger, ({ tokens }) => tokens)).toBe(60);
  });
});
