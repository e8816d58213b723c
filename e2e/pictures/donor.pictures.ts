/** Every state of the donor's page, of a real run; only what a computer says of itself is said by a stand-in. */
import { devices, type Page } from 'playwright';
import { test } from 'vitest';
import { type Operator, openBrowser, openDonor, openOperator, untilState } from '../browser.ts';
import { blockAddress, tell } from '../dashboardControls.ts';
import { copyOfRun, goldenFile, type Json, startServer, withSteps } from '../product.ts';
import { permitIdleness, plug, standIn } from '../surroundings.ts';
import { asDesktop, CARD, picture } from './picture.ts';

/** A state that may be over before it is looked at. */
const BRIEF = { timeout: 15_000 };

const press = (page: Page, name: string | RegExp): Promise<void> =>
  page.getByRole('button', { name, exact: true }).click();

const openAll = (page: Page): Promise<void> =>
  page.evaluate(() => {
    for (const each of document.querySelectorAll('details')) each.open = true;
  });

/** Many steps, saved often, and no copies: what is looked at needs neither. */
const long = (run: Json): Json => ({
  ...withSteps(4_000)(run),
  state: { replicas: 0 },
  checkpoint: { ...(run.checkpoint as Json), everySteps: 10 },
});

async function openVisitor(url: string): Promise<Page> {
  const { context } = await openBrowser();
  const page = await context.newPage();
  await asDesktop(page);
  await page.goto(url);
  await page.locator('.chip', { hasText: 'Ready' }).waitFor();
  return page;
}

test('before the click', async () => {
  const server = await startServer(copyOfRun('gpt2-long', long));
  const page = await openVisitor(server.url);
  await picture(page, 'donor-01-nobody-here');
  const operator = await openOperator(server);
  await tell(operator.page, 'card', CARD);
  await page.reload();
  await page.getByText('Moby Dick').waitFor();
  await page.locator('.chip', { hasText: 'Ready' }).waitFor();
  await press(page, 'Test its speed');
  await picture(page, 'donor-02-test-begins', { passing: true });
  await page.getByText(/^So far: .* tokens a second/).waitFor();
  await picture(page, 'donor-03-test-runs', { passing: true });
  await page.getByText(/of a book a minute/).waitFor();
  await picture(page, 'donor-04-test-done');
  await openAll(page);
  await picture(page, 'donor-05-everything-open');
});

/** As a site says it that trains two runs; which takes several servers. */
test('several runs to choose from', async () => {
  const server = await startServer(copyOfRun('gpt2-long', long));
  const page = await openVisitor(server.url);
  await page.route('**/api/runs*', async (route) => {
    const answer = await route.fetch();
    const { runs } = (await answer.json()) as { runs: Json[] };
    await route.fulfill({ json: { runs: [...runs, { ...runs[0], run: 'llama-verses', committedSteps: 1_200 }] } });
  });
  await page.reload();
  await page.getByLabel('Which run?').waitFor();
  await picture(page, 'donor-06-several-runs');
});

const LACKS = [
  ['no-webgpu', () => void Reflect.deleteProperty(Navigator.prototype, 'gpu')],
  ['no-webrtc', () => void Reflect.deleteProperty(globalThis, 'RTCPeerConnection')],
  ['insecure', () => void Object.defineProperty(globalThis, 'isSecureContext', { value: false })],
] as const;

test('what is missing', async () => {
  const server = await startServer(goldenFile('gpt2-tiny/run.json'));
  const { browser, context } = await openBrowser({ webGpu: false });
  for (const [name, remove] of LACKS) {
    const lacking = await browser.newContext();
    await lacking.addInitScript(remove);
    const page = await lacking.newPage();
    await page.goto(server.url);
    await untilState(page, 'failed');
    await page
      .getByText(/Step 0 of/)
      .first()
      .waitFor();
    await picture(page, `donor-10-${name}`);
    await lacking.close();
  }
  const page = await context.newPage();
  await page.goto(server.url);
  await page.getByText('This browser has WebGPU but offers no GPU').waitFor();
  await page
    .getByText(/Step 0 of/)
    .first()
    .waitFor();
  await picture(page, 'donor-11-no-adapter');
  const { browser: withGpu } = await openBrowser();
  const phone = await (await withGpu.newContext({ userAgent: devices['Pixel 7'].userAgent })).newPage();
  await phone.goto(server.url);
  await phone.getByText('phones are off by default').waitFor();
  await picture(phone, 'donor-12-a-phone');
});

