/** Every state of the dashboard: of a real run, and of a simulated one where many donors are wanted. */
import type { Page } from 'playwright';
import { test } from 'vitest';
import { feedServer } from '../../signaling-server/bench/benchDashboard.ts';
import { DashboardFeed } from '../../signaling-server/bench/dashboardFeed.ts';
import { openBrowser, openDonor, openOperator } from '../browser.ts';
import { go, tell } from '../dashboardControls.ts';
import { atTestEnd, copyOfRun, type Json, startServer, withSteps } from '../product.ts';
import { asDesktop, CARD, picture } from './picture.ts';

const LIMITS = { donors: 3, stalledSeconds: 60, checkpointMinutes: 30 };
const CLUSTER = JSON.stringify({ peers: [{ id: 'lighthouse', memoryBytes: 4e9, flopsPerSecond: 1e12 }] });

const long = (run: Json): Json => ({ ...withSteps(4_000)(run), state: { replicas: 0 } });

async function draft(page: Page): Promise<void> {
  await go(page, 'Runs');
  await page.locator('summary', { hasText: 'Checkpoints of gpt2-long' }).click();
  await picture(page, 'operator-20-runs');
  await page.getByRole('button', { name: 'New run', exact: true }).click();
  const form = page.getByRole('form', { name: 'New run' });
  await form.getByLabel('Steps', { exact: true }).fill('-3');
  await picture(page, 'operator-21-new-run-with-a-wrong-field');
  await form.getByLabel('Steps', { exact: true }).fill('30');
  await form.getByLabel('Name').fill('second');
  await form.getByText(/^It fits: |^The donors who are here now cannot/).waitFor();
  await form.getByRole('button', { name: 'Check plan' }).click();
  await form.getByText(/30 steps take about/).waitFor();
  await picture(page, 'operator-22-new-run-planned');
  await form.getByText('Plan for other donors').click();
  await form.getByLabel(/^Cluster file/).fill(CLUSTER.replace('4000000000', '4'));
  await form.getByRole('button', { name: 'Check plan' }).click();
  await form.locator('.answer:not(.soft)', { hasText: /\S/ }).waitFor();
  await picture(page, 'operator-23-new-run-refused');
  await form.getByLabel(/^Cluster file/).fill('');
  await form.getByRole('button', { name: 'Create' }).click();
  await form.getByText('second is created.').waitFor();
  await form.getByRole('button', { name: 'Close' }).click();
}

test('a run of few', async () => {
  const server = await startServer(copyOfRun('gpt2-long', long), { schedule: 'gpipe' });
  const operator = await openOperator(server);
  const { page } = operator;
  await asDesktop(page);
  await page.locator('#run-name').waitFor();
  await picture(page, 'operator-01-nobody-here');
  await tell(page, 'card', CARD);
  const first = await openDonor(server.url);
  await picture(page, 'operator-02-preparing', { passing: true });
  await first.until('computing');
  await operator.untilFurther(12);
  await picture(page, 'operator-03-one-donor');
  await openDonor(server.url);
  await operator.until(({ donors }) => donors.filter(({ state }) => state === 'computing').length === 2);
  await operator.untilFurther(6);
  await tell(page, 'alerts', LIMITS);
  await picture(page, 'operator-04-alert');
  await go(page, 'Swarm');
  await page.getByText(/more than the|less than the/).waitFor();
  await picture(page, 'operator-10-swarm');
  await go(page, 'Peers');
  await page
    .getByRole('button', { name: /^More of/ })
    .first()
    .click();
  await picture(page, 'operator-11-peers');
  await operator.press('Pause');
  await operator.until(({ phase }) => phase === 'paused');
  await go(page, 'Run');
  await picture(page, 'operator-05-paused');
  await go(page, 'Samples');
  await page.getByRole('form', { name: 'Samples' }).getByLabel('Tokens').fill('20');
  await page.getByRole('button', { name: 'Write samples' }).click();
  await page.getByText('Written: see below.').waitFor();
  await picture(page, 'operator-30-samples');
  await go(page, 'Settings');
  await picture(page, 'operator-31-history');
  await page.getByRole('button', { name: 'Stop', exact: true }).click();
  await picture(page, 'operator-06-stop-asks');
  await page.getByRole('button', { name: 'Yes, stop' }).click();
  await operator.until(({ isStopped }) => isStopped === true);
  await draft(page);
  await page.getByRole('button', { name: 'Make active second' }).click();
  await page.getByRole('button', { name: /^Yes, make active/ }).click();
  await page.getByText('The server changes to second').first().waitFor();
  await picture(page, 'operator-24-changing-runs', { passing: true });
  await operator.until(({ run }) => run === 'second');
  await go(page, 'Run');
  await page.getByRole('group', { name: 'Compare with' }).getByLabel('gpt2-long').check();
  await page.locator('.keys').getByText('gpt2-long').first().waitFor();
  await picture(page, 'operator-08-compared');
  const { context } = await openBrowser({ webGpu: false });
  const stranger = await context.newPage();
  await stranger.goto(`${server.url}/operator#token=guess`);
  await stranger.getByLabel('Operator token').waitFor();
  await picture(stranger, 'operator-00-log-in');
  await stranger.goto(`${server.url}/nowhere`);
  await picture(stranger, 'nowhere');
});

