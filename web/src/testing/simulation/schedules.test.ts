/**
 * Every schedule, and every place of the state, with donors that come, leave and are lost: what is computed is in exact
 * integers, so that the state after each step is the sequential run's bit for bit, whatever plans it went through.
 */
import { describe, expect, test } from 'vitest';
import type { PlanWishes } from '../../../../swarm/autoplan/wishes.ts';
import { arrayOf, seededRandom } from '../../../../swarm/base.ts';
import { acceptedModel } from '../../../../swarm/model/acceptedModel.ts';
import { problems, type ScheduleName } from '../../../../swarm/plan/plan.ts';
import type { SplitOptions } from '../../../../swarm/planner/equalSplit.ts';
import { donors } from '../../../../swarm/testing/randomPlan.ts';
import {
  allAtOnce,
  gatheredPlan,
  keeperPlan,
  layeredPlan,
  mainMemoryPlan,
  type StatePlan,
} from '../../../../swarm/testing/statePlans.ts';
import { ANY, HARMS, type Mischief, mischiefs, ROLES } from './harms.ts';
import { pipeline } from './plans.ts';
import { MODEL, SAMPLES, simulate } from './simulation.ts';

const LIMIT_MS = 600_000;
const LAYERS = 8;
const IS_LONG = process.env.SHOAL_LONG === '1';
const model = acceptedModel({ model: { ...MODEL, n_layer: LAYERS } });
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
/** As a plan file has them, of four donors. */
const STATE_PLANS: readonly (readonly [name: string, make: StatePlan])[] = [
  ['gathered', gatheredPlan],
  ['gathered once a pass', layeredPlan],
  ['main memory', mainMemoryPlan],
  ['state alone', keeperPlan],
  ['gathered, in main memory and state alone', allAtOnce],
];
const planned = (wish: PlanWishes) => ({ makePlan: pipeline, wishes: { ...wish, replicas: 1 } });
const nameOf = (wish: SplitOptions): string => Object.values(wish).join(' ');

/** Each with some order, and each order with some; `npm test -- --long`: all of them. */
const HARMS_OF_ONE = ['join', 'leave', 'kill', 'freeze', 'killServer'] as const;
const harmsOf = (wish: (typeof WISHES)[number]) =>
  HARMS_OF_ONE.filter((_, index) => IS_LONG || index === WISHES.indexOf(wish) % HARMS_OF_ONE.length);

describe.each(WISHES.map((wish) => [nameOf(wish), wish] as const))('%s', (_, wish) => {
  const scenario = { steps: 5, layers: LAYERS, checkpointEverySteps: 4, limitMs: LIMIT_MS, ...planned(wish) };

  test.each([1, 2, 4])('[PL11] of %d donors ends as the sequential run does, evaluations too', async (donors) => {
    const ending = await simulate({ ...scenario, seed: donors, donors, evaluation: true });
    expect(ending).toMatchObject({ problems: [], rollBacks: [], epochs: 1 });
  });

  test.each(harmsOf(wish))('goes on after a %s with the nearest that can be had', async (harm) => {
    const seed = 1 + HARMS.indexOf(harm);
    const harms: Mischief[] = [{ harm, whom: 'middle', point: 'frame gradient', nth: 11 }];
    const mischief = mischiefs(harms, seededRandom(seed));
    const ending = await simulate({ ...scenario, seed, donors: 4, mischief });
    expect(ending.problems).toEqual([]);
  });
});

const wishOf = (make: StatePlan): PlanWishes => ({ plan: make(model, SAMPLES, donors(4)) });
const EVERY: readonly (readonly [name: string, wish: PlanWishes])[] = [
  ...WISHES.map((wish) => [nameOf(wish), wish] as const),
  ...STATE_PLANS.map(([name, make]) => [name, wishOf(make)] as const),
];
/** Who is killed, and who leaves. */
const PAIRS = IS_LONG
  ? ROLES.flatMap((one) => ROLES.map((two) => [one, two] as const))
  : ([['middle', 'first']] as const);

/** At which commits one is killed and one leaves, and how many steps there are. */
const [KILLED_AT, LEAVES_AT, STEPS] = IS_LONG ? [3, 9, 14] : [3, 6, 9];

test.each(STATE_PLANS)('[PL9] [PL18] [PL40] %s: a valid plan', (_, make) => {
  expect(problems(model, { samples: SAMPLES }, make(model, SAMPLES, donors(4)))).toEqual([]);
});

// The one in a killed or leaving donor's place comes by itself: then all of them have the plan that was asked for again.
test.each(EVERY)(
  '%s: of four one is killed, one comes, one leaves, and no step is given up',
  { timeout: 300_000 },
  async (_, wish) => {
    for (const [index, [killed, leaves]] of PAIRS.entries()) {
      const at = (harm: Mischief['harm'], whom: Mischief['whom'], nth: number): Mischief => ({
        ...{ harm, whom, point: 'effect storeCommit', nth },
      });
      const planned = [at('kill', killed, KILLED_AT), at('leave', leaves, LEAVES_AT)];
      const mischief = mischiefs(planned, seededRandom(index));
      const ending = await simulate({
        ...{ seed: 1 + index, donors: 4, steps: STEPS, layers: LAYERS, limitMs: LIMIT_MS, evaluation: true },
        ...{ makePlan: pipeline, wishes: { ...wish, replicas: 1 }, mischief },
      });
      expect(ending, `${killed} killed, ${leaves} leaves`).toMatchObject({ problems: [], rollBacks: [] });
      expect(ending.epochs).toBeGreaterThan(2);
    }
  },
);

test.runIf(IS_LONG)('any harms at any point under any schedule', { timeout: 3_600_000 }, async () => {
  const found: string[] = [];
  for (let seed = 1; seed <= 100; seed++) {
    const random = seededRandom(seed);
    const pick = <T>(of: readonly T[]): T => of[Math.floor(random() * of.length)] as T; // below its length
    const [name, wish] = pick(EVERY);
    const harms = arrayOf(1 + Math.floor(3 * random()), () => ({
      ...{ harm: pick(HARMS), whom: pick(ROLES), point: ANY, nth: 1 + Math.floor(2_000 * random()) },
    }));
    const { problems } = await simulate({
      ...{ seed, donors: 1 + Math.floor(5 * random()), steps: 8, layers: LAYERS, limitMs: 3_600_000 },
      ...{ ...planned(wish), mischief: mischiefs(harms, random) },
    });
    found.push(...problems.map((problem) => `${seed} ${name}: ${problem}`));
  }
  expect(found).toEqual([]);
});
