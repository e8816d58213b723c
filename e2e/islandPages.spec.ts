/** The dashboard and the donor page of a run with islands. */
import { expect, test } from 'vitest';
import { openDonor, openOperator } from './browser.ts';
import { expectAccessible } from './pageChecks.ts';
import { copyOfRun, startServer, withSteps } from './product.ts';

/** Two islands of six steps. */
const ROUND_STEPS = 12;

test('islands are curves with their mean, boxes on the map, and a meeting on the timeline', async () => {
  const server = await startServer(copyOfRun('islands-f32', withSteps(2 * ROUND_STEPS)));
  const operator = await openOperator(server);
  const { page } = operator;
  await openDonor(server.url);
  await operator.until(({ phase }) => phase === 'finished');
  const keys = page.locator('section', { has: page.locator('#chart-loss') }).locator('.keys li');
  await keys.filter({ hasText: 'mean' }).waitFor();
  expect(await keys.locator('span').allTextContents()).toEqual(['island 1', 'island 2', 'mean', 'on unseen text']);

  await page.getByRole('link', { name: 'Swarm', exact: true }).click();
  const group = page.getByRole('region', { name: 'Islands 1 and 2, by turns' });
  const boxes = group.getByRole('listitem').filter({ hasText: 'steps' });
  await boxes.first().waitFor();
  const words = (await boxes.allTextContents()).map((text) => text.replace(/\s+/g, ' '));
  expect(words).toHaveLength(2);
  for (const text of words) expect(text).toContain('6 of 6 steps');
  // The first round's last step, and the one that ended island 1's turn in it.
  const step = page.getByLabel('Step', { exact: true });
  await step.fill(String(ROUND_STEPS));
  await page.getByText(/Then the islands met: .* at the donor that took longest/).waitFor();
  await page.getByText('the islands’ meeting').waitFor();
  await step.fill(String(ROUND_STEPS / 2));
  await page.getByText(/Then came the next island’s turn/).waitFor();
  await expectAccessible(page);
});
