import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { seededRandom } from '../../../../swarm/base.ts';
import { parseLine, recording, replay } from '../../../../swarm/recording/recording.ts';
import { isLayered } from '../../../../swarm/testing/gridPlans.ts';
import { parseCase, play } from './cases.ts';
import { anyPlan, type MakePlan, pipeline } from './plans.ts';
import { simulate } from './simulation.ts';

const LIMIT_MS = 120_000;
/** Of a plan that is layered, of two donors, one of which has two micro-batches. */
const LAYERED_SEED = 8;

describe('a swarm that nobody disturbs', () => {
  test.each([1, 2, 3, 4, 5])('of %d donors in a pipeline ends as the sequential run does', async (donors) => {
    const ending = await simulate({ seed: donors, donors, steps: 10, makePlan: pipeline, limitMs: LIMIT_MS });
    expect(ending).toMatchObject({ problems: [], rollBacks: [], epochs: 1 });
  });

  test.each([1, 2, 3, 4, 5, 6])('ends so under whatever plan (seed %d)', async (seed) => {
    const makePlan = anyPlan(seededRandom(seed));
    const ending = await simulate({ seed, donors: 2 + (seed % 4), steps: 6, makePlan, limitMs: LIMIT_MS });
    expect(ending).toMatchObject({ problems: [], rollBacks: [] });
  });

  test('[PL64] ends so where the plan that came by chance gathers each block once a pass', async () => {
    const drawn = anyPlan(seededRandom(LAYERED_SEED));
    const layered: boolean[] = [];
    const makePlan: MakePlan = (...of) => {
      const plan = drawn(...of);
      layered.push(isLayered(plan));
      return plan;
    };
    const ending = await simulate({ seed: LAYERED_SEED, donors: 2, steps: 6, makePlan, limitMs: LIMIT_MS });
    expect(ending).toMatchObject({ problems: [], rollBacks: [] });
    expect(layered[0]).toBe(true);
  });

  test('computes the loss of the held-out text by the way', async () => {
    const scenario = { seed: 1, donors: 3, steps: 4, makePlan: pipeline, evaluation: true, limitMs: LIMIT_MS };
    const ending = await simulate(scenario);
    expect(ending).toMatchObject({ problems: [], rollBacks: [] });
    expect(ending.points.get('evaluated')).toBe(3); // before step 0, after step 2, at the end
  });

  test('has one history of one seed', async () => {
    const play = () =>
      simulate({ seed: 7, donors: 4, steps: 4, makePlan: anyPlan(seededRandom(7)), limitMs: LIMIT_MS });
    expect(await play()).toEqual(await play());
  });
});

test('what a simulation decided is replayed from its recording, over a killed server too', async () => {
  const text: string[] = [];
  const hash = (of: string): string => createHash('sha256').update(of).digest('base64url');
  const killed = parseCase('1 killServer first at frame values 55');
  await play(killed, { recording: recording(hash, (part) => void text.push(part)) });
  const lines = text.join('').trimEnd().split('\n');
  const parsed = lines.map((line, index) => parseLine(line, index === 0));
  const events = parsed.flatMap((line) => (line.ok ? line.value : []));
  expect(events.filter(({ event }) => event.type === 'began')).toHaveLength(2);
  expect(await replay(events, hash)).toMatchObject({ events: lines.length, difference: null, threw: [] });
});
