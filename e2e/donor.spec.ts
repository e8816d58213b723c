/**
 * The donor's page beside another donor, from the click to the end: what its person chooses, what makes it rest and go on,
 * every way to stop, and what is left of it. One swarm for all of it, because donors cost much to start.
 */

import type { Page } from 'playwright';
import { expect, test } from 'vitest';
import { totalOf } from '../swarm/base.ts';
import { type Operator, openBrowser, openDonor, openOperator, untilState } from './browser.ts';
import { expectAccessible, savedBy, shiftsOf, walkByKeyboard } from './pageChecks.ts';
import { copyOfRun, type Json, startServer, withSteps } from './product.ts';
import { drawFrames, permitIdleness, plug, standIn } from './surroundings.ts';

const HOSTILE_NAME = '<img src=x onerror=alert(1)>';
const PATIENT = { timeout: 60_000 };

const press = (page: Page, name: string | RegExp): Promise<void> =>
  page.getByRole('button', { name, exact: true }).click();

async function chooseLimits(page: Page): Promise<void> {
  await page.locator('details.limits summary').click();
  await page.getByLabel('Hide my IP address from other donors').check();
  for (const [preset, share] of [
    [/^Gentle/, '25 %'],
    [/^Full/, '100 %'],
    [/^Balanced/, '60 %'],
  ] as const) {
    await press(page, preset);
    await page.locator('output', { hasText: share }).waitFor();
  }
  await page.getByLabel('Only on mains power').check();
  await page.getByText('Now on mains power.').waitFor();
  const memory = page.getByLabel('GPU memory, at most (MiB)');
  await memory.fill('0.5');
  await memory.blur();
  await page.getByText('Not changed: enter a number of at least 1, or nothing for no limit.').waitFor();
  await setAmount(page, 'GPU memory, at most (MiB)', '2000');
  await setAmount(page, 'Upload, at most (MB a second)', '50');
  await setAmount(page, 'Download, at most (MB a second)', '80');
}

async function setAmount(page: Page, name: string, amount: string): Promise<void> {
  const field = page.getByLabel(name, { exact: true });
  await field.fill(amount);
  await field.blur();
}

/** What is set on the donor's page is what the operator's says that it gives. */
async function seeLimits({ page }: Operator): Promise<void> {
  await page.getByRole('link', { name: 'Donors', exact: true }).click();
  await page.getByRole('button', { name: /^More of/ }).click();
  await page.getByText('60 % of its GPU’s time, memory 2.0 GiB, upload 50.0 MB/s, download 80.0 MB/s').waitFor();
}

/** Names are anyone's text: markup stands there as it was written, and what is no name is refused in words. */
async function chooseName(page: Page): Promise<void> {
  await page.getByText('Leaderboard, and your name on it').click();
  const name = page.getByLabel('Name', { exact: true });
  await name.fill('x'.repeat(10_000));
  await press(page, 'Save the name');
  await page.getByText('Not saved: a name has at most 40 characters, this one has 10,000.').waitFor();
  await name.fill(HOSTILE_NAME);
  await page.getByLabel('Team (or none)').fill('Red herrings');
  await press(page, 'Save the name');
  await page.getByText('Saved. From now on').waitFor();
  await press(page, 'Delete it');
  await page.getByText('Deleted, here and on the server.').waitFor();
  await name.fill(HOSTILE_NAME);
  await page.getByLabel('Team (or none)').fill('Red herrings');
  await press(page, 'Save the name');
  await page.getByText('Saved. From now on').waitFor();
}

/** Share of the last whole step in which this tab's GPU worked, as the page says it; null: it does not. */
async function busyShare(page: Page): Promise<number | null> {
  const [, percent] =
    /busy for ([\d.]+) %/.exec((await page.locator('.status-bar .sentence').textContent()) ?? '') ?? [];
  return percent === undefined ? null : Number(percent) / 100;
}