/** What a person does, and what is seen then; the tab trains again afterwards. */
async function rests(page: Page, operator: Operator, opened: Awaited<ReturnType<typeof openBrowser>>): Promise<void> {
  await press(page, 'Pause');
  await untilState(page, 'paused');
  await picture(page, 'donor-30-paused');
  await press(page, 'Resume');
  await untilState(page, 'computing');
  await press(page, 'Snooze until tomorrow');
  await untilState(page, 'paused');
  await picture(page, 'donor-31-snoozed');
  await page.reload();
  await untilState(page, 'paused');
  await picture(page, 'donor-32-snoozed-and-reloaded');
  await press(page, 'Resume');
  await untilState(page, 'computing');
  await page.locator('details.limits summary').click();
  await page.getByLabel('Only on mains power').check();
  await plug(page, false);
  await untilState(page, 'paused');
  await picture(page, 'donor-33-battery');
  await plug(page, true);
  await untilState(page, 'computing');
  await page.getByLabel('Only at certain hours').check();
  await page.getByLabel('From', { exact: true }).fill('00:00');
  await page.getByLabel('to', { exact: true }).fill('00:01');
  await page.getByLabel('to', { exact: true }).blur();
  await untilState(page, 'paused');
  await picture(page, 'donor-34-hours');
  await page.getByLabel('Only at certain hours').uncheck();
  await untilState(page, 'computing');
  const showPerson = await permitIdleness(opened, page);
  await showPerson(true);
  await page.getByLabel('Only while I’m not using this computer').check();
  await page.getByText('The browser tells when nobody has touched the computer').waitFor();
  await untilState(page, 'paused');
  await picture(page, 'donor-35-person');
  await page.getByLabel('Only while I’m not using this computer').uncheck();
  await untilState(page, 'computing');
  await page.locator('details.limits summary').click();
  await operator.press('Pause');
  await page.getByText('The operator has paused the run.').waitFor();
  await picture(page, 'donor-36-operator-paused');
  await operator.press('Resume');
  await untilState(page, 'computing');
}

test('at work', async () => {
  const server = await startServer(copyOfRun('gpt2-long', long), { schedule: 'gpipe' });
  const operator = await openOperator(server);
  await tell(operator.page, 'card', CARD);
  const opened = await openBrowser();
  await opened.context.addInitScript(standIn);
  const page = await opened.context.newPage();
  await asDesktop(page);
  await page.goto(server.url);
  await page.locator('.chip', { hasText: 'Ready' }).waitFor();
  await press(page, 'Donate this GPU');
  await picture(page, 'donor-20-starting', { passing: true });
  await page.getByText(/Checking that your GPU/).waitFor();
  await picture(page, 'donor-21-measuring', { passing: true });
  await page.getByText(/Checking that your GPU/).waitFor({ state: 'detached' });
  await picture(page, 'donor-22-joining', { passing: true });
  await untilState(page, 'computing');
  await operator.untilFurther(12);
  await picture(page, 'donor-23-alone');
  const other = await openDonor(server.url);
  await other.until('computing');
  await operator.untilFurther(4);
  await picture(page, 'donor-24-two');
  await openAll(page);
  await operator.untilFurther(2);
  await press(page, 'Let it write');
  await page.getByText(/^Written by the model/).waitFor();
  await press(page, 'My place today');
  await operator.untilFurther(1);
  await picture(page, 'donor-25-everything-open');
  await page.evaluate(() => {
    for (const each of document.querySelectorAll('details')) each.open = false;
  });
  await rests(page, operator, opened);
  const visitor = await openVisitor(server.url);
  await visitor.locator('.writing strong').waitFor();
  await visitor.getByText(/GPUs are training it/).waitFor();
  await picture(visitor, 'donor-06-two-here');
});

test('back, gone and over', async () => {
  const server = await startServer(copyOfRun('gpt2-long', long), { schedule: 'gpipe' });
  const operator = await openOperator(server);
  const donor = await openDonor(server.url);
  const { page } = donor;
  await donor.until('computing');
  await operator.until(({ committedSteps }) => committedSteps > 24);
  await operator.page.getByRole('link', { name: 'Runs', exact: true }).click();
  await operator.page.locator('summary', { hasText: 'Checkpoints of gpt2-long' }).click();
  await operator.page
    .getByRole('button', { name: /^Go back to checkpoint/ })
    .last()
    .click();
  await operator.page.getByRole('button', { name: /^Yes, go back/ }).click();
  await page.getByText(/The run went back from step/).waitFor();
  await picture(page, 'donor-40-went-back');
  await donor.until('computing');
  const session = await donor.browser.newBrowserCDPSession();
  await session.send('Browser.crashGpuProcess');
  await page
    .getByText(/The browser took the GPU away/)
    .first()
    .waitFor(BRIEF)
    .catch(() => {});
  await picture(page, 'donor-41-gpu-lost', { passing: true });
  await donor.until('computing');
  await picture(page, 'donor-42-gpu-back');
  await press(page, 'Leave');
  await picture(page, 'donor-43-leaving', { passing: true });
  await donor.until('left');
  await picture(page, 'donor-44-left');
  await donor.press('Donate this GPU');
  await donor.until('computing');
  await blockAddress(operator.page);
  await donor.until('failed');
  await page.getByText('has blocked this network address').waitFor();
  await picture(page, 'donor-45-refused');
  await operator.page.getByRole('button', { name: 'Let in again' }).click();
  await page.getByText('has blocked this network address').waitFor({ state: 'detached' });
  await donor.press('Donate this GPU');
  await donor.until('computing');
});

