/** Both pages as a person meets them: nothing starts by itself, each failure has its sentence, everyone can use them. */
import { networkInterfaces } from 'node:os';
import { AxeBuilder } from '@axe-core/playwright';
import type { Page } from 'playwright';
import { expect, test } from 'vitest';
import { type Donor, type Operator, openBrowser, openDonor, openOperator, untilState } from './browser.ts';
import { curveFaults } from './fidelity.ts';
import { copyOfRun, goldenFile, runSwarm, startServer, withSteps } from './product.ts';

const HOSTILE_NAME = '<img src=x onerror=alert(1)>';
const TINY = goldenFile('gpt2-tiny/run.json');
const NARROW = { width: 350, height: 700 };

/** What axe finds wrong, in light and in dark; and whether anything sticks out of a narrow window. */
async function expectAccessible(page: Page): Promise<void> {
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    const { violations } = await new AxeBuilder({ page }).analyze();
    expect(violations.map(({ id, nodes }) => [colorScheme, id, nodes.map(({ html }) => html)])).toEqual([]);
  }
  const before = page.viewportSize();
  await page.setViewportSize(NARROW);
  const overhang = await page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.documentElement;
    return scrollWidth - clientWidth;
  });
  expect(overhang).toBe(0);
  if (before) await page.setViewportSize(before);
}

test('the donor’s page says what will happen, and nothing starts by itself', async () => {
  const server = await startServer(TINY);
  const { context } = await openBrowser();
  const page = await context.newPage();
  const started: string[] = [];
  page.on('websocket', (socket) => started.push(socket.url()));
  page.on('worker', (worker) => started.push(worker.url()));
  page.on('console', (message) => {
    // zod asks once whether text may become code here; the policy's no is what is wanted.
    if (!/TrustedScript|Function constructor/.test(message.text())) started.push(message.text());
  });
  await page.goto(server.url, { waitUntil: 'networkidle' });
  for (const name of [
    'What runs',
    'For whom',
    'What it costs',
    'What others see',
    'What it never does',
    'How to stop',
  ]) {
    await page.getByText(name, { exact: true }).waitFor();
  }
  expect(await page.locator('body').getAttribute('data-state')).toBe('idle');
  expect(started).toEqual([]);
  const operator = await openOperator(server);
  expect((await operator.until(() => true)).donors).toEqual([]);
  await expectAccessible(page);

  // By keyboard only. The test joins nothing: no socket is opened, and the operator sees nobody.
  await page.getByRole('button', { name: 'Test its speed' }).focus();
  await page.keyboard.press('Enter');
  await page.getByText(/^So far: .* tokens a second/).waitFor();
  await page.keyboard.press('Enter');
  await page.getByText(/it would learn from [\d,]+ pages? of a book a minute/).waitFor();
  expect(started.filter((url) => /^wss?:/.test(url))).toEqual([]);
  expect((await operator.until(() => true)).donors).toEqual([]);

  await page.getByRole('button', { name: 'Donate this GPU' }).focus();
  await page.keyboard.press('Enter');
  await untilState(page, 'computing');
  // The button is gone: the keyboard goes on where the new part begins.
  expect(await page.evaluate(() => document.activeElement?.id)).toBe('state');
  await page.getByText('This is a software adapter').waitFor();
  await operator.until(({ committedSteps }) => committedSteps > 0);
  await expectAccessible(page);
  expect(started.filter((url) => /^wss?:/.test(url))).toHaveLength(1);
});

const MISSING = [
  {
    remove: () => {
      Reflect.deleteProperty(Navigator.prototype, 'gpu');
    },
    reason: 'noWebGpu',
    sentence: 'This browser does not offer WebGPU.',
  },
  {
    remove: () => {
      Reflect.deleteProperty(globalThis, 'RTCPeerConnection');
    },
    reason: 'noWebRtc',
    sentence: 'This browser does not offer WebRTC',
  },
] as const;

async function expectFailure(page: Page, reason: string, sentence: string): Promise<void> {
  await untilState(page, 'failed');
  expect(await page.locator('body').getAttribute('data-reason')).toBe(reason);
  await page.getByText(sentence).waitFor();
}

