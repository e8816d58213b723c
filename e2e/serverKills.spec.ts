/** The server is killed at moments that nothing announces, and started again as whoever looks after it would: the tabs go on. */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { seededRandom } from '../swarm/base.ts';
import { openDonor, openOperator } from './browser.ts';
import { curveFaults } from './fidelity.ts';
import { copyOfRun, expectReplayed, runSwarm, startServer, temporaryFolder, withSteps } from './product.ts';

const DONORS = 3;
/** So many that none of its kills comes after its end, however fast the tabs are. */
const STEPS = 100_000;
/** Of the golden curve. */
const GOLDEN_STEPS = 150;
const FURTHER_STEPS = 20;
/** Each seed is a run of its own. */
const KILLS: readonly (readonly [seed: number, kills: number])[] =
  process.env.SHOAL_LONG === '1' ? [1, 2, 3, 4, 5].map((seed) => [seed, 5]) : [[1, 3]];
/** After it listens again: its tabs are on their way back then, or have long been at work. */
const LATEST_MS = 3_000;
test.each(KILLS)(
  '[RE30] by seed %i the server is killed %i times: no step is given up or counted twice',
  {
    timeout: 600_000,
  },
  async (seed, kills) => {
    const random = seededRandom(seed);
    // No checkpoint but the first: what is committed is with the donors alone.
    const runFile = copyOfRun('gpt2-long', (run) => ({ ...withSteps(STEPS)(run), checkpoint: { everySteps: STEPS } }));
    const record = join(temporaryFolder(), 'record.jsonl');
    const options = { dataDirectory: temporaryFolder(), record, schedule: 'gpipe' } as const;
    let server = await startServer(runFile, options);
    const operator = await openOperator(server);
    await operator.press('Pause');
    await operator.until(({ phase }) => phase === 'paused');
    for (let donor = 0; donor < DONORS; donor++) await openDonor(server.url);
    await operator.press('Resume');
    await operator.until(({ committedSteps }) => committedSteps > 0);

    for (let kill = 0; kill < kills; kill++) {
      await sleep(LATEST_MS * random());
      await server.kill();
      server = await startServer(runFile, { ...options, port: server.port });
    }

    const back = await openOperator(server);
    await back.untilFurther(FURTHER_STEPS);
    await back.press('Pause');
    const { committedSteps: steps, generation } = await back.until(({ phase }) => phase === 'paused');
    // It rises with each return to a checkpoint.
    expect(generation).toBe(0);
    await server.stop();
    const rest = ['--data-dir', options.dataDirectory, '--steps', String(steps)];
    const { metrics } = await runSwarm(runFile, '--donors', '1', ...rest);
    expect(metrics.map(({ step }) => step)).toEqual(Array.from({ length: steps }, (_, step) => step));
    const golden = Math.min(steps, GOLDEN_STEPS);
    expect(curveFaults('gpt2-long', golden, metrics.slice(0, golden))).toEqual([]);
    await expectReplayed(record);
  },
);
