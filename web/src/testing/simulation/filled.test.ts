/** A newcomer's copies are made beside the steps, and something goes wrong meanwhile. */
import { describe, expect, test } from 'vitest';
import { pipeline } from './plans.ts';
import { type Scenario, type Simulation, simulate } from './simulation.ts';
import type { Tab } from './tab.ts';

const SCENARIO = { donors: 2, steps: 30, makePlan: pipeline, checkpointEverySteps: 30, limitMs: 240_000 };

const isFilling = ({ server }: Simulation): boolean => {
  const { phase } = server.run.state;
  return 'inForce' in phase && phase.inForce.filling !== null;
};

/** One joins; the n-th time that this point is reached while its copies are made something happens. */
function joining(point: string, nth: number, then: (swarm: Simulation) => void) {
  let [hasJoined, count] = [false, 0];
  const mischief: Required<Scenario>['mischief'] = (swarm, reached) => {
    if (!hasJoined && swarm.server.run.state.committedSteps === 1) {
      hasJoined = true;
      swarm.open();
    }
    // Until there is a place for it the others take their time.
    for (const { machine } of swarm.tabs) machine.slowness = hasJoined && swarm.server.run.state.epoch === 1 ? 60 : 1;
    if (!hasJoined || reached !== point || !isFilling(swarm)) return;
    count++;
    if (count === nth) then(swarm);
  };
  return { ...SCENARIO, lateBytes: 0, seed: nth, mischief, count: () => count };
}

const PLACES = ['newcomer', 'giver', 'other'] as const;
const tabAt = ({ server, tabOf }: Simulation, place: (typeof PLACES)[number]): Tab | null | undefined => {
  const { phase } = server.run.state;
  const [first] = 'inForce' in phase ? (phase.inForce.filling?.late ?? []) : [];
  const others = 'inForce' in phase ? phase.inForce.duties.map(({ peer }) => peer) : [];
  const peer =
    place === 'newcomer'
      ? first?.to
      : place === 'giver'
        ? first?.from
        : others.find((one) => one !== first?.to && one !== first?.from);
  return peer && tabOf(peer);
};

/** `npm test -- --long`: each of them to everyone. */
const IS_LONG = process.env.SHOAL_LONG === '1';
const POINTS = ['start', 'frame state', 'frame slice', 'frame values', 'report', 'committed', 'effect storeCommit'];
const HARMS: Readonly<Record<string, (swarm: Simulation, tab: Tab | null | undefined) => void>> = {
  kill: (swarm, tab) => tab && swarm.kill(tab, false),
  vanish: (swarm, tab) => tab && swarm.kill(tab, true),
  freeze: (_swarm, tab) => tab?.machine.freeze(10_000),
  loseDevice: (_swarm, tab) => tab?.loseDevice(),
  cutOff: (_swarm, tab) => tab?.machine.cut(8_000),
};

const HARM_COUNT = Object.keys(HARMS).length;

describe('copies that are made beside the steps', { timeout: 600_000 }, () => {
  test('[RE55] undisturbed: at least two changes of plan, and the state moves beside the steps', async () => {
    const scenario = joining('frame state', 1, () => undefined);
    const ending = await simulate(scenario);
    expect(ending).toMatchObject({ problems: [], rollBacks: [] });
    expect(ending.epochs).toBeGreaterThan(2);
    expect(scenario.count()).toBeGreaterThan(10);
  });

  test.each(POINTS)('[RE56] the server is killed at a %s: no step is given up', async (point) => {
    for (const nth of IS_LONG ? [1, 4] : [1 + (POINTS.indexOf(point) % 4)]) {
      const scenario = joining(point, nth, ({ server }) => server.kill());
      expect(await simulate(scenario), `${point} ${nth}`).toMatchObject({ problems: [], rollBacks: [] });
      expect(scenario.count()).toBeGreaterThanOrEqual(nth);
    }
  });

  test.each(POINTS)('[RE56] a donor goes at a %s: no step is given up', async (point) => {
    for (const [index, [name, harm]] of Object.entries(HARMS).entries())
      for (const [at, place] of PLACES.entries()) {
        if (!IS_LONG && (index + at + POINTS.indexOf(point)) % HARM_COUNT !== 0) continue;
        const nth = 1 + ((name.length * 3 + place.length) % 4);
        const scenario = joining(point, nth, (swarm) => harm(swarm, tabAt(swarm, place)));
        const ending = await simulate(scenario);
        expect(ending, `${name} ${place} at ${point} ${nth}`).toMatchObject({ problems: [], rollBacks: [] });
        expect(scenario.count()).toBeGreaterThanOrEqual(nth);
      }
  });
});
