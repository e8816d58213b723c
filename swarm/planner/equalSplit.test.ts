import { describe, expect, test } from 'vitest';
import { peerId } from '../base.ts';
import { peers, problems } from '../plan.ts';
import { outlineModel } from '../randomPlan.ts';
import { defaultMicroBatches, equalSplit } from './equalSplit.ts';

const donors = (count: number) => Array.from({ length: count }, (_, index) => peerId(`d${index}`));

describe('equalSplit', () => {
  test('[PL14] is valid for every number of peers and micro-batches', () => {
    for (const tied of [true, false])
      for (let layers = 1; layers <= 5; layers++)
        for (let count = 1; count <= layers; count++)
          for (let samples = 1; samples <= 7; samples++)
            for (let microBatches = 1; microBatches <= samples; microBatches++) {
              const model = outlineModel(layers, tied);
              const plan = equalSplit(model, samples, donors(count), { microBatches });
              expect(problems(model, { samples }, plan)).toEqual([]);
              expect(peers(plan)).toEqual(donors(count));
              expect(plan.microBatches).toHaveLength(microBatches);
            }
  });

  test('[PL14] the first stages get the layers that do not divide, the last one never', () => {
    const plan = equalSplit(outlineModel(7, true), 8, donors(4));
    expect(plan.stages.map(({ layers }) => layers)).toEqual([
      [0, 2],
      [2, 4],
      [4, 6],
      [6, 7],
    ]);
  });

  test('[PL14] min(B, 4·stages) micro-batches, the larger ones first', () => {
    expect(defaultMicroBatches(64, 2)).toBe(8);
    expect(defaultMicroBatches(3, 2)).toBe(3);
    const sizes = (plan: ReturnType<typeof equalSplit>) =>
      plan.microBatches.map(({ samples: [from, to] }) => to - from);
    expect(sizes(equalSplit(outlineModel(2, true), 10, donors(1)))).toEqual([3, 3, 2, 2]);
    expect(sizes(equalSplit(outlineModel(2, true), 10, donors(2), { microBatches: 3 }))).toEqual([4, 3, 3]);
  });

  test('[PL14] each block stands whole on its first holder: a tied embedding on the first stage', () => {
    const plan = equalSplit(outlineModel(2, true), 4, donors(2));
    const keepers = plan.state.map(({ block, shards }) => `${block} ${shards.map(({ peer }) => peer)}`);
    expect(keepers).toEqual(['embedding d0', 'layer.0 d0', 'layer.1 d1', 'head d1']);
  });

  test('refuses more stages than layers and more micro-batches than samples', () => {
    expect(() => equalSplit(outlineModel(2, true), 4, donors(3))).toThrow('3 stages do not fit 2 layers');
    expect(() => equalSplit(outlineModel(2, true), 4, donors(1), { microBatches: 5 })).toThrow(
      '4 samples do not make 5 micro-batches',
    );
  });
});