test('without WebGPU, WebRTC or a GPU the page says so: at once with its button off, or after the click', async () => {
  const server = await startServer(TINY);
  const { browser, context } = await openBrowser({ webGpu: false });
  for (const { remove, reason, sentence } of MISSING) {
    const lacking = await browser.newContext();
    await lacking.addInitScript(remove);
    const page = await lacking.newPage();
    await page.goto(server.url);
    await expectFailure(page, reason, sentence);
    expect(await page.getByRole('button', { name: 'Donate this GPU' }).isDisabled()).toBe(true);
    await expectAccessible(page);
    await lacking.close();
  }
  const page = await context.newPage();
  await page.goto(server.url);
  await page.getByText('So there is nothing here whose speed could be tested.').waitFor();
  await page.getByRole('button', { name: 'Donate this GPU' }).click();
  await expectFailure(page, 'noAdapter', 'The browser found no GPU that it can compute with.');
});

test('at an address that is not secure the page says what to do', async () => {
  const addresses = Object.values(networkInterfaces()).flatMap((all) => all ?? []);
  const outside = addresses.find(({ internal, family }) => !internal && family === 'IPv4')?.address;
  const server = await startServer(TINY, outside === undefined ? {} : { host: outside });
  const { context } = await openBrowser();
  if (outside === undefined) {
    await context.addInitScript(() => Object.defineProperty(globalThis, 'isSecureContext', { value: false }));
  }
  const page = await context.newPage();
  await page.goto(server.url);
  await expectFailure(page, 'insecure', 'This address is not secure, so the browser gives no access to the GPU.');
  await page.getByText('Open this page over https').waitFor();
});

/** A computer whose plug the test pulls and puts back. */
function fakeBattery(): void {
  const battery = Object.assign(new EventTarget(), { charging: true });
  Object.assign(navigator, { getBattery: async () => battery });
  Object.assign(globalThis, {
    plug: (isIn: boolean) => {
      battery.charging = isIn;
      battery.dispatchEvent(new Event('chargingchange'));
    },
  });
}
const plug = (page: Page, isIn: boolean): Promise<void> =>
  page.evaluate((charging) => (globalThis as unknown as { plug(isIn: boolean): void }).plug(charging), isIn);

/** Names are anyone's text: markup stands there as it was written, and what is no name is refused in words. */
async function chooseName(page: Page): Promise<void> {
  await page.getByText('Leaderboard, and a name of your own').click();
  const name = page.getByLabel('Name', { exact: true });
  const save = page.getByRole('button', { name: 'Save the name' });
  await name.fill('x'.repeat(10_000));
  await save.click();
  await page.getByText('Not saved: a name has at most 40 characters, this one has 10,000.').waitFor();
  await name.fill(HOSTILE_NAME);
  await save.click();
  await page.getByText('Saved. What this browser gives').waitFor();
}

/** Bytes, as in `1.0 MB`. */
function bytesOf(text: string): number {
  const [, number = '', unit = ''] = /^([\d.]+) (kB|MB)$/.exec(text) ?? [];
  return Number(number) * (unit === 'MB' ? 1e6 : 1e3);
}

