/** Plans that save memory, on the virtual clock: layers gathered, shards in main memory, and what goes wrong under them. */
import { expect, test } from 'vitest';
import { at, seededRandom } from '../../../../swarm/base.ts';
import { type Harm, mischiefs, ROLES } from './harms.ts';
import { sparing } from './plans.ts';
import { simulate } from './simulation.ts';

const SCENARIO = { steps: 6, makePlan: sparing, checkpointEverySteps: 4, evaluation: true, limitMs: 600_000 };
/** From one commit to the next, where nothing is lost, beyond what a step takes over these links: of the simulation's clock. */
const LONGER_PAUSE_MS = 10_000;
const STEP_MS = 15_000;

test("[PL18] [PL40] [PL42] [PL50] gathered and in main memory the state is the sequential run's, evaluations between", async () => {
  for (const donors of [1, 2, 3, 4, 5]) {
    const { points, ...ending } = await simulate({ ...SCENARIO, seed: donors, donors });
    expect(ending, `${donors} donors`).toMatchObject({ problems: [], rollBacks: [], epochs: 1 });
    expect(points.has('frame want'), `${donors} donors`).toBe(donors > 2);
    expect(ending.longestPauseMs).toBeLessThan(STEP_MS);
    expect(points.get('effect storeEvaluation')).toBeGreaterThan(1);
  }
});

/** Everyone computes. */
const ROLES_HERE = ROLES.filter((role) => role !== 'stateOnly');
/** Where something gathers, comes back, is saved or evaluated. */
const POINTS = [
  ['frame want', 9],
  ['frame gathered', 40],
  ['frame share', 25],
  ['report', 11],
  ['committed', 13],
  ['evaluate', 6],
  ['upload', 3],
] as const;
/** `npm test -- --long`: all of them. */
const TRIED = POINTS.filter((_, index) => process.env.SHOAL_LONG === '1' || index % 3 === 0);

// With one more or one fewer the stage gathers otherwise, or not at all, and other shards lie in main memory.
test.each<Harm>(['join', 'leave', 'kill', 'hang', 'loseDevice', 'killServer'])(
  '%s: nothing that was committed is given up, from gathered to whole and back',
  async (harm) => {
    for (const [index, [point, nth]] of TRIED.entries()) {
      const donors = 3 + (index % 3);
      const whom = at(ROLES_HERE, index % ROLES_HERE.length);
      const mischief = mischiefs([{ harm, whom, point, nth }], seededRandom(index));
      const { problems, rollBacks, epochs, longestPauseMs } = await simulate({
        ...{ ...SCENARIO, seed: 100 + index, donors, mischief },
      });
      const text = `${donors} donors, ${whom} at ${point} ${nth}`;
      expect({ problems, rollBacks }, text).toEqual({ problems: [], rollBacks: [] });
      expect(longestPauseMs, text).toBeLessThan(STEP_MS + LONGER_PAUSE_MS);
      if (harm === 'kill' || harm === 'leave') expect(epochs, text).toBeGreaterThan(1);
    }
  },
);
