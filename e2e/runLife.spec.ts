/** What people are told over a run's life: who comes second, what it moves, where it goes back, how it ends, what is next. */
import type { Page } from 'playwright';
import { expect, test } from 'vitest';
import { openBrowser, openDonor, openOperator, untilState } from './browser.ts';
import { go } from './dashboardControls.ts';
import { expectAccessible } from './pageChecks.ts';
import { copyOfRun, isSeldomDue, startServer, withSteps } from './product.ts';

/** So many steps of the first donor are known by then that nobody's word about itself gets most of the work. */
const SEEN_STEPS = 31;

const statOf = (page: Page, label: string) =>
  page.locator('.stat', { has: page.getByText(label, { exact: true }) }).first();

/** Loss of the newest step that stands, as the server keeps it. */
const newestLoss = (page: Page): Promise<number> =>
  page.evaluate(async () => {
    const { steps } = await (await fetch('/api/operator/steps?run=gpt2-long')).json();
    return steps.at(-1).loss;
  });

test.runIf(isSeldomDue)(
  'a second browser leaves the first its part, and is told why it waits or what it moves; a run that goes back says so everywhere',
  async () => {
    const server = await startServer(copyOfRun('gpt2-long', withSteps(4_000)));
    const operator = await openOperator(server);
    const first = await openDonor(server.url);
    await operator.until(({ committedSteps }) => committedSteps >= SEEN_STEPS);
    await operator.press('Pause');
    await operator.until(({ phase }) => phase === 'paused');
    // Before the click: what two would move at the pace of one, from a plan and not from what getting ready took.
    const visitor = await first.context.newPage();
    await visitor.goto(server.url);
    await visitor.getByText(/like a game does, and up to [\d.]+ [kM]B a minute/).waitFor();
    await visitor.close();

    const second = await openDonor(server.url);
    await operator.press('Resume');
    const place = second.page.locator('body[data-state="computing"]');
    await place.or(second.page.getByText('Another GPU wouldn’t speed this up yet.')).waitFor();
    await operator.untilFurther(3);
    // Joined: it gets ready for another plan just now.
    expect(['computing', 'joined']).toContain(await first.page.locator('body').getAttribute('data-state'));
    // Who is said to train does: as many fish as pages that say so.
    const training = async (): Promise<number> => {
      const states = [first, second].map(({ page }) => page.locator('body').getAttribute('data-state'));
      return (await Promise.all(states)).filter((state) => state === 'computing').length;
    };
    const fish = first.page.locator('.shoal path.training');
    await expect.poll(async () => (await fish.count()) - (await training()), { timeout: 60_000 }).toBe(0);

    await operator.press('Pause');
    // Not of before the click: checkpoints of steps that were done meanwhile are further on.
    const { committedSteps: before } = await operator.until(({ phase }) => phase === 'paused');
    const lossBefore = await newestLoss(operator.page);
    const status = await operator.page.context().newPage();
    await status.goto(`${server.url}/status`);
    await statOf(status, 'Loss').getByText(lossBefore.toFixed(3)).waitFor();
    const embed = await operator.page.context().newPage();
    await embed.goto(`${server.url}/embed`);
    await embed.getByText(`loss ${lossBefore.toFixed(3)}`).waitFor();
    await operator.page.bringToFront();
    await go(operator.page, 'Runs');
    await operator.page.locator('summary', { hasText: 'Checkpoints of gpt2-long' }).click();
    const back = operator.page.getByRole('button', { name: /^Go back to checkpoint/ });
    await back.last().click();
    await operator.page.getByRole('button', { name: /^Yes, go back/ }).click();
    await operator.until((now) => now.phase === 'paused' && now.committedSteps < before);
    const lossAfter = await newestLoss(operator.page);
    expect(lossAfter).not.toBe(lossBefore);
    const loss = lossAfter.toFixed(3);
    await status.bringToFront();
    await statOf(status, 'Loss').getByText(loss).waitFor();
    await embed.bringToFront();
    await embed.getByText(`loss ${loss}`).waitFor();
    await first.page.bringToFront();
    await statOf(first.page, 'Loss').getByText(loss).waitFor();
    await first.page.getByText(/The run went back from step [\d,]+ to step [\d,]+/).waitFor();
  },
);

