/** Every harm to everyone in every role at every point of the protocol: each case is a line of text, and played by it. */
import { arrayOf, at, below, invariant, seededRandom } from '../../../../swarm/base.ts';
import { ANY, HARMS, type Harm, mischiefs, OF_ALL, ROLES, type Role } from './harms.ts';
import { anyPlan, pipeline } from './plans.ts';
import { type Ending, type Scenario, simulate } from './simulation.ts';

/** Three stages, the first one with two lanes, and a keeper that computes nothing. */
const DONORS = 5;
const STEPS = 8;
const CHECKPOINT_EVERY = 4;
/** After what went wrong in it a run has to be finished within so long: the longest deadlines are waited for twice. */
const LIMIT_MS = 600_000;
/** What happens all the time, or after all is done. */
const NO_POINT = /^(ping|pong|heartbeat|probed?|frame probe|effect (publish|log|keepProfile|finished))$/;

const scenario = (seed: number) => ({
  ...{ seed, donors: DONORS, steps: STEPS, makePlan: pipeline },
  ...{ checkpointEverySteps: CHECKPOINT_EVERY, limitMs: LIMIT_MS },
  // With every other seed copies are made beside the steps.
  ...(seed % 2 === 1 ? { lateBytes: 0 } : {}),
});

export interface Case {
  readonly seed: number;
  readonly harm: Harm;
  readonly whom: Role;
  readonly point: string;
  readonly nth: number;
}

export const caseText = ({ seed, harm, whom, point, nth }: Case): string =>
  `${seed} ${harm} ${whom} at ${point} ${nth}`;

export function parseCase(text: string): Case {
  const [, seed, harm, whom, point, nth] = /^(\d+) (\w+) (\w+) at (.+) (\d+)$/.exec(text) ?? [];
  invariant(point !== undefined, `"${text}" is no case: "25 kill first at uploaded 6" was expected`);
  return { seed: Number(seed), harm: harm as Harm, whom: whom as Role, point, nth: Number(nth) }; // as `caseText` has it
}

/** The whole grid, in an order that has all of it in every part. */
export async function allCases(): Promise<readonly Case[]> {
  const { points } = await simulate(scenario(0));
  const cases: Case[] = [];
  for (const [point, count] of points)
    for (const harm of NO_POINT.test(point) ? [] : HARMS)
      for (const whom of OF_ALL.includes(harm) ? ROLES.slice(0, 1) : ROLES) {
        const seed = cases.length + 1;
        cases.push({ seed, harm, whom, point, nth: 1 + below(seededRandom(seed), count) });
      }
  const random = seededRandom(cases.length);
  const keyed = cases.map((one) => [random(), one] as const);
  return keyed.sort(([a], [b]) => a - b).map(([, one]) => one);
}

type Beside = Pick<Scenario, 'recording' | 'flaw' | 'isOrdered' | 'networkSeed'>;

export function play({ seed, ...mischief }: Case, beside: Beside = {}): Promise<Ending> {
  return simulate({ ...scenario(seed), mischief: mischiefs([mischief], seededRandom(seed)), ...beside });
}

/** Nothing goes wrong. */
export const playUndisturbed = (seed: number, beside: Beside = {}): Promise<Ending> =>
  simulate({ ...scenario(seed), ...beside });

/** Points that most runs come by. */
const MOST_POINTS = 3_000;
const MOST_HARMS = 6;
const MOST_DONORS = 6;
const LONG_LIMIT_MS = 3_600_000;

/** Left to chance: anyone anywhere in the plan, and some harms one after the other; when they are over the run has to end. */
export function playByChance(seed: number, beside: Beside = {}): Promise<Ending> {
  const random = seededRandom(seed);
  const pick = <T>(of: readonly T[]): T => at(of, below(random, of.length));
  const planned = arrayOf(below(random, MOST_HARMS + 1), () => ({
    ...{ harm: pick(HARMS), whom: pick(ROLES), point: ANY, nth: 1 + below(random, MOST_POINTS) },
  }));
  return simulate({
    ...{ seed, donors: 1 + below(random, MOST_DONORS), steps: 4 + below(random, 12), limitMs: LONG_LIMIT_MS },
    ...{ checkpointEverySteps: 1 + below(random, 6), evaluation: random() < 0.2 },
    ...{ makePlan: random() < 0.5 ? pipeline : anyPlan(seededRandom(seed)), mischief: mischiefs(planned, random) },
    ...beside,
  });
}
