/** With whole donors: the server is killed, and what they make of it is the sequential run's, bit for bit. */
import { describe, expect, test } from 'vitest';
import { pipeline } from './plans.ts';
import { type Scenario, type Simulation, simulate } from './simulation.ts';

const SCENARIO = { isBehind: true, donors: 3, steps: 8, makePlan: pipeline, checkpointEverySteps: 8, limitMs: 240_000 };

/** The first time that this point is reached after so many steps. */
function when(point: string, committed: number, then: (swarm: Simulation) => void): Required<Scenario>['mischief'] {
  let isDone = false;
  return (swarm, reached) => {
    if (isDone || reached !== point || swarm.server.run.state.committedSteps !== committed) return;
    isDone = true;
    then(swarm);
  };
}

describe('the server is killed', () => {
  test.each([1, 2, 5, 7])('[RE39] between commit %d and its telling: each completes it', async (committed) => {
    const mischief = when('effect storeCommit', committed, ({ server }) => server.kill());
    expect(await simulate({ ...SCENARIO, seed: committed, mischief })).toMatchObject({ problems: [], rollBacks: [] });
  });

  test.each([1, 2, 5, 7])('[RE39] there (%d), and every link breaks before it is back', async (committed) => {
    const mischief = when('effect storeCommit', committed, ({ server, agenda, links }) => {
      server.kill();
      agenda.after(500, () => {
        for (const link of links.open()) link.lose('its network is gone for a moment');
      });
    });
    expect(await simulate({ ...SCENARIO, seed: committed, mischief })).toMatchObject({ problems: [], rollBacks: [] });
  });

  test.each(['report', 'committed', 'start', 'frame slice', 'frame values', 'frame activation'])(
    '[RE30] as a %s arrives: no step is given up',
    async (point) => {
      for (const committed of [1, 4, 7]) {
        const mischief = when(point, committed, ({ server }) => server.kill());
        const ending = await simulate({ ...SCENARIO, seed: committed, mischief });
        expect(ending, `${point} after ${committed} steps`).toMatchObject({ problems: [], rollBacks: [] });
        expect(ending.epochs).toBeGreaterThan(1);
      }
    },
  );
});

test.each([1, 2, 3])(
  '[RE38] as a plan is to be made ready for (%d): who is ready late is no stranger to the next server',
  async (seed) => {
    let [joined, killed] = [false, false];
    const mischief: Required<Scenario>['mischief'] = (swarm, reached) => {
      const { committedSteps } = swarm.server.run.state;
      if (!joined && committedSteps === 1) {
        joined = true;
        swarm.open();
      }
      // Until there is a place for the newcomer the others take their time.
      for (const { machine } of swarm.tabs) machine.slowness = joined && swarm.server.run.state.epoch === 1 ? 60 : 1;
      if (killed || !joined || reached !== 'warm') return;
      killed = true;
      swarm.server.kill();
    };
    const ending = await simulate({ ...SCENARIO, donors: 2, steps: 30, seed, mischief });
    expect(ending).toMatchObject({ problems: [], rollBacks: [] });
    expect(killed).toBe(true);
  },
);
