import { expect, test } from 'vitest';
import { at } from '../base.ts';
import { owner, type Plan, problems } from '../plan/plan.ts';
import { scheduleProblems } from '../schedule/check.ts';
import { forwardOnly, stepSchedule } from '../schedule/lower.ts';
import { donors, outlineModel } from '../testing/randomPlan.ts';
import { equalSplit, type SplitOptions, splitProblem } from './equalSplit.ts';

const LAYERS = 12;
const model = outlineModel(LAYERS, true);

function* cases(): Generator<readonly [count: number, samples: number, options: SplitOptions]> {
  for (const count of [1, 2, 3, 4, 6])
    for (const samples of [6, 13, 40]) {
      for (const chunks of [1, 2, 3])
        for (const schedule of ['interleaved', 'breadth-first'] as const) yield [count, samples, { schedule, chunks }];
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