test('a run’s end says what it wrote, its curve, who helped and what comes next; who waits for that is told', async () => {
  const server = await startServer(copyOfRun('gpt2-long', withSteps(24)));
  const operator = await openOperator(server);
  const donor = await openDonor(server.url);
  await operator.until(({ phase }) => phase === 'finished');
  await donor.page.getByRole('heading', { name: 'gpt2-long is finished' }).waitFor();
  await donor.page.getByText('Thanks to everyone who helped.').waitFor();
  await donor.page.getByText('Leave this tab open, and it goes on by itself when one begins.').waitFor();

  const visitor = await donor.context.newPage();
  await visitor.goto(server.url);
  await visitor.getByRole('heading', { name: 'This model is finished' }).waitFor();
  expect(await visitor.getByRole('button', { name: 'Donate this GPU' }).count()).toBe(0);
  await expect.poll(() => visitor.title()).toBe('✓ Finished · gpt2-long');
  // What is over is told as over, everywhere.
  await donor.page.getByText('Want to keep the model? Download it below.').waitFor();
  for (const { page, path } of [
    { page: donor.page, path: '' },
    { page: visitor, path: '/' },
    { page: await donor.context.newPage(), path: '/status' },
    { page: await donor.context.newPage(), path: '/embed' },
  ]) {
    if (path !== '') await page.goto(server.url + path);
    await page
      .getByText(/Step 24 of 24/)
      .first()
      .waitFor();
    expect(
      await page
        .getByText(/\btrains?\b|(donors?|is) training|by the end/i)
        .filter({ visible: true })
        .allTextContents(),
    ).toEqual([]);
  }
  await visitor.locator('.writing').waitFor();
  await visitor.locator('figure.curve').waitFor();
  await visitor.getByText('All 24 steps are done.').waitFor();
  await visitor.getByRole('button', { name: 'Tell me when the next begins' }).focus();
  await visitor.keyboard.press('Enter');
  await visitor.getByText('We’ll tell you, as long as this tab is open.').waitFor();
  await expectAccessible(visitor);
  // Told to come later, it comes as soon as the next run is there.
  await donor.page.reload();
  await donor.page.getByText('There’s nothing left to compute.').first().waitFor();

  const { page } = operator;
  await go(page, 'Runs');
  await page.getByRole('button', { name: 'New run', exact: true }).click();
  const form = page.getByRole('form', { name: 'New run' });
  await form.getByLabel('Name').fill('second');
  await form.getByLabel('Steps', { exact: true }).fill('2000');
  await form.getByRole('button', { name: 'Create' }).click();
  await form.getByText('second is created.').waitFor();
  await form.getByRole('button', { name: 'Close' }).click();
  await page.getByRole('button', { name: 'Queue second' }).click();
  await operator.until(({ run, committedSteps }) => run === 'second' && committedSteps > 0);
  // What was promised has come: one run is active, and nothing is said to follow.
  await expect.poll(() => page.locator('.rows .chip', { hasText: 'Active' }).count()).toBe(1);
  await expect.poll(() => page.getByText('follows by itself').count()).toBe(0);
  // The tab that helped goes on by itself; who waited is told by the title, whatever the browser does with notifications.
  await donor.page.getByRole('heading', { name: 'second', level: 1 }).waitFor();
  await expect.poll(() => visitor.title(), { timeout: 60_000 }).toContain('second has begun');
});

test('a run by invitation says so before the click, with its button off; the whole link opens it', async () => {
  const server = await startServer(copyOfRun('gpt2-tiny'), { invite: 'whale' });
  const { context } = await openBrowser();
  const page = await context.newPage();
  await page.goto(server.url);
  await page.getByText('This run is by invitation. Open the whole link that you were given.').waitFor();
  const donate = page.getByRole('button', { name: 'Donate this GPU' });
  expect(await donate.isDisabled()).toBe(true);
  await expectAccessible(page);
  const invited = await context.newPage();
  await invited.goto(`${server.url}/#invite=whale`);
  await invited.getByText('Step 0 of').first().waitFor();
  await invited.getByRole('button', { name: 'Donate this GPU' }).click();
  await untilState(invited, 'computing');
});
