/** One hangs while the held-out text is read: it alone is replaced, and nothing that was committed is given up. */
import { expect, test } from 'vitest';
import { seededRandom } from '../../../../swarm/base.ts';
import { mischiefs, ROLES } from './harms.ts';
import { pipeline } from './plans.ts';
import { simulate } from './simulation.ts';

const SCENARIO = { donors: 5, steps: 8, makePlan: pipeline, checkpointEverySteps: 4, limitMs: 600_000 };
/** As the fifth donor is asked for the evaluation after three steps, and as another is for the next one. */
const TIMES = [8, 12];

test.each(ROLES)('[CO76] %s hangs in an evaluation: the next commit comes within 10 s', async (whom) => {
  for (const nth of TIMES) {
    const mischief = mischiefs([{ harm: 'hang', whom, point: 'evaluate', nth }], seededRandom(nth));
    const ending = await simulate({ ...SCENARIO, seed: nth, evaluation: true, mischief });
    expect(ending).toMatchObject({ problems: [], rollBacks: [] });
    expect(ending.points.get('effect refuse')).toBe(1);
    expect(ending.longestPauseMs).toBeLessThan(10_000);
  }
});