test.each([4, 200])('a simulated run of %i', async (donors) => {
  const { app } = await feedServer(new DashboardFeed(donors));
  atTestEnd(() => app.close());
  const url = await app.listen({ port: 0, host: 'localhost' });
  const { context } = await openBrowser({ webGpu: false });
  const page = await context.newPage();
  await asDesktop(page);
  await page.goto(`${url}/operator`);
  await page.locator('#run-name').waitFor();
  await picture(page, `crowd-${donors}-run`);
  await go(page, 'Swarm');
  await page.locator('.spans').waitFor();
  await picture(page, `crowd-${donors}-swarm`);
  await go(page, 'Peers');
  await picture(page, `crowd-${donors}-peers`);
});

test('rehearsed faults, and what alerts then', async () => {
  const savedSeldom = (run: Json): Json => ({
    ...long(run),
    checkpoint: { ...(run.checkpoint as Json), everySteps: 2_000 },
  });
  const server = await startServer(copyOfRun('gpt2-long', savedSeldom), { schedule: 'gpipe', donors: 3 });
  const operator = await openOperator(server);
  const { page } = operator;
  await asDesktop(page);
  await operator.until(({ donors }) => donors.filter(({ state }) => state === 'computing').length === 3);
  await operator.untilFurther(12);
  await go(page, 'Swarm');
  const card = page.locator('.card:has(> #rehearsals)');
  for (const [at, what] of ['freeze', 'kill'].entries()) {
    await card.getByLabel('What').selectOption(what);
    await card.getByRole('button', { name: 'Rehearse' }).click();
    await card.getByRole('button', { name: 'Yes, rehearse' }).click();
    // The newest stands first.
    await card.locator('tbody tr').nth(at).waitFor();
    await card.locator('tbody tr').first().getByText('Over').waitFor();
  }
  await picture(page, 'operator-12-rehearsals');
  // A stop saves, and from then on nothing is saved for a minute; a donor that is killed is opened again.
  await operator.press('Stop');
  await operator.until(({ isStopped }) => isStopped === true);
  await operator.press('Start');
  await tell(page, 'alerts', { ...LIMITS, donors: 8, checkpointMinutes: 1 });
  await go(page, 'Run');
  await page.locator('.badge', { hasText: /[2-9]/ }).waitFor();
  await picture(page, 'operator-14-several-alerts');
});

test('a run whose numbers go wrong', async () => {
  const wrong = (run: Json): Json => {
    const train = run.train as Json;
    const optimizer = { ...(train.optimizer as Json), learningRate: 1e30 };
    return { ...long(run), train: { ...train, steps: 4_000, optimizer, gradientClipNorm: undefined } };
  };
  const server = await startServer(copyOfRun('gpt2-long', wrong), { schedule: 'gpipe' });
  const operator = await openOperator(server);
  await asDesktop(operator.page);
  const donor = await openDonor(server.url);
  await operator.until(({ hasDiverged }) => hasDiverged === true);
  await picture(operator.page, 'operator-09-diverged');
  await picture(donor.page, 'donor-48-diverged');
  await go(operator.page, 'Settings');
  await picture(operator.page, 'operator-32-history-after-it');
});
