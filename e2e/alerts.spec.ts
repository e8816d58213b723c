/** Alerts that reach people: what a browser is asked to notify of while its dashboard is open. */
import type { Page } from 'playwright';
import { expect, test } from 'vitest';
import { openDonor, openOperator } from './browser.ts';
import { copyOfRun, startServer, withSteps } from './product.ts';

const POLL = { timeout: 60_000 };

interface Notices {
  readonly notices: string[];
}

/** Every notification that the page has the browser show, as title and text; shown all the same. */
const noteNotices = (page: Page): Promise<void> =>
  page.evaluate(() => {
    const notices: string[] = [];
    const Shown = Notification;
    Object.assign(globalThis, {
      notices,
      Notification: class extends Shown {
        constructor(title: string, options?: NotificationOptions) {
          super(title, options);
          notices.push(`${title} | ${options?.body ?? ''}`);
        }
      },
    });
  });

/** On a busy machine an alert of the run's speed may come between: that is another one. */
const noticesOf = (page: Page): Promise<string[]> =>
  page.evaluate(() => (globalThis as unknown as Notices).notices.filter((text) => /a test|donors/.test(text)));

const AT_LEAST = 'Donors at work, at least';
const TOO_FEW = /^Shoal: gpt2-long \| Too few donors: \d training, and you want at least [27]\.$/;

test('[OP65] who wants notices in this browser gets a test, and each alert once when it begins; who does not gets none', async () => {
  const server = await startServer(copyOfRun('gpt2-long', withSteps(4_000)));
  const [operator] = await Promise.all([openOperator(server), openDonor(server.url)]);
  const { page } = operator;
  await operator.until(({ phase }) => phase === 'training');
  await noteNotices(page);
  await page.getByText('How to reach you').click();
  const box = page.getByLabel('Notify me in this browser while this tab is open');
  // Headless browsers say no to who asks.
  await box.click();
  await page.getByText(/^✕ This browser does not allow notifications from this address\./).waitFor();
  expect(await box.isChecked()).toBe(false);

  await page.context().grantPermissions(['notifications'], { origin: server.url });
  await box.click();
  await expect.poll(() => box.isChecked()).toBe(true);
  await page.getByRole('button', { name: 'Send a test' }).click();
  await page.getByText(/^This browser was asked to show a test\./).waitFor();
  expect(await noticesOf(page)).toEqual(['Shoal: gpt2-long | This is a test. Alerts of this run look like this.']);

  await page.getByText('When to alert').click();
  const atLeast = async (donors: string): Promise<void> => {
    await page.getByLabel(AT_LEAST).fill(donors);
    await page.getByRole('button', { name: 'Keep these limits' }).click();
  };
  await atLeast('2');
  await expect.poll(() => noticesOf(page), POLL).toEqual([expect.anything(), expect.stringMatching(TOO_FEW)]);
  await operator.untilFurther(5);
  // Still the same alert, which was told.
  expect((await noticesOf(page)).length).toBe(2);
  await atLeast('1');
  await page.getByText('you want at least 2.').waitFor({ state: 'detached' });
  await box.click();
  await expect.poll(() => box.isChecked()).toBe(false);
  await atLeast('7');
  await page.getByText('you want at least 7.').waitFor();
  await operator.untilFurther(3);
  expect((await noticesOf(page)).length).toBe(2);
});
