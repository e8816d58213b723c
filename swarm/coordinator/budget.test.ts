/** A run that ends with its time: what counts as used, the share of each step, and the last one. */
import { expect, it } from 'vitest';
import { budgetRate } from '../run/learningRate.ts';
import { OPEN_STEPS } from '../run/runFile.ts';
import { rehearsalTerms } from '../testing/rehearsalTerms.ts';
import { type Script, script } from '../testing/script.ts';
import { snapshot } from './snapshot.ts';

const SECONDS = 10;
const { train: rehearsed } = rehearsalTerms({}).config;
const train = {
  ...rehearsed,
  steps: OPEN_STEPS,
  budget: { seconds: SECONDS },
  schedule: { type: 'cosine', warmupSteps: 0, decaySteps: OPEN_STEPS, minRatio: 0.1, warmup: 0.2, decay: 1 },
} as const;

const opened = (checkpointEverySteps = 20): Script => script({ train, steps: OPEN_STEPS, checkpointEverySteps });

/** The step under way takes so long, and is committed. */
function takes(swarm: Script, seconds: number): void {
  swarm.settle('* report');
  swarm.pass(1_000 * seconds);
  const before = swarm.run.store.commits.length;
  while (swarm.run.store.commits.length === before) swarm.settleOne();
}

it('[CO101] each step has the share that was used when it was given out, and none begins past the end', () => {
  const swarm = opened();
  swarm.join('a');
  for (const seconds of [1, 3, 2, 3.5]) takes(swarm, seconds);
  expect(swarm.run.state.config.steps).toBe(OPEN_STEPS);
  takes(swarm, 2);
  swarm.settle();
  const shares = [0, 0.1, 0.4, 0.6, 0.95];
  expect(swarm.run.state.phase.name).toBe('finished');
  expect(swarm.run.store.commits.map(({ share }) => share)).toEqual(shares);
  expect(swarm.run.store.commits.map(({ learningRate }) => learningRate)).toEqual(
    shares.map((share) => budgetRate(train, share)),
  );
  expect(snapshot(swarm.run.state, swarm.now())).toMatchObject({
    steps: 5,
    time: { seconds: SECONDS, usedSeconds: 11.5 },
    sentence: 'Finished: its time is over, after 5 steps.',
  });
});

it('[CO101] a pause takes nothing of it, what is given up does, and what is done again has its share again', () => {
  const swarm = opened(1);
  swarm.join('a');
  takes(swarm, 1);
  takes(swarm, 1);
  swarm.settle('* report');
  swarm.operator('pause');
  takes(swarm, 1);
  swarm.settle();
  expect(swarm.run.state.phase.name).toBe('paused');
  swarm.pass(3_600_000);
  swarm.operator('resume');
  swarm.settle('* report');
  expect(snapshot(swarm.run.state, swarm.now()).time?.usedSeconds).toBe(3);
  // The only donor goes in the middle of step 3: the run goes on from checkpoint 3.
  swarm.pass(2_000);
  swarm.gone('a');
  swarm.pass(60_000);
  swarm.join('b');
  takes(swarm, 1);
  takes(swarm, 1);
  expect(swarm.run.store.commits.map(({ share }) => share)).toEqual([0, 0.1, 0.2, 0.3, 0.6]);
});
