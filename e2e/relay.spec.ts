/**
 * The way through the server, for real: in a network namespace where only the loopback interface is up a browser has no
 * address that it would offer to another one, so everything must be relayed. And the reverse: what goes directly is
 * seen nowhere on the server's socket.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { CommitRecord } from '../swarm/coordinator/state.ts';
import { openDonor, openOperator } from './browser.ts';
import { curveFaults } from './fidelity.ts';
import {
  copyOfRun,
  goldenFile,
  jsonLines,
  RunningCommand,
  startServer,
  temporaryFolder,
  withSteps,
} from './product.ts';

const TINY = goldenFile('gpt2-tiny/run.json');
const STEPS = 4;
const LOOPBACK_ONLY = ['unshare', '-n', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh'];

const mayUnshare = spawnSync('unshare', ['-n', 'true']).status === 0 && spawnSync('ip', ['-V']).status === 0;
// Skipped without root or without unshare and ip: there is no other network to be had without any address.
test.skipIf(!mayUnshare)(
  '[WP9] without any direct way every frame is relayed, and the curve is the oracle’s',
  async () => {
    const metricsFile = join(temporaryFolder(), 'metrics.jsonl');
    const options = ['--donors', '2', '--steps', String(STEPS), '--metrics', metricsFile];
    const { code, stderr } = await new RunningCommand(['swarm', TINY, ...options], LOOPBACK_ONLY).ended;
    expect(code, stderr).toBe(0);
    const metrics = jsonLines(metricsFile) as CommitRecord[];
    expect(curveFaults('gpt2-tiny', STEPS, metrics)).toEqual([]);
    expect(metrics.filter(({ bytesRelayed }) => !(bytesRelayed > 0))).toEqual([]);
    expect(new Set(metrics.map(({ bytesDirect }) => bytesDirect))).toEqual(new Set([0]));
  },
);

test('[WP9] between donors that are connected directly no tensor frame passes the server', async () => {
  const server = await startServer(copyOfRun('gpt2-long', withSteps(150)));
  const operator = await openOperator(server);
  let binaryMessages = 0;
  const watch = ({ payload }: { payload: string | Buffer }): void => {
    if (typeof payload !== 'string') binaryMessages += 1;
  };
  for (let i = 0; i < 2; i++) {
    await openDonor(server.url, {
      prepare: (page) => page.on('websocket', (socket) => socket.on('framesent', watch).on('framereceived', watch)),
    });
  }
  const isWhole = (links: readonly { route: string }[] = []): boolean => links.length === 2;
  const { links } = await operator.until((now) => isWhole(now.links));
  await operator.untilFurther(4);
  expect(links?.map(({ route }) => route)).toEqual(['direct', 'direct']);
  expect(binaryMessages).toBe(0);
  await operator.page.getByRole('link', { name: 'Swarm' }).click();
  await operator.page.getByRole('region', { name: 'Links' }).getByText('direct').first().waitFor();
});
