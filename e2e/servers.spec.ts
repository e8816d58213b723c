/** Several servers of one site over a real NATS: tabs of all of them train one run, and none of the servers is missed. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { hasNatsServer, NO_NATS_SERVER, startNatsServer } from '../signaling-server/site/natsServer.ts';
import { openDonor, openOperator } from './browser.ts';
import { curveFaults } from './fidelity.ts';
import { atTestEnd, copyOfRun, goldenFile, runSwarm, startServer, temporaryFolder, withSteps } from './product.ts';

const STEPS = 12;

async function openNats(): Promise<{ readonly url: string; readonly restart: () => Promise<void> }> {
  const nats = await startNatsServer(temporaryFolder());
  if (!nats.ok) throw new Error(nats.reason);
  atTestEnd(() => nats.value.stop());
  const restart = async (): Promise<void> => {
    await nats.value.kill();
    expect(await nats.value.start()).toMatchObject({ ok: true });
  };
  return { url: nats.value.url, restart };
}

describe.skipIf(!hasNatsServer())(hasNatsServer() ? 'servers' : `skipped: ${NO_NATS_SERVER}`, () => {
  test('[NA8] [NA4] two donors over two servers, and the server that leads is killed: the golden curve, and nothing is given up', async () => {
    const report = join(temporaryFolder(), 'report.json');
    const { metrics } = await runSwarm(
      goldenFile('gpt2-tiny/run.json'),
      ...['--donors', '2', '--servers', '2', '--steps', String(STEPS)],
      ...['--chaos', 'server-kill@4', '--report', report],
    );
    expect(curveFaults('gpt2-tiny', STEPS, metrics)).toEqual([]);
    const { chaos, rollbacks } = JSON.parse(readFileSync(report, 'utf8'));
    expect([chaos, rollbacks]).toEqual([[{ entry: 'server-kill@4', firedAtStep: expect.any(Number) }], []]);
  });

  test('[NA5] [NA9] a server that leads stands still for longer than its key holds: another goes on, and when it wakes it commits nothing and passes its donors on', async () => {
    const { url: nats } = await openNats();
    const runFile = copyOfRun('gpt2-tiny', withSteps(100_000));
    const first = await startServer(runFile, { nats, schedule: 'gpipe' });
    await first.logged(/(this process leads the site)/);
    const second = await startServer(runFile, { nats, schedule: 'gpipe' });
    const donor = await openDonor(second.url);
    await donor.until('computing');
    const operator = await openOperator(second);
    await operator.until(({ committedSteps }) => committedSteps > 0);
    first.signal('SIGSTOP');
    await second.logged(/(this process leads the site)/);
    const atTakeover = (await operator.until(() => true)).committedSteps;
    await operator.until(({ committedSteps }) => committedSteps > atTakeover);
    first.signal('SIGCONT');
    await first.logged(/(this process leads the site no more)/);
    // A call to it is answered by the other one.
    await expect
      .poll(async () => (await fetch(`${first.url}/readyz`)).json(), { timeout: 20_000 })
      .toEqual({ ok: true, role: 'gateway' });
    const status = (await (await fetch(`${first.url}/api/status`)).json()) as { committedSteps: number };
    expect(status.committedSteps).toBeGreaterThanOrEqual(atTakeover);
    const newcomer = await openDonor(first.url);
    await newcomer.until('computing');
    expect((await operator.until(() => true)).generation).toBe(0);
  });

  test('[NA1] [NA53] NATS is killed and started again while tabs of two servers train: the run goes on, and nothing is given up', async () => {
    const { url: nats, restart } = await openNats();
    const runFile = copyOfRun('gpt2-tiny', withSteps(100_000));
    const first = await startServer(runFile, { nats, schedule: 'gpipe' });
    const second = await startServer(runFile, { nats, schedule: 'gpipe' });
    for (const server of [first, second]) await (await openDonor(server.url)).until('computing');
    const operator = await openOperator(first);
    await operator.until(({ committedSteps, donors }) => committedSteps > 0 && donors.length === 2);
    await restart();
    const back = (await operator.until(() => true)).committedSteps;
    const { generation } = await operator.until(({ committedSteps }) => committedSteps > back + 3);
    expect(generation).toBe(0);
  });
});
