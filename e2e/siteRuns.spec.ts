/** Two runs at once in a site of two servers over a real NATS: real tabs at either train both to their golden curves. */
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { hasNatsServer, NO_NATS_SERVER, startNatsServer } from '../signaling-server/site/natsServer.ts';
import { Operator, openDonor, openOperator } from './browser.ts';
import { curveFaults } from './fidelity.ts';
import { atTestEnd, copyOfRun, runSwarm, shoal, startServer, temporaryFolder, withSteps } from './product.ts';

const [ONE, OTHER] = ['gpt2-long', 'llama-tiny'];
const STEPS = { [ONE]: 60, [OTHER]: 20 };

describe.skipIf(!hasNatsServer())(hasNatsServer() ? 'runs of a site' : `skipped: ${NO_NATS_SERVER}`, () => {
  test('[NA80] [NA81] [NA84] an operator has a second run trained beside the first; a tab chooses one, the server that leads it is killed and comes back, and both end on their golden curves', async () => {
    const nats = await startNatsServer(temporaryFolder());
    if (!nats.ok) throw new Error(nats.reason);
    atTestEnd(() => nats.value.stop());
    const { url } = nats.value;
    const files = { [ONE]: copyOfRun(ONE, withSteps(STEPS[ONE] ?? 0)), [OTHER]: copyOfRun(OTHER) };
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
      expect(curveFaults(name, STEPS[name] ?? 0, metrics), name).toEqual([]);
    }
  });
});
