import { describe, expect, test } from 'vitest';
import { at, peerId, seededRandom, totalOf } from '../base.ts';
import type { Model } from '../model/model.ts';
import { keepersOf, owner, type Plan, peers, problems } from '../plan/plan.ts';
import { scheduleProblems } from '../schedule/check.ts';
import { forwardOnly, stepSchedule } from '../schedule/lower.ts';
import { donors, outlineModel, randomPlan } from '../testing/randomPlan.ts';
import {
  defaultMicroBatches,
  donorCapacity,
  equalSplit,
  type SplitOptions,
  splitProblem,
  withAllowedCuts,
} from './equalSplit.ts';
import { withReplicas } from './replicas.ts';

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

describe('schedules with owner tables', () => {
  const LAYERS = 12;
  const model = outlineModel(LAYERS, true);

  function* cases(): Generator<readonly [count: number, samples: number, options: SplitOptions]> {
    for (const count of [1, 2, 3, 4, 6])
      for (const samples of [6, 13, 40]) {
        for (const chunks of [1, 2, 3])
          for (const schedule of ['interleaved', 'breadth-first'] as const)
            yield [count, samples, { schedule, chunks }];
        for (const pairs of [1, 2, 3]) yield [count, samples, { schedule: 'chimera', pairs }];
      }
  }

  test('[PL11] [SC9] what the split makes is a plan with the table its schedule asks for, and no lists of it wait in a circle', () => {
    let made = 0;
    for (const [count, samples, options] of cases()) {
      const label = JSON.stringify([count, samples, options]);
      const { schedule, chunks = 1, pairs = 1 } = options;
      const isLooped = schedule !== 'chimera';
      const isPossible = isLooped
        ? count * chunks <= LAYERS && (schedule === 'breadth-first' || samples >= count)
        : count % 2 === 0 && (count / 2) % pairs === 0 && samples >= count;
      expect(splitProblem(model, samples, count, options) === null, label).toBe(isPossible);
      if (!isPossible) continue;
      made++;
      const plan = equalSplit(model, samples, donors(count), options);
      expect(problems(model, { samples }, plan), label).toEqual([]);
      expect(scheduleProblems(model, plan, stepSchedule(plan)), label).toEqual([]);
      expect(scheduleProblems(model, plan, forwardOnly(plan), 'evaluation'), label).toEqual([]);
      const stages = isLooped ? count * chunks : count;
      expect(plan.stages, label).toHaveLength(stages);
      const most = Math.min(samples, 4 * stages);
      const unit = schedule === 'breadth-first' ? 1 : count;
      expect(plan.microBatches, label).toHaveLength(most - (most % unit));
    }
    expect(made).toBeGreaterThan(40);
  });

  test('[SC13] [SC14] stages loop over the donors, or lie twice over them in opposite directions', () => {
    const looped = equalSplit(model, 4, donors(2), { schedule: 'interleaved', chunks: 3 });
    expect(looped.stages.map((_, stage) => owner(looped, stage, 1))).toEqual(['d0', 'd1', 'd0', 'd1', 'd0', 'd1']);
    const both = equalSplit(model, 4, donors(4), { schedule: 'chimera' });
    const way = (microBatch: number) => both.stages.map((_, stage) => owner(both, stage, microBatch));
    expect([0, 1, 2, 3].map(way)).toEqual([
      ['d0', 'd1', 'd2', 'd3'],
      ['d0', 'd1', 'd2', 'd3'],
      ['d3', 'd2', 'd1', 'd0'],
      ['d3', 'd2', 'd1', 'd0'],
    ]);
  });

  const REFUSED: readonly [SplitOptions['schedule'] & string, number, number, SplitOptions, string][] = [
    ['interleaved', 5, 40, { chunks: 3 }, '15 stages, more than the 12 layers: --chunks 2 would do'],
    ['breadth-first', 13, 40, {}, 'at most 12 donors would do, with --chunks 1'],
    ['interleaved', 4, 3, {}, '3 samples do not make 4: at most 3 donors would do'],
    ['interleaved', 4, 40, { microBatches: 10 }, 'a multiple of the 4 donors, not 10: 8 would do'],
    ['interleaved', 4, 40, { stages: 4 }, 'has 8 stages, not 4: leave out --stages'],
    ['chimera', 3, 40, {}, 'an even number of donors, not 3: 2 or 4 would do'],
    ['chimera', 8, 40, { pairs: 3 }, 'not 3: --pairs 1 or 2 or 4 would do'],
    [
      'chimera',
      4,
      40,
      { microBatches: 6 },
      'chimera needs microBatches to be a multiple of the 4 donors, not 6: 4 would do',
    ],
    ['chimera', 14, 40, {}, '14 stages, more than the 12 layers: 12 donors would do'],
  ];
  test.each(REFUSED)(
    '%s of %i donors and %i samples with %j is refused with what would do',
    (schedule, count, samples, options, sentence) => {
      expect(splitProblem(model, samples, count, { schedule, ...options })).toContain(sentence);
    },
  );

  test('[PL11] another owner table is refused', () => {
    const said = (plan: Plan) => problems(model, { samples: 4 }, plan).map(({ rule }) => rule);
    const looped = equalSplit(model, 4, donors(2), { schedule: 'interleaved' });
    const both = equalSplit(model, 4, donors(4), { schedule: 'chimera' });
    const straight = equalSplit(model, 4, donors(4), { schedule: '1f1b' });
    const [first, second, ...rest] = looped.stages;
    const swapped = [first, second].map((stage, index) => ({
      ...stage,
      members: at([second, first], index)?.members ?? [],
    }));
    expect(said({ ...looped, stages: [...swapped, ...rest] as Plan['stages'] })).toEqual(['SC13']);
    expect(said({ ...straight, schedule: 'chimera' })).toEqual(['SC14']);
    expect(said({ ...both, schedule: 'interleaved' })).toEqual(['SC13']);
    // The two directions exchange their micro-batches in one stage.
    const crossed = both.stages.map((stage, index) =>
      index !== 1
        ? stage
        : {
            ...stage,
            members: stage.members.map((member, place, all) => ({
              ...member,
              microBatches: at(all, 1 - place).microBatches,
            })),
          },
    );
    expect(said({ ...both, stages: crossed })).toEqual(['SC14']);
    for (const schedule of ['gpipe', '1f1b', 'breadth-first'] as const)
      for (const plan of [looped, both]) expect(said({ ...plan, schedule })).toEqual([]);
  });
});

