/** What a person finds again: after a reload, in the tab's title, and when the server is gone. */
import { expect, test } from 'vitest';
import { openDonor, openOperator } from './browser.ts';
import { expectAccessible } from './pageChecks.ts';
import { copyOfRun, startServer, withSteps } from './product.ts';

test('a reload forgets neither a snooze nor what was given; titles say the state, and old numbers that they are old', async () => {
  const server = await startServer(copyOfRun('gpt2-long', withSteps(400)));
  const operator = await openOperator(server);
  const { page, press, until } = await openDonor(server.url);
  const given = page.locator('.stat', { hasText: 'You contributed' });
  await given.filter({ hasText: /[1-9][\d,]* ?tokens, / }).waitFor();
  await expect.poll(() => page.title()).toMatch(/Training · gpt2-long$/);
  await expect.poll(() => operator.page.title(), { timeout: 60_000 }).toMatch(/Training · Shoal: operator$/);
  await press('Pause');
  await until('paused');
  const tokens = await given.textContent();
  await page.reload();
  // Paused it was, and paused it is: nothing is connected.
  await until('paused');
  await expect.poll(() => page.title()).toMatch(/Paused/);
  await operator.until(({ donors }) => donors.length === 0);
  await press('Resume');
  await until('computing');
  await page.getByRole('button', { name: 'Snooze 15 minutes' }).click();
  await page.getByText(/Your GPU rests until .*\. Then it goes on by itself\./).waitFor();
  await until('paused');
  await page.reload();
  await page.getByText(/Your GPU rests until .*\. Then it goes on by itself\./).waitFor();
  await press('Resume');
  await until('computing');
  // At least what was given before: it goes on.
  const number = (text: string | null): number =>
    Number(/contributed([\d,]+)/.exec(text ?? '')?.[1]?.replaceAll(',', ''));
  expect(number(await given.textContent())).toBeGreaterThanOrEqual(number(tokens));
  expect(number(tokens)).toBeGreaterThan(0);

  await server.kill();
  await operator.page
    .getByText(/The server has not answered since .*\. Everything below is as it was then\./)
    .waitFor();
  await operator.page
    .getByText(/Last seen: /)
    .first()
    .waitFor();
  await operator.page.getByRole('heading', { name: 'When last seen' }).waitFor();
  expect(await operator.page.getByText('Nothing to worry about.').count()).toBe(0);
  expect(
    await operator.page
      .getByText('left', { exact: false })
      .filter({ hasText: /^about .* left$/ })
      .count(),
  ).toBe(0);
  await expect.poll(() => operator.page.title()).toMatch(/Reconnecting/);
  await until('reconnecting');
  await expect.poll(() => page.title()).toMatch(/Reconnecting/);
  await expectAccessible(operator.page);
});
