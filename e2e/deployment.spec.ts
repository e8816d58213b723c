/**
 * `deploy/` without an engine for containers: the image is built as the Containerfile says, and what compose.yaml starts runs
 * with its commands, each in namespaces of its own. Real donors come through the proxy, over https.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { openHeadlessDonor } from '../signaling-server/headless/headless.ts';
import { terminalLog } from '../signaling-server/monitoring/log.ts';
import { openDataDirectory } from '../signaling-server/store/dataDirectory.ts';
import { rollBacksSince } from '../signaling-server/store/rollBacks.ts';
import { publicStatusSchema } from '../swarm/messages/publicStatus.ts';
import { buildImage } from './deployment/containerfile.ts';
import { Deployment, FOREIGN_PROGRAMS, RELAY_CLIENT } from './deployment/deployment.ts';
import { canUnshare } from './deployment/machines.ts';
import { curveFaults } from './fidelity.ts';
import { atTestEnd, copyOfRun, RunningCommand, runSwarm, startServer, temporaryFolder, withSteps } from './product.ts';

const ROOT = join(import.meta.dirname, '..');
const LOOK_MS = 500;
/** Of the golden curve. */
const GOLDEN_STEPS = 60;
const FURTHER_STEPS = 4;

const has = (program: string): boolean => spawnSync('which', [program]).status === 0;
const missing = [
  ...(process.env.SHOAL_LONG === '1' ? [] : ['SHOAL_LONG=1']),
  ...(canUnshare() ? [] : ['root on Linux, with namespaces']),
  ...[...FOREIGN_PROGRAMS, RELAY_CLIENT, 'nsenter', 'setpriv', 'npm'].filter((program) => !has(program)),
];
const title = 'the site of deploy/ trains with donors through its proxy, and a rolling restart costs no step';

test.skipIf(missing.length > 0)(
  missing.length > 0 ? `${title}: skipped without ${missing.join(', ')}` : title,
  { timeout: 900_000 },
  async () => {
    const image = buildImage(ROOT, join(ROOT, 'deploy', 'Containerfile'), temporaryFolder());
    expect(image.user).not.toBe('root');
    const site = await Deployment.open(image);
    const nats = site.names.filter((name) => name.startsWith('nats-'));
    const servers = site.names.filter((name) => name.startsWith('shoal-'));
    expect([nats.length, servers.length]).toEqual([3, 2]);
    site.start(...nats);

    const runFile = copyOfRun('gpt2-long', withSteps(100_000));
    const filled = temporaryFolder();
    await (await startServer(runFile, { dataDirectory: filled })).stop();
    const urls = nats.map((name) => `nats://${site.container(name).machine.address}:4222`).join(',');
    const copy = async (from: string, to: string): Promise<void> => {
      const { code, stderr } = await new RunningCommand(['store', 'copy', '--from', from, '--to', to], site.onHost([]))
        .ended;
      expect(code, stderr).toBe(0);
    };
    await copy(filled, urls);

    site.start(...servers, 'caddy', 'coturn');
    for (const name of servers) await site.container(name).untilHealthy();
    while ((await site.ask('/readyz')) === null) await sleep(LOOK_MS);
    const program = await site.browser();
    for (const number of [0, 1]) {
      const donor = await openHeadlessDonor(`${site.origin}/#`, number, terminalLog('warn'), { program });
      if (!donor.ok) throw new Error(donor.reason);
      atTestEnd(() => donor.value.close());
    }
    let committed = 0;
    const further = async (): Promise<void> => {
      for (const enough = committed + FURTHER_STEPS; committed < enough; await sleep(LOOK_MS)) {
        const answer = await site.ask('/api/status'); // nobody answers while nobody leads
        if (answer === null) continue;
        const { committedSteps } = publicStatusSchema.parse(answer);
        expect(committedSteps).toBeGreaterThanOrEqual(committed);
        committed = committedSteps;
      }
    };
    await further();

    // By the TURN server donors reach each other, not the site's own network; nobody without the password reaches anyone.
    expect(await site.relayed()).toMatch(/tot_recv_msgs=[1-9]\d*\n/);
    expect(await site.relayed({ peer: site.innerAddress })).toContain('403 (Forbidden IP)');
    expect(await site.relayed({ password: 'whale' })).toContain('Cannot complete Allocation');

    for (const name of servers) {
      const container = site.container(name);
      await container.stop();
      expect(container.log).toContain('the other servers of the site go on');
      await further();
      container.start();
      await container.untilHealthy();
      await further();
    }

    for (const name of servers) await site.container(name).stop();
    const folder = join(temporaryFolder(), 'copy');
    await copy(urls, folder);
    const data = await openDataDirectory(folder, false);
    if (!data.ok) throw new Error(data.reason);
    const { store } = data.value;
    const run = store.activeRun()?.name ?? '';
    expect(rollBacksSince(store, run, 0)).toEqual([]);
    const steps = store.committedSteps(run);
    data.value.close();
    expect(steps).toBeGreaterThanOrEqual(committed);
    const { metrics } = await runSwarm(runFile, '--donors', '1', '--data-dir', folder, '--steps', String(steps));
    const golden = Math.min(steps, GOLDEN_STEPS);
    expect(curveFaults('gpt2-long', golden, metrics.slice(0, golden))).toEqual([]);
  },
);
