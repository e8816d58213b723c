/**
 * Several servers of one site over a real NATS: tabs of all of them train one run, or two at once, and none of the servers is
 * missed. One fail-over at every change, all else in the long lane: without tabs the tests of `signaling-server/site` have it.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { hasNatsServer, NO_NATS_SERVER, startNatsServer } from '../signaling-server/site/natsServer.ts';
import { Operator, openDonor, openOperator } from './browser.ts';
import { curveFaults } from './fidelity.ts';
import {
  atTestEnd,
  copyOfRun,
  goldenFile,
  IS_LONG,
  runSwarm,
  shoal,
  startServer,
  temporaryFolder,
  withSteps,
} from './product.ts';

const STEPS = 12;

/** Of gpt2-long; more than are done before anyone hears of the fourth. */
const LONG_STEPS = 60;
/** Beside much other work sixty steps alone take minutes: what is looked for is a hang. */
const BUSY_MS = 600_000;
const AWAY_MS = 30_000;

async function openNats(): Promise<{ readonly url: string; kill(): Promise<void>; start(): Promise<void> }> {
  const nats = await startNatsServer(temporaryFolder());
  if (!nats.ok) throw new Error(nats.reason);
  atTestEnd(() => nats.value.stop());
  const start = async (): Promise<void> => expect(await nats.value.start()).toMatchObject({ ok: true });
  return { url: nats.value.url, kill: () => nats.value.kill(), start };
}

/** Two servers of a site; the first one leads. */
async function openPair(runFile = copyOfRun('gpt2-tiny', withSteps(100_000))) {
  const nats = await openNats();
  const first = await startServer(runFile, { nats: nats.url, schedule: 'gpipe' });
  await first.logged(/(this process leads the site)/);
  const second = await startServer(runFile, { nats: nats.url, schedule: 'gpipe' });
  return { nats, runFile, first, second };
}

