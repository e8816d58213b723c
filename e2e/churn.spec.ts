/** Donors come and go, by their buttons and by force, and the operator steers; the loss curve does not notice. */
import { expect, test } from 'vitest';
import { type Donor, type Operator, openDonor, openOperator } from './browser.ts';
import { curveFaults } from './fidelity.ts';
import { copyOfRun, type ProductServer, runSwarm, startServer, withSteps } from './product.ts';

/** Checkpoints every 3 steps; longer than the test takes, so that nothing happens after its end. */
const STEPS = 150;
const longRun = (): string => copyOfRun('gpt2-long', withSteps(STEPS));

/** Everything that the run committed, as `shoal swarm` prints it when it goes on with a run that has no step left. */
async function committedSteps(runFile: string, { dataDirectory }: ProductServer, steps: number) {
  const options = ['--donors', '1', '--data-dir', dataDirectory, '--steps', String(steps)];
  return (await runSwarm(runFile, ...options)).metrics;
}

async function expectGoldenCurve(runFile: string, server: ProductServer, operator: Operator) {
  const { committedSteps: steps } = await operator.until(({ phase }) => phase === 'finished' || phase === 'paused');
  await server.stop();
  const metrics = await committedSteps(runFile, server, steps);
  expect(curveFaults('gpt2-long', steps, metrics)).toEqual([]);
  return metrics;
}

const untilStage = (donor: Donor, stage: RegExp): Promise<void> => donor.untilShows('Your stage', stage);

/** A donor that is admitted while the run is paused: it has no steps to spare for that, and the curve's bounds are narrow. */
async function openWhilePaused(server: ProductServer, operator: Operator): Promise<Donor> {
  await operator.press('Pause');
  await operator.until(({ phase }) => phase === 'paused');
  const donor = await openDonor(server.url);
  await operator.press('Resume');
  return donor;
}

/** The first donor is alone, a second one comes, rests and comes back: neither costs a step. */
async function joinAndRest(server: ProductServer, operator: Operator): Promise<readonly [Donor, Donor]> {
  const first = await openDonor(server.url);
  await untilStage(first, /1 of 1\s*layers 1–4, f32/);
  await operator.untilFurther(2);
  const second = await openWhilePaused(server, operator);
  await untilStage(first, /1 of 2\s*layers 1–2/);
  await untilStage(second, /2 of 2\s*layers 3–4/);
  await operator.untilFurther(2);

  await second.press('Pause');
  await second.until('paused');
  await untilStage(first, /1 of 1/);
  await operator.untilFurther(2);

  await second.press('Resume');
  await second.until('computing');
  await untilStage(second, /of 2/);
  await operator.untilFurther(2);
  return [first, second];
}

/** Pause, resume, stop, start. */
async function steer(operator: Operator, donor: Donor): Promise<void> {
  await operator.press('Pause');
  const paused = await operator.until(({ phase }) => phase === 'paused');
  expect(paused.sentence).toBe(`Paused by the operator after ${paused.committedSteps} steps.`);
  await operator.page.getByText(paused.sentence).waitFor();
  await donor.page.getByText('The operator has paused the run.').waitFor();

  await operator.press('Resume');
  await operator.untilFurther(2);

  await operator.press('Stop');
  const stopped = await operator.until(({ phase }) => phase === 'paused');
  await operator.page.getByText(`Stopped after ${stopped.committedSteps} steps. Everything is saved.`).waitFor();

  await operator.press('Start');
  await operator.untilFurther(2);
}

test('joining, resting, leaving and the operator’s words roll nothing back; a killed browser costs no more than since the newest checkpoint', async () => {
  const runFile = longRun();
  const server = await startServer(runFile, { schedule: 'gpipe' });
  const operator = await openOperator(server);
  const [first, second] = await joinAndRest(server, operator);
  await steer(operator, first);
  await first.press('Leave');
  await first.until('left');
  await first.page.getByText('You’ve left. Your part is in safe hands').waitFor();
  await untilStage(second, /1 of 1\s*layers 1–4/);
  const alone = await operator.untilFurther(2);
  expect(alone.generation).toBe(0);
  expect(alone.donors).toHaveLength(1);

  const dies = await openWhilePaused(server, operator);
  await untilStage(dies, /2 of 2\s*layers 3–4/);
  await operator.untilFurther(4);
  await dies.kill();
  // Where its last upload was whole just then, nothing is lost at all.
  const left = await operator.until(({ donors }) => donors.length === 1);
  expect(left.generation).toBeLessThanOrEqual(1);
  await untilStage(second, /1 of 1\s*layers 1–4/);
  await operator.untilFurther(4);

  await operator.press('Stop');
  const metrics = await expectGoldenCurve(runFile, server, operator);
  expect(new Set(metrics.map(({ donors }) => donors))).toEqual(new Set([1, 2]));
  expect(metrics.at(-1)?.donors).toBe(1);
});
