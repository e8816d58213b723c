/**
 * Every schedule, with donors that come, leave and are lost: what is computed is in exact integers, so that the state after
 * each step is the sequential run's bit for bit, whatever plans it went through.
 */
import { describe, expect, test } from 'vitest';
import { seededRandom } from '../../../../swarm/base.ts';
import type { ScheduleName } from '../../../../swarm/plan/plan.ts';
import type { SplitOptions } from '../../../../swarm/planner/equalSplit.ts';
import { ANY, HARMS, type Mischief, mischiefs, ROLES } from './harms.ts';
import { pipeline } from './plans.ts';
import { simulate } from './simulation.ts';

const LIMIT_MS = 600_000;
const LAYERS = 8;
/** Looped with the second stage of a donor right after its first one where there is one donor. */
const WISHES: readonly (SplitOptions & { readonly schedule: ScheduleName })[] = [
  { schedule: 'interleaved', chunks: 2 },
  { schedule: 'breadth-first', chunks: 2 },
  { schedule: 'chimera', pairs: 1 },
  { schedule: 'chimera', pairs: 2 },
  { schedule: '1f1b', warmup: 'overlap' },
  { schedule: 'eager', stages: 4 },
  { schedule: 'eager', warmup: 'overlap' },
  { schedule: 'varuna' },
];
const planned = (wish: SplitOptions) => ({ makePlan: pipeline, wishes: { ...wish, replicas: 1 } });
const nameOf = (wish: SplitOptions): string => Object.values(wish).join(' ');

describe.each(WISHES.map((wish) => [nameOf(wish), wish] as const))('%s', (_, wish) => {
  const scenario = { steps: 5, layers: LAYERS, checkpointEverySteps: 4, limitMs: LIMIT_MS, ...planned(wish) };

  test.each([1, 2, 4])(
    '[SC27] [SC28] [RE50] of %d donors ends as the sequential run does, evaluations too',
    async (donors) => {
      const ending = await simulate({ ...scenario, seed: donors, donors, evaluation: true });
      expect(ending).toMatchObject({ problems: [], rollBacks: [], epochs: 1 });
    },
  );

  test.each(['join', 'leave', 'kill', 'freeze', 'killServer'] as const)(
    '[SC30] [RE52] goes on after a %s with the nearest that can be had',
    async (harm) => {
      const seed = 1 + HARMS.indexOf(harm);
      const harms: Mischief[] = [{ harm, whom: 'middle', point: 'frame gradient', nth: 11 }];
      const mischief = mischiefs(harms, seededRandom(seed));
      const ending = await simulate({ ...scenario, seed, donors: 4, mischief });
      expect(ending.problems).toEqual([]);
    },
  );
});

test.runIf(process.env.SHOAL_LONG === '1')(
  '[SC30] [RE52] any harms at any point under any schedule',
  { timeout: 3_600_000 },
  async () => {
    const found: string[] = [];
    for (let seed = 1; seed <= 100; seed++) {
      const random = seededRandom(seed);
      const pick = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)] as T; // below its length
      const wish = pick(WISHES);
      const harms = Array.from({ length: 1 + Math.floor(3 * random()) }, () => ({
        ...{ harm: pick(HARMS), whom: pick(ROLES), point: ANY, nth: 1 + Math.floor(2_000 * random()) },
      }));
      const { problems } = await simulate({
        ...{ seed, donors: 1 + Math.floor(5 * random()), steps: 8, layers: LAYERS, limitMs: 3_600_000 },
        ...{ ...planned(wish), mischief: mischiefs(harms, random) },
      });
      found.push(...problems.map((problem) => `${seed} ${nameOf(wish)}: ${problem}`));
    }
    expect(found).toEqual([]);
  },
);
