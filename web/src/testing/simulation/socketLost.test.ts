/** With whole donors: the connection of one to the server breaks, and nobody else notices. */
import { describe, expect, test } from 'vitest';
import { addToKey, at, below, seededRandom } from '../../../../swarm/base.ts';
import { pipeline } from './plans.ts';
import { type Simulation, simulate } from './simulation.ts';

const SCENARIO = { donors: 3, steps: 4, makePlan: pipeline, checkpointEverySteps: 2, limitMs: 240_000 };
/** Each point of the protocol is tried so often. */
const TIMES = process.env.SHOAL_LONG === '1' ? 20 : 1;

/** At the n-th time that this point is reached with a plan in force. */
function breaking(point: string, nth: number, then: (swarm: Simulation) => void) {
  let count = 0;
  return (swarm: Simulation, reached: string): void => {
    if (reached === point && swarm.server.run.store.plan !== null && ++count === nth) then(swarm);
  };
}

async function pointsOf(seed: number): Promise<Map<string, number>> {
  const points = new Map<string, number>();
  const mischief = (swarm: Simulation, point: string): void => {
    if (swarm.server.run.store.plan !== null) addToKey(points, point, 1);
  };
  await simulate({ ...SCENARIO, seed, mischief });
  return points;
}

describe('a connection to the server breaks', async () => {
  const points = await pointsOf(1);
  let reopened = 0;
  test.each([...points])('[RE80] as %s arrives, and is back in time: same peer, same epoch', async (point, count) => {
    for (let time = 0; time < TIMES; time++) {
      const random = seededRandom(1000 * time + point.length);
      const isNoticed = random() < 0.5;
      const mischief = breaking(point, 1 + below(random, count), ({ tabs }) =>
        at(tabs, below(random, tabs.length)).loseSocket(1_500 * random(), isNoticed),
      );
      const ending = await simulate({ ...SCENARIO, seed: 1, mischief });
      expect(ending, `time ${time}`).toMatchObject({ problems: [], rollBacks: [], epochs: 1 });
      // Of each connection both ends.
      if ((ending.points.get('socket opened') ?? 0) > 2 * SCENARIO.donors) reopened += 1;
    }
  });

  // Where the run is about to end nobody need come back.
  test('[RE80] and it did break', () => expect(reopened).toBeGreaterThan((points.size * TIMES) / 2));
});
