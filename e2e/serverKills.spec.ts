/** The server is killed at moments that nothing announces, and started again as whoever looks after it would: the tabs go on. */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { seededRandom } from '../swarm/base.ts';
import type { PublicStatus } from '../swarm/messages/publicStatus.ts';
import { openDonor, openOperator } from './browser.ts';
import { curveFaults } from './fidelity.ts';
import {
  copyOfRun,
  expectReplayed,
  type ProductServer,
  runSwarm,
  startServer,
  temporaryFolder,
  withSteps,
} from './product.ts';

const DONORS = 3;
const STEPS_A_KILL = 20;
/** Each seed is a run of its own. */
const KILLS: readonly (readonly [seed: number, kills: number])[] =
  process.env.SHOAL_LONG === '1' ? [1, 2, 3, 4, 5].map((seed) => [seed, 5]) : [[1, 3]];
/** After it listens again: its tabs are on their way back then, or have long been at work. */
const LATEST_MS = 3_000;
/** Its public page may be asked twice a second. */
const limits = { interval: 600, timeout: 240_000 };

async function statusOf({ url }: ProductServer): Promise<PublicStatus> {
  const response = await fetch(`${url}/api/status`);
  return (await response.json()) as PublicStatus;
}

test.each(KILLS)(
  '[RE30] by seed %i the server is killed %i times: no step is given up or counted twice',
  {
    timeout: 600_000,
  },
  async (seed, kills) => {
    const random = seededRandom(seed);
    const steps = STEPS_A_KILL * (kills + 1);
    // No checkpoint but the first: what is committed is with the donors alone.
    const runFile = copyOfRun('gpt2-long', (run) => ({ ...withSteps(steps)(run), checkpoint: { everySteps: steps } }));
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
      expect((await statusOf(server)).phase).not.toBe('finished');
      await server.kill();
      server = await startServer(runFile, { ...options, port: server.port });
    }

    await expect.poll(async () => (await statusOf(server)).phase, limits).toBe('finished');
    // It rises with each return to a checkpoint.
    expect((await (await openOperator(server)).until(() => true)).generation).toBe(0);
    await server.stop();
    const { metrics } = await runSwarm(runFile, '--donors', '1', '--data-dir', options.dataDirectory);
    expect(curveFaults('gpt2-long', steps, metrics)).toEqual([]);
    await expectReplayed(record);
  },
);
