import { describe, expect, test } from 'vitest';
import type { Model } from '../model/model.ts';
import { type Plan, peers, problems } from '../plan/plan.ts';
import { donors, outlineModel } from '../testing/randomPlan.ts';
import { defaultMicroBatches, donorCapacity, equalSplit, splitProblem } from './equalSplit.ts';

describe('equalSplit', () => {
  test('is valid for every number of peers and micro-batches', () => {
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

  test('the first stages get the layers that do not divide, the last one never', () => {
    const plan = equalSplit(outlineModel(7, true), 8, donors(4));
    expect(plan.stages.map(({ layers }) => layers)).toEqual([
      [0, 2],
      [2, 4],
      [4, 6],
      [6, 7],
    ]);
  });

  test('min(B, 4·stages) micro-batches, the larger ones first', () => {
    expect(defaultMicroBatches(64, 2)).toBe(8);
    expect(defaultMicroBatches(3, 2)).toBe(3);
    const sizes = (plan: ReturnType<typeof equalSplit>) =>
      plan.microBatches.map(({ samples: [from, to] }) => to - from);
    expect(sizes(equalSplit(outlineModel(2, true), 10, donors(1)))).toEqual([3, 3, 2, 2]);
    expect(sizes(equalSplit(outlineModel(2, true), 10, donors(2), { microBatches: 3 }))).toEqual([4, 3, 3]);
  });

  test('a block with one holder stands whole there: a tied embedding on the first stage', () => {
    const plan = equalSplit(outlineModel(2, true), 4, donors(2));
    const keepers = plan.state.map(({ block, shards }) => `${block} ${shards.map(({ peer }) => peer)}`);
    expect(keepers).toEqual(['embedding d0', 'layer.0 d0', 'layer.1 d1', 'head d1']);
  });

  test('refuses what cannot be, in a sentence', () => {
    const model = outlineModel(2, true);
    expect(splitProblem(model, 4, 4)).toBeNull();
    expect(splitProblem(model, 4, 2, { stages: 3 })).toBe('3 stages do not fit 2 layers');
    expect(splitProblem(model, 4, 1, { microBatches: 5 })).toBe('4 samples do not make 5 micro-batches');
    expect(splitProblem(model, 2, 5)).toBe(
      'not every one of 5 donors can compute: a stage would have 3 lanes for 2 samples a step',
    );
    expect(splitProblem(model, 8, 8, { microBatches: 3 })).toBe(
      'not every one of 8 donors can compute: a stage would have 4 lanes for 3 micro-batches',
    );
    expect(splitProblem(model, 4, 5, { stages: 1 })).toContain('5 lanes for 4 samples');
    expect(() => equalSplit(model, 2, donors(5))).toThrow('not every one of 5 donors');
  });
});

describe('lanes', () => {
  const laneCounts = (plan: Plan) => plan.stages.map(({ members }) => members.length);
  const hands = (plan: Plan, stage: number) => plan.stages[stage]?.members.map(({ microBatches }) => microBatches);

  test('is valid for every number of donors, stages, samples and micro-batches that is not refused', () => {
    for (let layers = 1; layers <= 4; layers++)
      for (let count = 1; count <= donorCapacity({ layers }); count++)
        for (const stages of [undefined, 1, 2, layers])
          for (const samples of [1, 3, 8, 13])
            for (const microBatches of [undefined, 2, 7]) {
              const model = outlineModel(layers, count % 2 === 0);
              const options = {
                ...(stages === undefined ? {} : { stages }),
                ...(microBatches === undefined ? {} : { microBatches }),
              };
              if (splitProblem(model, samples, count, options) !== null) continue;
              const plan = equalSplit(model, samples, donors(count), options);
              expect(problems(model, { samples }, plan)).toEqual([]);
              expect(peers(plan)).toEqual(donors(count));
              const lanes = laneCounts(plan);
              expect(Math.max(...lanes) - Math.min(...lanes)).toBeLessThanOrEqual(1);
              if (stages !== undefined) expect(lanes).toHaveLength(Math.min(stages, count));
              else if (count > 1 && layers > 1) expect(lanes.length).toBeGreaterThanOrEqual(2);
            }
  });

  test('more donors than layers: fewer stages only where that shortens the step', () => {
    const model = outlineModel(4, true);
    const shape = (count: number, samples: number) => laneCounts(equalSplit(model, samples, donors(count)));
    expect(shape(4, 8)).toEqual([1, 1, 1, 1]);
    expect(shape(6, 8)).toEqual([3, 3]);
    expect(shape(8, 64)).toEqual([2, 2, 2, 2]);
    expect(shape(16, 64)).toEqual([4, 4, 4, 4]);
    expect(shape(16, 4)).toEqual([4, 4, 4, 4]);
  });

  test('the most expensive stages have the donors left over: more layers, or the head', () => {
    const deep = equalSplit(outlineModel(3, true), 12, donors(3), { stages: 2 });
    expect(deep.stages.map(({ layers, members }) => [layers[1] - layers[0], members.length])).toEqual([
      [2, 2],
      [1, 1],
    ]);
    const even = equalSplit(outlineModel(2, true), 12, donors(3), { stages: 2 });
    expect(laneCounts(even)).toEqual([1, 2]);
  });

  test('micro-batches in turn, each on one lane through stages of as many lanes', () => {
    const plan = equalSplit(outlineModel(2, true), 6, donors(4), { microBatches: 6 });
    expect(hands(plan, 0)).toEqual([
      [0, 2, 4],
      [1, 3, 5],
    ]);
    expect(hands(plan, 1)).toEqual(hands(plan, 0));
  });

  test('the lane with the fewest samples is next where micro-batches differ', () => {
    const plan = equalSplit(outlineModel(1, true), 10, donors(3), { microBatches: 4 });
    expect(plan.microBatches.map(({ samples: [from, to] }) => to - from)).toEqual([3, 3, 2, 2]);
    expect(hands(plan, 0)).toEqual([[0], [1], [2, 3]]);
  });

  test('there is a micro-batch for every lane', () => {
    expect(equalSplit(outlineModel(1, true), 40, donors(6), { stages: 1 }).microBatches).toHaveLength(6);
  });

  test('a block’s state is spread over its holders in multiples of 64 elements, tied tables over the first stage', () => {
    const big: Pick<Model, 'layers' | 'blocks'> = {
      layers: 1,
      blocks: [
        { name: 'embedding', tensors: [], elements: 300 },
        { name: 'layer.0', tensors: [], elements: 64 },
        { name: 'head', tensors: [], elements: 100 },
      ],
    };
    const plan = equalSplit(big, 3, donors(3));
    const shards = plan.state.map(({ block, shards }) => [block, ...shards.map(({ peer, range }) => [peer, ...range])]);
    expect(shards).toEqual([
      ['embedding', ['d0', 0, 128], ['d1', 128, 256], ['d2', 256, 300]],
      ['layer.0', ['d0', 0, 64]],
      ['head', ['d0', 0, 64], ['d1', 64, 100]],
    ]);
  });
});