describe('where a run with islands may cut shards', () => {
  const islands = (chunk: number) =>
    ({ count: 2, exchange: { top: 2, chunk, feedback: 0.95 }, publish: 'f32', innerSteps: 3 }) as never;

  test('[PL22] a plan made for islands has no other cuts, covers what it covered, and has nobody else', () => {
    let moved = 0;
    for (let seed = 1; seed <= 300; seed++) {
      const { model, samples, plan } = randomPlan(seededRandom(seed));
      const batch = { samples, islands: islands(5) };
      const cut = withAllowedCuts(model, batch.islands, plan);
      expect(problems(model, batch, cut), `seed ${seed}`).toEqual([]);
      expect(peers(cut).every((peer) => peers(plan).includes(peer))).toBe(true);
      if (problems(model, batch, plan).some(({ rule }) => rule === 'PL22')) moved++;
      else expect(cut).toEqual(plan);
    }
    expect(moved).toBeGreaterThan(50);
  });

  test('[PL22] a shard that is cut for a replica without room is cut there too', () => {
    const model = outlineModel(1, true);
    const [a, b] = ['a', 'b'].map(peerId);
    if (!a || !b) throw new Error('two peers');
    const wide = { ...model, blocks: model.blocks.map((block) => scaled(block, 100)) };
    const run = { samples: 4, islands: islands(300) };
    const plan = equalSplit(wide, 4, [a]);
    const bytes = (kept: Plan['state']): number =>
      totalOf(
        kept.flatMap(({ shards }) => shards),
        ({ range: [from, to] }) => 16 * (to - from),
      );
    const placed = withReplicas({
      ...{ model: wide, plan, count: 1, candidates: [a, b], before: null, islands: run.islands },
      roomBytes: (peer, kept) => (peer === a ? 1e9 : 16 * 5_000) - bytes(kept),
      byteCost: () => 1,
      nearness: () => 0,
    });
    expect(placed.state.some(({ shards }) => shards.length > 1)).toBe(true);
    expect(placed.state.flatMap(({ shards }) => shards).some((shard) => keepersOf(shard).length > 1)).toBe(true);
    expect(problems(wide, run, placed)).toEqual([]);
  });

  const scaled = (block: ReturnType<typeof outlineModel>['blocks'][number], by: number) => ({
    ...block,
    elements: block.elements * by,
    tensors: block.tensors.map((tensor) => ({ ...tensor, offset: tensor.offset * by, elements: tensor.elements * by })),
  });
});