test('standby, and a stop', async () => {
  const server = await startServer(copyOfRun('gpt2-long', long));
  const operator = await openOperator(server);
  const first = await openDonor(server.url);
  // By then the server has seen what the first one does, and what a twentieth of a GPU would add.
  await operator.until(({ committedSteps }) => committedSteps > 30);
  const second = await openVisitor(`${server.url}/#speed=0.05`);
  await press(second, 'Donate this GPU');
  await second.getByText('Another GPU wouldn’t speed this up yet.').waitFor();
  await picture(second, 'donor-60-standby');
  await operator.press('Stop');
  await operator.until(({ isStopped }) => isStopped === true);
  await first.page.getByText('The operator has stopped the run.').waitFor();
  await picture(first.page, 'donor-46-operator-stopped');
  await picture(operator.page, 'operator-07-stopped');
  await operator.press('Start');
  await first.until('computing');
  await picture(first.page, 'donor-47-after-start');
});

test('by invitation', async () => {
  const server = await startServer(copyOfRun('gpt2-long', long), { invite: 'whale' });
  const { context } = await openBrowser();
  const page = await context.newPage();
  await asDesktop(page);
  await page.goto(server.url);
  await page.locator('.chip', { hasText: 'Ready' }).waitFor();
  await page.getByText('This run is by invitation. Open the whole link that you were given.').waitFor();
  await picture(page, 'donor-80-not-invited');
  const invited = await openVisitor(`${server.url}/#invite=whale`);
  await picture(invited, 'donor-82-invited');
  const status = await context.newPage();
  await status.goto(`${server.url}/status`);
  await status.getByText('invitation').first().waitFor();
  await picture(status, 'status-03-by-invitation');
});

test('the server is gone', async () => {
  const server = await startServer(copyOfRun('gpt2-long', long), { schedule: 'gpipe' });
  const operator = await openOperator(server);
  const donor = await openDonor(server.url);
  await operator.untilFurther(12);
  const visitor = await openVisitor(server.url);
  const status = await visitor.context().newPage();
  await status.goto(`${server.url}/status`);
  const embed = await visitor.context().newPage();
  await embed.goto(`${server.url}/embed`);
  await embed.getByText('1 GPU training.').waitFor();
  await picture(status, 'status-01-training');
  await picture(embed, 'embed-01-training');
  await server.kill();
  await donor.until('reconnecting');
  await donor.untilShows('Loss', /when last seen/);
  await picture(donor.page, 'donor-50-server-gone');
  await operator.page.getByText(/has not answered since/).waitFor();
  await picture(operator.page, 'operator-50-server-gone');
  await status.getByText('Reconnecting').waitFor();
  await picture(status, 'status-02-server-gone');
  await embed.getByText('When last seen').waitFor();
  await picture(embed, 'embed-02-server-gone');
  await visitor.bringToFront();
  await press(visitor, 'Donate this GPU');
  await untilState(visitor, 'reconnecting');
  await picture(visitor, 'donor-51-joining-a-server-that-is-gone');
});

test('the end', async () => {
  const server = await startServer(copyOfRun('gpt2-long', withSteps(40)));
  const operator = await openOperator(server);
  const first = await openDonor(server.url);
  await first.until('computing');
  await operator.until(({ phase }) => phase === 'finished');
  await first.until('spare');
  await first.page.getByRole('heading', { name: 'gpt2-long is finished' }).waitFor();
  await picture(first.page, 'donor-61-finished');
  const visitor = await first.context.newPage();
  await visitor.goto(server.url);
  await visitor.getByRole('heading', { name: 'This model is finished' }).waitFor();
  await visitor.locator('.writing strong').waitFor();
  await picture(visitor, 'donor-62-visitor-of-a-finished-run');
  await picture(operator.page, 'operator-40-finished');
});

test('islands', async () => {
  const server = await startServer(copyOfRun('islands-f32', withSteps(1_200)), { schedule: 'gpipe' });
  const operator = await openOperator(server);
  const donors = [await openDonor(server.url), await openDonor(server.url)];
  await operator.untilFurther(14);
  const [first] = donors;
  await first?.page.locator('.figures > summary').click();
  if (first) await picture(first.page, 'donor-70-islands');
  await picture(operator.page, 'operator-60-islands');
  await operator.page.getByRole('link', { name: 'Swarm', exact: true }).click();
  await operator.page
    .getByRole('region', { name: /^Islands/ })
    .first()
    .waitFor();
  await picture(operator.page, 'operator-61-islands-map');
});
