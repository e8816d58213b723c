/**
 * The donor's page beside another donor, from the click to the end: what its person chooses, what makes it rest and go on,
 * every way to stop, and what is left of it. One swarm for all of it, because donors cost much to start.
 */
import type { Page } from 'playwright';
import { expect, test } from 'vitest';
import { type Operator, openBrowser, openDonor, openOperator, untilState } from './browser.ts';
import { expectAccessible, shiftsOf, walkByKeyboard } from './pageChecks.ts';
import { copyOfRun, startServer, withSteps } from './product.ts';
import { drawFrames, permitIdleness, plug, standIn } from './surroundings.ts';

const HOSTILE_NAME = '<img src=x onerror=alert(1)>';
const PATIENT = { timeout: 60_000 };

const press = (page: Page, name: string | RegExp): Promise<void> =>
  page.getByRole('button', { name, exact: true }).click();

async function chooseLimits(page: Page): Promise<void> {
  await page.locator('details.limits summary').click();
  await page.getByLabel('Hide my IP address from other donors').check();
  await press(page, /^Balanced/);
  await page.locator('output', { hasText: '60 %' }).waitFor();
  await page.getByLabel('Only on mains power').check();
  await page.getByText('Now on mains power.').waitFor();
  const memory = page.getByLabel('GPU memory, at most (MiB)');
  await memory.fill('0.5');
  await memory.blur();
  await page.getByText('Not taken: expected a number of at least 1, or nothing for no limit.').waitFor();
  await memory.fill('');
  await memory.blur();
}

/** Names are anyone's text: markup stands there as it was written, and what is no name is refused in words. */
async function chooseName(page: Page): Promise<void> {
  await page.getByText('Leaderboard, and a name of your own').click();
  const name = page.getByLabel('Name', { exact: true });
  await name.fill('x'.repeat(10_000));
  await press(page, 'Save the name');
  await page.getByText('Not saved: a name has at most 40 characters, this one has 10,000.').waitFor();
  await name.fill(HOSTILE_NAME);
  await press(page, 'Save the name');
  await page.getByText('Saved. What this browser gives').waitFor();
}

/** Share of the last whole step in which this tab's GPU worked, as the page says it; null: it does not. */
async function busyShare(page: Page): Promise<number | null> {
  const [, percent] = /busy for ([\d.]+) %/.exec((await page.locator('.live > .sentence').textContent()) ?? '') ?? [];
  return percent === undefined ? null : Number(percent) / 100;
}

/** A picture that stutters is made way for: less and less is taken, then more and more again. */
async function makeWay(page: Page): Promise<void> {
  await expect.poll(() => busyShare(page), PATIENT).toBeGreaterThan(0.4);
  await drawFrames(page, 'stuttering');
  await page.getByText(/own picture stutters, so this tab takes [123]\d % of what you give/).waitFor();
  await drawFrames(page, 'none');
  await expect.poll(() => busyShare(page), PATIENT).toBeLessThan(0.3);
  await drawFrames(page, 'smooth');
  await page.getByText('own picture stutters').waitFor({ state: 'detached' });
  await expect.poll(() => busyShare(page), PATIENT).toBeGreaterThan(0.4);
}

/** While it rests for the plug: what is half typed stands, though the other donor's steps are shown meanwhile. */
async function typeHours(page: Page, operator: Operator): Promise<void> {
  await page.getByLabel('Only at certain hours').check();
  const from = page.getByLabel('From', { exact: true });
  await from.focus();
  await page.keyboard.press('Backspace');
  await operator.untilFurther(2);
  expect(await from.inputValue()).toBe('');
  // From six to six is always.
  await from.fill('06:00');
  await from.blur();
  expect(await page.getByLabel('to', { exact: true }).inputValue()).toBe('06:00');
}

/** Bytes, as in `1.0 MB`. */
function bytesOf(text: string): number {
  const [, number = '', unit = ''] = /^([\d.]+) (kB|MB)$/.exec(text) ?? [];
  return Number(number) * (unit === 'MB' ? 1e6 : 1e3);
}

