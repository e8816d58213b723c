/**
 * The way through the server, for real: in a network namespace where only the loopback interface is up a browser has no
 * address that it would offer to another one, so everything must be relayed. The reverse is in hidden.spec.ts.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { CommitRecord } from '../swarm/coordinator/events.ts';
import { openDonor, openOperator } from './browser.ts';
import { curveFaults } from './fidelity.ts';
import { copyOfRun, goldenFile, jsonLines, RunningCommand, startServer, temporaryFolder } from './product.ts';

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

test('[WP14] a tab whose browser makes no more connections trains all the same, by the server', async () => {
  const server = await startServer(copyOfRun('gpt2-tiny'), { schedule: 'gpipe' });
  const operator = await openOperator(server);
  await operator.press('Pause');
  await operator.until(({ phase }) => phase === 'paused');
  // All that Chromium gives one page.
  const all = () => {
    const held: RTCPeerConnection[] = [];
    Object.assign(window, { held });
    try {
      for (;;) held.push(new RTCPeerConnection());
    } catch (error) {
      Object.assign(window, { why: String(error) });
    }
  };
  const donor = await openDonor(server.url, { prepare: (page) => page.addInitScript(all) });
  await openDonor(server.url);
  await operator.until(({ donors }) => donors.length === 2);
  await operator.press('Resume');
  const { links } = await operator.until((snapshot) => snapshot.links?.length === 2);
  const { committedSteps, donors } = await operator.until(({ phase }) => phase === 'finished');
  expect([committedSteps, donors.length]).toEqual([20, 2]);
  expect(await donor.page.evaluate(() => Reflect.get(window, 'why'))).toContain('Cannot create so many');
  expect(links?.map(({ route }) => route)).toEqual(['relayed', 'relayed']);
  expect(links?.map(({ why }) => why).toSorted()).toEqual(['noConnection', 'otherEnd']);
});