describe.skipIf(!hasNatsServer())(hasNatsServer() ? 'servers' : `skipped: ${NO_NATS_SERVER}`, () => {
  test('two donors over two servers, and the server that leads is killed: the golden curve, and nothing is given up', async () => {
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

  test.runIf(IS_LONG)(
    'a server that leads stands still for longer than its key holds: another goes on, and when it wakes it commits nothing and passes its donors on',
    async () => {
      const { first, second } = await openPair();
      const donor = await openDonor(second.url);
      await donor.until('computing');
      const committed = async (): Promise<unknown> =>
        (await (await fetch(`${second.url}/api/status`)).json()).committedSteps;
      await expect.poll(committed, { timeout: 60_000 }).toBeGreaterThan(0);
      first.signal('SIGSTOP');
      // Opened by its link while nobody leads, the dashboard waits, and its token is not lost.
      const operator = await openOperator(second);
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
    },
  );

  test.runIf(IS_LONG)(
    'NATS is away while tabs of two servers train: commits wait, the run goes on by itself, and nothing is lost or counted twice',
    {
      timeout: BUSY_MS,
    },
    async () => {
      const { nats, runFile, first, second } = await openPair(copyOfRun('gpt2-long', withSteps(LONG_STEPS)));
      const operator = await openOperator(first);
      await operator.press('Pause');
      await operator.until(({ phase }) => phase === 'paused');
      const donor = await openDonor(first.url);
      await openDonor(second.url);
      const { page: besides } = await openOperator(second);
      await operator.until(({ donors }) => donors.length === 2);
      await operator.press('Resume');
      await operator.until(({ committedSteps }) => committedSteps > 3);
      await nats.kill();
      await operator.until(({ sentence }) => sentence.includes('NATS does not answer'));
      await besides.getByText('This server can’t reach the one that leads the run.').waitFor();
      await donor.page.getByText('The server can’t save right now, so the run waits.').waitFor();
      await operator.page.getByText('There is nothing to press: the run goes on by itself.').waitFor();
      const { committedSteps: before } = await operator.until(() => true);
      await sleep(AWAY_MS);
      expect((await operator.until(() => true)).committedSteps).toBe(before);
      await nats.start();
      await besides.locator('body[data-connection="open"]').waitFor();
      const { generation } = await operator.until(({ phase }) => phase === 'finished');
      expect(generation).toBe(0);
      await second.stop();
      await first.stop();
      // What the site keeps, as one server would have it.
      const folder = join(temporaryFolder(), 'copy');
      const copied = await shoal('store', 'copy', '--from', nats.url, '--to', folder);
      expect(copied.code, copied.stderr).toBe(0);
      const { metrics } = await runSwarm(runFile, '--donors', '1', '--data-dir', folder);
      expect(curveFaults('gpt2-long', LONG_STEPS, metrics)).toEqual([]);
    },
  );

  test.runIf(IS_LONG)(
    '[NA2] a server that does not lead is killed and comes back: its tab comes back, nothing is given up; killed once more, the one that leads is the last and saves',
    async () => {
      const { nats, runFile, first, second } = await openPair();
      const [, other] = [await openDonor(first.url), await openDonor(second.url)];
      const operator = await openOperator(first);
      await operator.until(({ committedSteps, donors }) => committedSteps > 3 && donors.length === 2);
      await second.kill();
      const again = await startServer(runFile, { nats: nats.url, schedule: 'gpipe', port: second.port });
      await other.until('computing');
      const atReturn = (await operator.until(() => true)).committedSteps;
      const back = await operator.until(
        ({ committedSteps, donors }) => committedSteps > atReturn + 3 && donors.length === 2,
      );
      expect(back.generation).toBe(0);
      await other.press('Leave');
      await operator.until(({ donors }) => donors.length === 1);
      await again.kill();
      const { stderr } = await first.stop();
      expect(stderr).toContain('stopping after this step');
    },
  );
});

const [ONE, OTHER] = ['gpt2-long', 'llama-tiny'];
const STEPS_OF = { [ONE]: LONG_STEPS, [OTHER]: 20 };

test.runIf(IS_LONG && hasNatsServer())(
  '[NA81] an operator has a second run trained beside the first; a tab chooses one, the server that leads it is killed and comes back, and both end on their golden curves',
  async () => {
    const { url } = await openNats();
    const files = { [ONE]: copyOfRun(ONE, withSteps(STEPS_OF[ONE] ?? 0)), [OTHER]: copyOfRun(OTHER) };
    // A data directory that has both runs becomes the site's.
    const dataDirectory = temporaryFolder();
    for (const name of [OTHER, ONE]) await (await startServer(files[name] ?? '', { dataDirectory })).stop();
    const filled = await shoal('store', 'copy', '--from', dataDirectory, '--to', url);
    expect(filled.code, filled.stderr).toBe(0);
    const serve = (port = 0) => startServer(files[ONE] ?? '', { nats: url, schedule: 'gpipe', port });
    const first = await serve();
    await first.logged(/(this process leads the site)/);
    const second = await serve();

    const operator = await openOperator(first);
    await operator.page.goto(`${first.url}/operator#runs`);
    await operator.page.getByRole('button', { name: `Train beside ${OTHER}`, exact: true }).click();
    await operator.page.getByRole('button', { name: `Yes, train beside ${OTHER}`, exact: true }).click();
    const leads = new RegExp(`(this process leads ${OTHER})`);
    const leader = await Promise.race([first, second].map((server) => server.logged(leads).then(() => server)));
    const page = await operator.page.context().newPage();
    const other = new Operator(page);
    await page.goto(`${first.url}/operator?run=${OTHER}`);
    await other.until(({ run }) => run === OTHER);

    const visitor = await operator.page.context().newPage();
    const choice = visitor.getByRole('combobox', { name: 'Which run?' });
    await visitor.goto(first.url);
    await choice.waitFor();
    expect(await choice.locator('option').allTextContents()).toEqual([
      expect.stringMatching(/^Where I am needed most \(/),
      expect.stringMatching(new RegExp(`^${ONE}: `)),
      expect.stringMatching(new RegExp(`^${OTHER}: `)),
    ]);
    await visitor.goto(`${second.url}/?run=${OTHER}`);
    await choice.waitFor();
    expect(await choice.inputValue()).toBe(OTHER);
    await visitor.close();

    const tabs = [await openDonor(`${first.url}/?run=${ONE}#`), await openDonor(`${second.url}/?run=${OTHER}#`)];
    await operator.until(({ committedSteps }) => committedSteps > 2);
    await other.until(({ committedSteps }) => committedSteps > 2);
    await leader.kill();
    await serve(leader.port);
    for (const one of [operator, other])
      expect((await one.until(({ phase }) => phase === 'finished')).generation).toBe(0);
    for (const { page: tab } of tabs) await tab.close();

    // What the site keeps of both, as one server would have it.
    const folder = join(temporaryFolder(), 'copy');
    const copied = await shoal('store', 'copy', '--from', url, '--to', folder);
    expect(copied.code, copied.stderr).toBe(0);
    for (const name of [ONE, OTHER]) {
      const { metrics } = await runSwarm(files[name] ?? '', '--donors', '1', '--data-dir', folder);
      expect(curveFaults(name, STEPS_OF[name] ?? 0, metrics), name).toEqual([]);
    }
  },
);