test('a donor hides its address, chooses what it gives, and stops in every way; what it gave outlasts a reload', async () => {
  const server = await startServer(copyOfRun('gpt2-long', withSteps(2_000)), { schedule: 'gpipe' });
  const operator = await openOperator(server);
  const { context } = await openBrowser();
  await context.addInitScript(fakeBattery);
  const page = await context.newPage();
  await page.goto(server.url);
  const press = (name: string | RegExp): Promise<void> => page.getByRole('button', { name, exact: true }).click();
  await page.getByText('Supported').waitFor();
  await page.locator('details.limits summary').click();
  await page.getByLabel('Hide my IP address from other donors').check();
  await press(/^Balanced/);
  await page.locator('output', { hasText: '60 %' }).waitFor();
  await page.getByLabel('Only on mains power').check();
  await page.getByText('Now on mains power.').waitFor();
  await chooseName(page);
  await press('Donate this GPU');
  await untilState(page, 'computing');
  await openDonor(server.url);
  await page.getByText('0 direct, 1 through the server, because you hide your IP address').waitFor();
  await page.locator('.trace').waitFor();
  await page.locator('.stat', { hasText: /GPU busy\d+(\.\d)? %/ }).waitFor();
  const other = await context.newPage();
  await other.goto(server.url);
  await other.getByText('Another tab of this browser already donates this GPU.').waitFor();
  await other.close();

  await plug(page, false);
  await untilState(page, 'paused');
  await page.getByText('This computer runs on its battery. Your GPU goes on by itself on mains power.').waitFor();
  await plug(page, true);
  await untilState(page, 'computing');
  // Two megabytes more than today's are soon gone.
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

  await page.reload();
  await page.getByText('This tab was loaded anew while it donated').waitFor();
  await untilState(page, 'computing');
  await page.getByText('Leaderboard, and a name of your own').click();
  await page.getByRole('row', { name: `1 ${HOSTILE_NAME} (you)` }).waitFor();
  await press('Snooze 15 minutes');
  await untilState(page, 'paused');
  await page.getByText('then it goes on by itself').waitFor();
  await press('Resume');
  await untilState(page, 'computing');
  await press('Pause now');
  await untilState(page, 'paused');
  await operator.until(({ donors }) => donors.length === 1);
  await press('Resume');
  await untilState(page, 'computing');
  await press('Leave');
  await untilState(page, 'left');

  await page.reload();
  await page.locator('details.credit > summary').click();
  await page.getByRole('row', { name: /gpt2-long [\d,]+ \d+(\.\d)? %/ }).waitFor();
  await page.locator('details.help summary').click();
  await page.locator('details.limits summary').click();
  expect(await page.getByRole('textbox', { name: 'What happened here.' }).inputValue()).toContain('Shoal donor page');
  await expectAccessible(page);
  await press('Delete');
  await press('Delete for good');
  await page.locator('details.credit').waitFor({ state: 'detached' });
});

/** While the run is paused: it has no steps to spare for that. */
async function openSecond(url: string, operator: Operator): Promise<Donor> {
  await operator.press('Pause');
  await operator.until(({ phase }) => phase === 'paused');
  const donor = await openDonor(url);
  await operator.press('Resume');
  const computes = donor.page.locator('body[data-state="computing"]');
  await computes.or(donor.page.getByText(/a step would take no less time with it/)).waitFor();
  return donor;
}

test('the server is killed and comes back, the tab goes on without a reload; a second one takes part or says why not, and takes over', async () => {
  const runFile = copyOfRun('gpt2-long', withSteps(60));
  const first = await startServer(runFile);
  const operator = await openOperator(first);
  const donor = await openDonor(first.url);
  await donor.page.evaluate(() => document.body.setAttribute('data-same-page', 'yes'));
  await operator.untilFurther(4);
  await first.kill();
  await donor.until('reconnecting');
  await donor.page.getByText('The server does not answer. This page keeps trying by itself.').waitFor();
  // What is known of the run is what it was, and does not look like what it is.
  await donor.page.getByRole('heading', { name: 'The run, as it was last seen' }).waitFor();
  await donor.untilShows('Loss', /when last seen/);
  await expectAccessible(donor.page);
  await operator.page.getByText('The connection is lost; this is how the run was last seen.').waitFor();

  const { dataDirectory, port } = first;
  const second = await startServer(runFile, { dataDirectory, port });
  await donor.until('computing');
  await donor.page.getByText(/The server did not answer for .*; then this tab went on by itself/).waitFor();
  const other = await openSecond(second.url, operator);
  await operator.untilFurther(2);
  await donor.press('Leave');
  await donor.until('left');
  await other.until('computing');
  await operator.until(({ phase }) => phase === 'finished');
  expect(await donor.page.locator('body').getAttribute('data-same-page')).toBe('yes');
  await second.stop();
  const { metrics } = await runSwarm(runFile, '--donors', '1', '--data-dir', dataDirectory);
  expect(curveFaults('gpt2-long', 60, metrics)).toEqual([]);
});

test('the operator’s page wants the token that was printed last, once', async () => {
  const server = await startServer(TINY);
  const operator = await openOperator(server);
  // The token is a secret: it does not stay in the address.
  expect(operator.page.url()).toBe(`${server.url}/operator`);
  const { context } = await openBrowser({ webGpu: false });
  const page = await context.newPage();
  await page.goto(server.operatorUrl);
  await page.getByText('this is not the token that the server printed last').waitFor();
  await page.getByLabel('Operator token').fill('guess');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.locator('[aria-invalid="true"]').waitFor();
  await page.getByText('this is not the token that the server printed last').waitFor();
  await expectAccessible(page);
});
