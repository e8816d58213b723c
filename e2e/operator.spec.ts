/** The dashboard as an operator uses it: every part and control on a real run, readable by everyone, hard to fool. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { AxeBuilder } from '@axe-core/playwright';
import type { Page } from 'playwright';
import { expect, test } from 'vitest';
import { openDonor, openOperator } from './browser.ts';
import { copyOfRun, startServer, temporaryFolder, withSteps } from './product.ts';

const PARTS = ['Run', 'Swarm', 'Peers', 'Runs', 'Samples', 'History'] as const;
const WIDE = { width: 1440, height: 900 };
const NARROW = { width: 350, height: 700 };

/** What axe finds wrong in a narrow window, in the scheme given; and whether anything sticks out of it. */
async function expectAccessible(page: Page, where: string, colorScheme: 'light' | 'dark'): Promise<void> {
  await page.setViewportSize(NARROW);
  await page.emulateMedia({ colorScheme });
  const { violations } = await new AxeBuilder({ page }).analyze();
  const faults = violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]);
  expect(faults, `${where}, ${colorScheme}`).toEqual([]);
  const overhang = await page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.documentElement;
    return scrollWidth - clientWidth;
  });
  expect(overhang, where).toBe(0);
  await page.setViewportSize(WIDE);
}

const go = (page: Page, part: (typeof PARTS)[number]): Promise<void> =>
  page.getByRole('navigation').getByRole('link', { name: part, exact: true }).click();

test('an operator reads every part, zooms by keyboard, takes numbers along; so does who sees nothing', async () => {
  const server = await startServer(copyOfRun('gpt2-long', withSteps(2_000)));
  const operator = await openOperator(server);
  const { page } = operator;
  const problems: string[] = [];
  page.on('console', (message) => {
    // zod asks once whether text may become code; the page's policy says no, and it does without.
    if (!/TrustedScript|Function constructor/.test(message.text())) problems.push(message.text());
  });
  page.on('pageerror', ({ message }) => problems.push(message));
  const donor = await openDonor(server.url);
  await operator.until(({ committedSteps }) => committedSteps > 6);

  await page.getByRole('img', { name: /^Loss, steps 1 to \d+: each step from 5\.\d+ to/ }).waitFor();
  await page.getByLabel('Logarithmic loss').check();
  await page.getByRole('button', { name: 'Closer' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'All steps' }).focus();
  await page.keyboard.press('Enter');
  const chart = page.getByRole('region', { name: 'Step time' });
  await chart.getByText('Numbers').click();
  await chart.getByRole('columnheader', { name: 'slowest 5 % (p95)' }).waitFor();
  const download = page.waitForEvent('download');
  await chart.getByRole('button', { name: 'CSV' }).click();
  const file = await download;
  expect(file.suggestedFilename()).toBe('gpt2-long-time.csv');
  const path = join(temporaryFolder(), 'time.csv');
  await file.saveAs(path);
  expect(readFileSync(path, 'utf8')).toMatch(/^step,seconds\n0,[\d.]+\n1,/);

  // Two cores are for the reader now.
  await operator.press('Pause');
  await operator.until(({ phase }) => phase === 'paused');
  for (const [index, part] of PARTS.entries()) {
    await go(page, part);
    if (part === 'Swarm') await page.getByText(/does the whole step alone, \d/).waitFor();
    if (part === 'Peers') await page.getByRole('button', { name: /^More of/ }).click();
    if (part === 'Runs') await page.getByRole('button', { name: 'New run' }).click();
    await expectAccessible(page, part, index % 2 === 0 ? 'light' : 'dark');
  }
  const response = await page.goto(`${server.url}/status`);
  expect(response?.headers()['content-security-policy']).toContain("require-trusted-types-for 'script'");
  await page.getByText('The run is paused.').waitFor();
  await expectAccessible(page, 'Status', 'light');
  expect(await page.content()).not.toContain(String(await donor.page.locator('body').getAttribute('data-peer')));
  expect(problems).toEqual([]);
});

test('an operator drafts, plans, goes back, lets a donor go and changes the run; two at once agree', async () => {
  const server = await startServer(copyOfRun('gpt2-long', withSteps(2_000)));
  const operator = await openOperator(server);
  const { page } = operator;
  const donor = await openDonor(server.url);
  await operator.until(({ committedSteps }) => committedSteps > 8);

  // Two operators press at once: the same thing, and what excludes it.
  const other = await page.context().newPage();
  await other.goto(`${server.url}/operator`);
  await Promise.all(
    [page, other].map((each) => each.getByRole('button', { name: 'Pause', exact: true }).click({ force: true })),
  );
  await operator.until(({ phase }) => phase === 'paused');
  await other.getByText(/^Paused by the operator after/).waitFor();

  await go(page, 'Runs');
  await page.locator('summary', { hasText: 'Checkpoints of gpt2-long' }).click();
  await page
    .getByLabel(/^Keep checkpoint \d+ of gpt2-long/)
    .first()
    .click();
  await page.getByText(/^Checkpoint \d+ stays\.$/).waitFor();
  await page.getByRole('button', { name: 'New run' }).click();
  await page.getByLabel('Name').fill('<img src=x onerror=alert(1)>');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByText(/Refused: the draft: name must be .* not "<img src=x onerror=alert\(1\)>"/).waitFor();
  await page.getByLabel('Name').fill('second');
  await page.getByLabel('Model').selectOption('tiny');
  await page.getByRole('button', { name: 'Can it be carried?' }).click();
  await page.getByText(/steps take about/).waitFor();
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByText('second is made.').waitFor();

  const { committedSteps } = await operator.until(() => true);
  await page
    .getByRole('button', { name: /^Go back to checkpoint/ })
    .first()
    .click();
  await page.getByRole('button', { name: /^Yes, go back/ }).click();
  await operator.until((now) => now.phase === 'paused' && now.committedSteps < committedSteps);
  await operator.press('Resume');
  await operator.until(({ phase }) => phase === 'training');

  await go(page, 'Peers');
  await page.getByRole('button', { name: /^More of/ }).click();
  await page.getByLabel('More donors').fill('1');
  await page.getByRole('button', { name: 'Predict' }).click();
  await page.getByText(/^Without the change:/).waitFor();
  await page.getByRole('button', { name: 'Let go after this step' }).click();
  await donor.until('left');

  await go(page, 'Samples');
  await page.getByLabel('Tokens').fill('8');
  await page.getByRole('button', { name: 'Write samples' }).click();
  await page.getByRole('columnheader', { name: '“Call me ”' }).waitFor();

  await go(page, 'Runs');
  await page.getByRole('button', { name: 'Make active second' }).click();
  await page.getByRole('button', { name: /^Yes, make active/ }).click();
  await operator.until(({ run }) => run === 'second');
  await page.getByRole('heading', { name: 'second', level: 1 }).waitFor();
});
