/** An operator has donors of the server's own fail on purpose, and reads what it cost. */
import { readFileSync } from 'node:fs';
import type { Page } from 'playwright';
import { expect, test } from 'vitest';
import { openBrowser, openOperator } from './browser.ts';
import { go } from './dashboardControls.ts';
import { expectAccessible } from './pageChecks.ts';
import { beside, copyOfRun, RunningCommand, withSteps } from './product.ts';

const CARD = '.card:has(> #rehearsals)';

/** By the panel's own controls; resolves with the cells of its row when it is over. */
async function rehearse(page: Page, what: string, seconds?: number): Promise<string[]> {
  const card = page.locator(CARD);
  const before = await card.locator('tbody tr').count();
  await card.getByLabel('What').selectOption(what);
  if (seconds !== undefined) await card.getByLabel('Seconds').fill(String(seconds));
  await card.getByRole('button', { name: 'Rehearse' }).click();
  await card.getByRole('button', { name: 'Yes, rehearse' }).click();
  // With what the panel says: a refusal tells why.
  const seen = async () => ({
    rows: await card.locator('tbody tr').count(),
    says: await card.locator('.answer').textContent(),
  });
  await expect
    .poll(seen, { timeout: 10_000 })
    .toEqual({ rows: before + 1, says: 'Begun. The table says what it costs.' });
  const row = card.locator('tbody tr').first();
  await row.getByText('Over').waitFor();
  return row.locator('td, th').allTextContents();
}

const SECONDS = expect.stringMatching(/^\d+\.\d s$/);
/** Of a fault that was noticed and got over, without a step that was given up. */
const lossless = (what: string) => [
  ...[expect.stringMatching(/^\S{6}$/), what, expect.stringMatching(/^\d+$/), expect.stringContaining('Over')],
  ...[SECONDS, SECONDS, '0', expect.stringMatching(/B$/)],
];

test('[RE45] an operator freezes and kills donors of the server’s own: no step is given up, a viewer reads the table', async () => {
  const runFile = copyOfRun('gpt2-long', withSteps(5_000));
  const report = beside(runFile, 'report.json');
  const swarm = new RunningCommand(['swarm', runFile, '--donors', '4', '--report', report]);
  const operatorUrl = await swarm.printed(/its dashboard: (\S+)/, 'stderr');
  const operator = await openOperator({ operatorUrl });
  const { page } = operator;
  await operator.until(({ donors }) => donors.filter(({ state }) => state === 'computing').length === 4);
  await operator.untilFurther(3);
  await go(page, 'Swarm');
  const frozen = await rehearse(page, 'freeze', 8);
  expect(frozen).toEqual(lossless('freeze it for 8 s'));
  // It came back by itself.
  await operator.until(({ donors }) => donors.length === 4);
  const killed = await rehearse(page, 'kill');
  expect(killed).toEqual(lossless('kill its tab'));
  await operator.until(({ donors }) => donors.length === 3);
  await expectAccessible(page, 'Swarm');

  const asked = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' };
  const newLink = async (): Promise<string> => {
    const token = await page.evaluate(
      async (init) => (await (await fetch('/api/operator/viewer', init)).json()).token,
      asked,
    );
    return `${new URL(operatorUrl).origin}/operator#token=${token}`;
  };
  const { context } = await openBrowser({ webGpu: false });
  const viewer = await context.newPage();
  const link = await newLink();
  await viewer.goto(link);
  await go(viewer, 'Swarm');
  await expect.poll(() => viewer.locator(CARD).locator('tbody tr').count()).toBe(2);
  expect(await viewer.locator(CARD).getByRole('button').count()).toBe(0);
  // A link opened in a tab that shows the dashboard: a used one says so, after a log-out a new one logs in.
  await viewer.goto(link);
  await viewer.getByText('used before').waitFor();
  expect(viewer.url()).not.toContain('token');
  await viewer.getByRole('button', { name: 'Log out' }).click();
  await viewer.getByLabel('Operator token').waitFor();
  await expect.poll(() => viewer.title()).toBe('Shoal: operator');
  await viewer.goto(await newLink());
  await viewer.getByText('Viewer: looks only').waitFor();

  await swarm.stop();
  const { faults, rollbacks } = JSON.parse(readFileSync(report, 'utf8'));
  const given = { stepsGivenUp: 0, detectedSeconds: expect.any(Number), resumedSeconds: expect.any(Number) };
  expect(faults).toMatchObject([
    { entry: expect.stringMatching(/^freeze:\d@\d+\+8s$/), ...given },
    { entry: expect.stringMatching(/^kill:\d@\d+$/), ...given },
  ]);
  expect(rollbacks).toEqual([]);
});
