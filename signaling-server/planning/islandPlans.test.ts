import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { peerId } from '../../swarm/base.ts';
import { type Plan, peers } from '../../swarm/plan/plan.ts';
import { equalSplit } from '../../swarm/planner/equalSplit.ts';
import { autoIslands, islandsOf } from '../../swarm/testing/islands.ts';
import { outlineModel } from '../../swarm/testing/randomPlan.ts';
import { readPlans } from './islandPlans.ts';

const MODEL = outlineModel(2, false);
const SAMPLES = 4;
const planOf = (...names: string[]): Plan => equalSplit(MODEL, SAMPLES, names.map(peerId));

let path = '';
beforeEach(() => {
  path = join(mkdtempSync(join(tmpdir(), 'shoal-plans-')), 'plan.json');
});
afterEach(() => rmSync(join(path, '..'), { recursive: true, force: true }));

function read(islands: readonly unknown[], count: number | 'auto' = 3) {
  const predicted = { roundSeconds: 1, meetingSeconds: 1, tokensPerSecond: 1 };
  writeFileSync(path, JSON.stringify({ islands, predicted, synchronous: null, idle: [], reasons: [] }));
  return readPlans(path, MODEL, {
    samples: SAMPLES,
    islands: count === 'auto' ? autoIslands(10) : islandsOf(count, 2),
  });
}

test('a plan an island: those with the same donors are done by turns', async () => {
  const plans = await read([planOf('a'), planOf('b', 'c'), planOf('a')]);
  if (!plans.ok) throw new Error(plans.reason);
  expect(plans.value.map(({ islands, ...plan }) => [islands, peers(plan)])).toEqual([
    [[0, 2], ['a']],
    [[1], ['b', 'c']],
  ]);
  // All of them by the same donors is a plan as of any run.
  expect(await read([planOf('a'), planOf('a')], 2)).toEqual({ ok: true, value: [planOf('a')] });
});

test.each<[readonly unknown[], string]>([
  [[planOf('a')], 'islands: 1 plans for 3 islands: expected one for each'],
  [
    [planOf('a'), planOf('b'), planOf('a', 'c')],
    'islands[2] has donors of islands[0] and another plan: expected the same plan, by turns, or other donors',
  ],
  [[planOf('a'), { ...planOf('b'), islands: [0] }, planOf('c')], 'islands[1]: islands: a plan'],
  [[planOf('a'), { ...planOf('b'), stages: [] }, planOf('c')], 'islands[1]: layer 0 of the model is in no range'],
])('what is wrong is refused with its place: %#', async (islands, reason) => {
  const refused = await read(islands);
  expect(!refused.ok && refused.reason).toContain(`${path}: ${reason}`);
});

test('a run that decides by itself how many islands there are takes no plan for each', async () => {
  const refused = await read([planOf('a'), planOf('b')], 'auto');
  expect(!refused.ok && refused.reason).toContain('train.islands.count is "auto": expected a number');
});
