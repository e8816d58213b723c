/** The dashboard as operators use it: every part and control on a real run, readable by everyone, hard to fool. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { AxeBuilder } from '@axe-core/playwright';
import type { Page } from 'playwright';
import { expect, test } from 'vitest';
import { openDonor, openOperator } from './browser.ts';
import { copyOfRun, shoal, startServer, temporaryFolder, withSteps } from './product.ts';

const PARTS = ['Run', 'Swarm', 'Peers', 'Runs', 'Samples', 'History'] as const;
const WIDE = { width: 1440, height: 900 };
const NARROW = { width: 350, height: 700 };

/**
 * What axe finds wrong in a narrow window, in the scheme given; and whether anything sticks out of it. No page has frames,
 * so that axe needs no page of its own to put its findings together.
 */
async function expectAccessible(page: Page, where: string, colorScheme: 'light' | 'dark'): Promise<void> {
  await page.setViewportSize(NARROW);
  await page.emulateMedia({ colorScheme });
  const { violations } = await new AxeBuilder({ page }).setLegacyMode().analyze();
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

/** Whatever has the focus is reached by the Tab key alone. */
async function tabTo(page: Page, name: string): Promise<void> {
  for (let presses = 0; presses < 60; presses++) {
    await page.keyboard.press('Tab');
    const text = await page.evaluate(() => {
      const focused = document.activeElement;
      return focused instanceof HTMLInputElement ? focused.labels?.[0]?.textContent : focused?.textContent;
    });
    if (text?.includes(name)) return;
  }
  throw new Error(`${name} is not reached by keyboard`);
}

test('operators read, steer, draft, go back, let go and change the run; two at once and a lost server leave it whole', async () => {
  const runFile = copyOfRun('gpt2-long', withSteps(2_000));
  const first = await startServer(runFile);
  const [operator, donor] = await Promise.all([openOperator(first), openDonor(first.url)]);
  const { page } = operator;
  const problems: string[] = [];
  page.on('console', (message) => {
    // zod asks once whether text may become code: the page's policy says no, and it does without. That a server is gone,
    // or refuses, is the browser's own complaint.
    if (!/TrustedScript|Function constructor|net::ERR_|status of 409/.test(message.text()))
      problems.push(message.text());
  });
  page.on('pageerror', ({ message }) => problems.push(message));
  await operator.until(({ committedSteps }) => committedSteps > 8);

  // Charts, by keyboard alone.
  await page.getByRole('img', { name: /^Loss, steps 1 to \d+: each step from 5\.\d+ to/ }).waitFor();
  await tabTo(page, 'Logarithmic loss');
  await page.keyboard.press('Space');
  await tabTo(page, 'Closer');
  await page.keyboard.press('Enter');
  await tabTo(page, 'All steps');
  await page.keyboard.press('Enter');
  await page.getByRole('img', { name: /^Traffic by kind, steps 1 to / }).waitFor();
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

  // Two operators press at once, and see what the other one does.
  const other = await page.context().newPage();
  await other.goto(`${first.url}/operator`);
  await Promise.all(
    [page, other].map((each) => each.getByRole('button', { name: 'Pause', exact: true }).click({ force: true })),
  );
  await operator.until(({ phase }) => phase === 'paused');
  await other.getByText(/^Paused by the operator after/).waitFor();
  await page.getByText('When to alert').click();
  await page.getByLabel('Donors at work, at least').fill('3');
  await page.getByRole('button', { name: 'Keep these limits' }).click();
  await page.getByText('Kept.').waitFor();
  await other.getByText('When to alert').click();
  await expect.poll(() => other.getByLabel('Donors at work, at least').inputValue()).toBe('3');

  // Every part with everything open; two cores are for the reader now.
  for (const [index, part] of PARTS.entries()) {
    await go(page, part);
    if (part === 'Swarm') await page.getByText(/does the whole step alone, \d/).waitFor();
    if (part === 'Peers') {
      await page.getByRole('button', { name: /^More of/ }).click();
      await page.getByLabel('More donors').fill('1');
      await page.getByRole('button', { name: 'Predict' }).click();
      await page.getByText(/^Without the change:/).waitFor();
    }
    if (part === 'Runs') {
      await page.locator('summary', { hasText: 'Checkpoints of gpt2-long' }).click();
      await page.getByRole('button', { name: 'New run' }).click();
    }
    if (part === 'Samples') {
      await page.getByLabel('Tokens').fill('8');
      await page.getByRole('button', { name: 'Write samples' }).click();
      await page.getByRole('columnheader', { name: '“Call me ”' }).waitFor();
    }
    await expectAccessible(page, part, index % 2 === 0 ? 'light' : 'dark');
  }
  const response = await other.goto(`${first.url}/status`);
  expect(response?.headers()['content-security-policy']).toContain("require-trusted-types-for 'script'");
  await other.getByText('The run is paused.').waitFor();
  await expectAccessible(other, 'Status', 'light');
  expect(await other.content()).not.toContain(String(await donor.page.locator('body').getAttribute('data-peer')));

  // The server is gone for a while, and comes back to the same.
  const before = await operator.until(() => true);
  await first.kill();
  await page.getByText('The connection is lost; this is how the run was last seen.').waitFor();
  await page.getByText('Reconnecting').waitFor();
  expect(await page.getByRole('button', { name: 'Resume', exact: true }).isDisabled()).toBe(true);
  const server = await startServer(runFile, { dataDirectory: first.dataDirectory, port: first.port });
  await page.locator('body[data-connection="open"]').waitFor();
  expect(await operator.until(() => true)).toMatchObject({ phase: 'paused', committedSteps: before.committedSteps });

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
  await donor.until('joined');
  await page.getByRole('button', { name: 'Can it be carried?' }).click();
  await page.getByText(/steps take about/).waitFor();
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByText('second is made.').waitFor();

  await page
    .getByRole('button', { name: /^Go back to checkpoint/ })
    .first()
    .click();
  await page.getByRole('button', { name: /^Yes, go back/ }).click();
  await operator.until((now) => now.phase === 'paused' && now.committedSteps < before.committedSteps);
  await operator.press('Resume');
  await operator.until(({ phase }) => phase === 'training');
  await go(page, 'Peers');
  await page.getByRole('button', { name: /^More of/ }).click();
  await page.getByRole('button', { name: 'Let go after this step' }).click();
  await donor.until('left');

  await go(page, 'Runs');
  await page.getByRole('button', { name: 'Make active second' }).click();
  await page.getByRole('button', { name: /^Yes, make active/ }).click();
  await operator.until(({ run }) => run === 'second');
  await page.getByRole('heading', { name: 'second', level: 1 }).waitFor();
  expect(problems).toEqual([]);

  // Somebody who made the cookie up.
  const { domain = 'localhost' } = (await page.context().cookies())[0] ?? {};
  const forged = 'eyJhbGciOiJub25lIn0.eyJyb2xlIjoib3BlcmF0b3IifQ.';
  await page.context().addCookies([{ name: 'shoal_operator', value: forged, domain, path: '/' }]);
  await page.goto(`${server.url}/operator`);
  await page.getByLabel('Operator token').fill('guessed');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByText('Refused: this is not the token that the server printed last.').waitFor();
  await expectAccessible(page, 'Login', 'dark');
});

test('a run of 256 donors: memory stays flat, what shows their names is text, nothing moves', async () => {
  const { code, stdout, stderr } = await shoal('bench', 'dashboard', '--seconds', '6', '--json');
  expect(code, stderr).toBe(0);
  const { heapBytes, redrawsPerSecond, layoutShift, faults } = JSON.parse(stdout);
  expect(faults).toEqual([]);
  expect(redrawsPerSecond).toBeGreaterThan(0);
  expect(heapBytes.at(-1)).toBeLessThan(1.25 * heapBytes[0]);
  for (const part of ['Run', 'Swarm', 'Peers']) expect(layoutShift[part], part).toBeLessThan(0.01);
});