/** A picture that stutters is made way for: less and less is taken, then more and more again. */
async function makeWay(page: Page): Promise<void> {
  await expect.poll(() => busyShare(page), PATIENT).toBeGreaterThan(0.4);
  await drawFrames(page, 'stuttering');
  await page.getByText(/feels slow, so this tab takes [123]\d % of what you give/).waitFor();
  await drawFrames(page, 'none');
  await expect.poll(() => busyShare(page), PATIENT).toBeLessThan(0.3);
  await drawFrames(page, 'smooth');
  await page.getByText('feels slow, so').waitFor({ state: 'detached' });
  await expect.poll(() => busyShare(page), PATIENT).toBeGreaterThan(0.4);
  // Switched off, it takes all that is given at once; switched on, it looks again.
  await drawFrames(page, 'stuttering');
  await page.getByText(/feels slow, so/).waitFor();
  await page.getByLabel('Ease off when this computer feels slow').uncheck();
  await page.getByText(/feels slow, so/).waitFor({ state: 'detached' });
  await drawFrames(page, 'smooth');
  await page.getByLabel('Ease off when this computer feels slow').check();
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

const DAYS = [
  ['Upload', 'sent'],
  ['Download', 'received'],
] as const;

/** Two megabytes more than today's are soon gone, each way. */
async function useUpTheDay(page: Page): Promise<void> {
  for (const [way, done] of DAYS) {
    const today = (await page.getByText(/^Today: .* sent/).textContent()) ?? '';
    const [, moved = ''] = new RegExp(`([\\d.]+ [kMG]B) ${done}`).exec(today) ?? [];
    const cap = `${way}, at most (MB a day)`;
    await setAmount(page, cap, String(Math.ceil(bytesOf(moved) / 1e6) + 2));
    await untilState(page, 'paused');
    const words = page.getByText(new RegExp(`^Today’s ${way.toLowerCase()} is used up`));
    const [, used = '', most = ''] = /: (.*B) of (.*B)\./.exec((await words.textContent()) ?? '') ?? [];
    expect(bytesOf(used) / bytesOf(most)).toBeGreaterThan(0.9);
    expect(bytesOf(used) / bytesOf(most)).toBeLessThan(1.1);
    await setAmount(page, cap, '');
    await untilState(page, 'computing');
  }
}

/** What the newest saved state writes, and the state itself: for who helped to make it. */
async function takeModel(page: Page): Promise<void> {
  await press(page, 'Let it write');
  await page.getByText(/^Written by the model as it was after step [\d,]+\.$/).waitFor();
  const download = page.waitForEvent('download');
  await press(page, 'Download the model');
  expect((await download).suggestedFilename()).toBe('gpt2-long.tar');
  await page.getByText('Saved: a folder that').waitFor();
  expect(await page.getByRole('link', { name: /^See how it’s going/ }).getAttribute('target')).toBe('_blank');
}

/** What this browser gave, as a file and day by day; and what happened here, without an address. */
async function takeRecords(page: Page): Promise<void> {
  const record = await savedBy(page, () => press(page, 'Export'));
  expect(record.name).toBe('shoal-credit.json');
  const { runs } = JSON.parse(record.text);
  expect(runs).toMatchObject([{ run: 'gpt2-long' }]);
  const given = page.locator('details.credit');
  await given.getByText('Numbers').click();
  const days = async (): Promise<number> => {
    const each = await given.locator('.days td.number').allTextContents();
    return totalOf(each, (tokens) => Number(tokens.replaceAll(',', '')));
  };
  // Where a run began anew under the same name its record did too; the days are those of both.
  await expect.poll(days).toBeGreaterThanOrEqual(runs[0].tokens);
  // Browsers differ in whom they let write there.
  await press(page, 'Copy diagnostics');
  await page.getByText(/^(Copied\.|The browser didn’t allow that)/).waitFor();
}

async function stopInEveryWay(page: Page, operator: Operator): Promise<void> {
  await page.locator('details.limits summary').click();
  await press(page, 'Snooze 15 minutes');
  await untilState(page, 'paused');
  await page.getByText('Then it goes on by itself').waitFor();
  await press(page, 'Resume');
  await untilState(page, 'computing');
  await press(page, 'Pause now');
  await untilState(page, 'paused');
  await operator.until(({ donors }) => donors.length === 1);
  await press(page, 'Resume');
  await untilState(page, 'computing');
  // A slow step is not waited for.
  await page.getByLabel('GPU time').fill('5');
  await operator.untilFurther(1);
  await press(page, 'Leave');
  await press(page, 'Leave now');
  await untilState(page, 'left');
  await page.getByText('You’ve left. Your GPU is free.').waitFor();
}

test('a donor hides its address, chooses what it gives, rests and goes on, and stops in every way', async () => {
  // Copies through the server would keep two cores busy with what this is not about.
  const withoutCopies = (run: Json): Json => ({ ...withSteps(2_000)(run), state: { replicas: 0 } });
  const server = await startServer(copyOfRun('gpt2-long', withoutCopies), { schedule: 'gpipe' });
  const operator = await openOperator(server);
  const opened = await openBrowser();
  await opened.context.addInitScript(standIn);
  const page = await opened.context.newPage();
  await page.goto(server.url);
  await page.locator('.chip', { hasText: 'Ready' }).waitFor();
  await chooseLimits(page);
  await chooseName(page);
  await press(page, 'Donate this GPU');
  await untilState(page, 'computing');
  await seeLimits(operator);
  await makeWay(page);

  await openDonor(server.url);
  await page.locator('.figures > summary').click();
  await page.getByText('0 direct, 1 through the server, because you hide your IP address').waitFor();
  // The link is there before the plan of two is: until then the page speaks to one who trains alone.
  await page.getByText('2 donors training').waitFor();
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
  // Who rests donates nothing.
  await other.getByText('Another tab of this browser').waitFor({ state: 'detached' });
  await page.getByText('This computer runs on battery. Your GPU goes on when it’s plugged in.').waitFor();
  await typeHours(page, operator);
  const showPerson = await permitIdleness(opened, page);
  await showPerson(true);
  await page.getByLabel('Only while I’m not using this computer').check();
  await page.getByText('The browser tells when nobody has touched the computer').waitFor();
  await plug(page, true);
  await page.getByText('You’re using this computer. Your GPU goes on 3 minutes after you leave it.').waitFor();
  await showPerson(false);
  await untilState(page, 'computing');
  await page.getByLabel('Only while I’m not using this computer').uncheck();
  await useUpTheDay(page);

  await page.reload();
  await page.getByText('This tab was reloaded while it was donating').waitFor();
  await untilState(page, 'computing');
  await takeModel(page);
  await page.getByText('What runs here, and how to stop it').click();
  await page.getByText('What it never does').waitFor();
  await page.getByText('Leaderboard, and your name on it').click();
  await page.getByRole('row', { name: `1 ${HOSTILE_NAME} (you) Red herrings` }).waitFor();
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
  await takeRecords(page);
  await press(page, 'Delete');
  await press(page, 'Keep');
  await press(page, 'Delete');
  await press(page, 'Delete for good');
  await page.locator('details.credit').waitFor({ state: 'detached' });
});