/** Two megabytes more than today's are soon gone. */
async function useUpTheDay(page: Page): Promise<void> {
  const cap = page.getByLabel('Upload, at most (MB a day)');
  const [sent = ''] = /[\d.]+ [kM]B/.exec((await page.getByText(/^Today: .* sent/).textContent()) ?? '') ?? [];
  await cap.fill(String(Math.ceil(bytesOf(sent) / 1e6) + 2));
  await cap.blur();
  await untilState(page, 'paused');
  const used = (await page.getByText(/^Today’s upload is used up/).textContent()) ?? '';
  const [, moved = '', most = ''] = /: (.*B) of (.*B)\./.exec(used) ?? [];
  expect(bytesOf(moved) / bytesOf(most)).toBeGreaterThan(0.9);
  expect(bytesOf(moved) / bytesOf(most)).toBeLessThan(1.1);
  await cap.fill('');
  await cap.blur();
  await untilState(page, 'computing');
}

async function stopInEveryWay(page: Page, operator: Operator): Promise<void> {
  await press(page, 'Snooze 15 minutes');
  await untilState(page, 'paused');
  await page.getByText('then it goes on by itself').waitFor();
  await press(page, 'Resume');
  await untilState(page, 'computing');
  await press(page, 'Pause now');
  await untilState(page, 'paused');
  await operator.until(({ donors }) => donors.length === 1);
  await press(page, 'Resume');
  await untilState(page, 'computing');
  await press(page, 'Leave');
  await untilState(page, 'left');
}

test('a donor hides its address, chooses what it gives, rests and goes on, and stops in every way', async () => {
  const server = await startServer(copyOfRun('gpt2-long', withSteps(2_000)), { schedule: 'gpipe' });
  const operator = await openOperator(server);
  const opened = await openBrowser();
  await opened.context.addInitScript(standIn);
  const page = await opened.context.newPage();
  await page.goto(server.url);
  await page.getByText('Supported').waitFor();
  await chooseLimits(page);
  await chooseName(page);
  await press(page, 'Donate this GPU');
  await untilState(page, 'computing');
  await makeWay(page);

  await openDonor(server.url);
  await page.getByText('0 direct, 1 through the server, because you hide your IP address').waitFor();
  await page.locator('.trace').waitFor();
  await page.locator('.stat', { hasText: /GPU busy\d+(\.\d)? %/ }).waitFor();
  const shifts = await shiftsOf(page);
  await operator.untilFurther(4);
  expect(await shifts()).toEqual([]);
  await walkByKeyboard(page);
  const other = await opened.context.newPage();
  await other.goto(server.url);
  await other.getByText('Another tab of this browser already donates this GPU.').waitFor();
  // A tab behind another draws seldom, and a click waits for two frames.
  await page.bringToFront();

  await plug(page, false);
  await untilState(page, 'paused');
  await page.getByText('This computer runs on its battery. Your GPU goes on by itself on mains power.').waitFor();
  await typeHours(page, operator);
  const showPerson = await permitIdleness(opened, page);
  await showPerson(true);
  await page.getByLabel('Only while I do not use this computer').check();
  await page.getByText('The browser says when nobody has touched the computer').waitFor();
  await plug(page, true);
  await page.getByText('You use this computer. Your GPU goes on by itself 3 minutes after you have left it.').waitFor();
  await showPerson(false);
  await untilState(page, 'computing');
  await page.getByLabel('Only while I do not use this computer').uncheck();
  await useUpTheDay(page);

  await page.reload();
  await page.getByText('This tab was loaded anew while it donated').waitFor();
  await untilState(page, 'computing');
  await page.getByText('Leaderboard, and a name of your own').click();
  await page.getByRole('row', { name: `1 ${HOSTILE_NAME} (you)` }).waitFor();
  await stopInEveryWay(page, operator);
  await other.getByText('Another tab of this browser').waitFor({ state: 'detached' });
  await other.close();

  await page.reload();
  await page.locator('details.credit > summary').click();
  await page.getByRole('row', { name: /gpt2-long [\d,]+ \d+(\.\d)? %/ }).waitFor();
  await page.locator('details.help summary').click();
  await page.locator('details.limits summary').click();
  expect(await page.getByRole('textbox', { name: 'What happened here.' }).inputValue()).toContain('Shoal donor page');
  await expectAccessible(page);
  await press(page, 'Delete');
  await press(page, 'Delete for good');
  await page.locator('details.credit').waitFor({ state: 'detached' });
});
