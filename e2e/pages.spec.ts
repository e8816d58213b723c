/** Both pages as a person meets them: nothing starts by itself, each failure has its sentence, everyone can use them. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { networkInterfaces } from 'node:os';
import { devices, type Page } from 'playwright';
import { expect, test } from 'vitest';
import { type Donor, type Operator, openBrowser, openDonor, openOperator, untilState } from './browser.ts';
import { curveFaults } from './fidelity.ts';
import { complaintsOf, expectAccessible, NARROW, savedBy, walkByKeyboard } from './pageChecks.ts';
import { atTestEnd, copyOfRun, goldenFile, IS_LONG, startServer, withSteps } from './product.ts';

const FACTS = ['What runs', 'For whom', 'What it costs', 'What others see', 'What it never does', 'How to stop'];
const TINY = goldenFile('gpt2-tiny/run.json');

test('the donor’s page says what will happen, and nothing starts by itself', async () => {
  const server = await startServer(TINY);
  const { context } = await openBrowser();
  const page = await context.newPage();
  const started: string[] = [];
  page.on('websocket', (socket) => started.push(socket.url()));
  page.on('worker', (worker) => started.push(worker.url()));
  page.on('console', (message) => started.push(message.text()));
  const complaints = await complaintsOf(page);
  await page.goto(server.url, { waitUntil: 'networkidle' });
  await page.getByText('It costs you electricity, like a game does').waitFor();
  expect(await page.locator('body').getAttribute('data-state')).toBe('idle');
  expect(started).toEqual([]);
  const operator = await openOperator(server);
  expect((await operator.until(() => true)).donors).toEqual([]);

  // By keyboard only.
  for (const summary of await page.locator('main > details > summary').all()) {
    await summary.focus();
    await page.keyboard.press('Enter');
  }
  await page.getByText('Nobody with a name').waitFor();
  for (const name of FACTS) await page.getByText(name, { exact: true }).waitFor();
  await walkByKeyboard(page);
  await page.getByLabel('GPU time').focus();
  await page.keyboard.press('ArrowLeft');
  await page.locator('output', { hasText: '55 %' }).waitFor();
  await page.getByLabel('Keep this device awake').focus();
  await page.keyboard.press('Space');
  expect(await page.getByLabel('Keep this device awake').isChecked()).toBe(true);
  await expectAccessible(page);
  // The test joins nothing: no socket is opened, and the operator sees nobody.
  await page.getByRole('button', { name: 'Test its speed' }).focus();
  await page.keyboard.press('Enter');
  await page.getByText(/^So far: .* tokens a second/).waitFor();
  await page.keyboard.press('Enter');
  await page.getByText(/[\d,]+ pages? of a book a minute/).waitFor();
  expect(started.filter((url) => /^wss?:/.test(url))).toEqual([]);
  expect((await operator.until(() => true)).donors).toEqual([]);

  await page.getByRole('button', { name: 'Donate this GPU' }).focus();
  await page.keyboard.press('Enter');
  await untilState(page, 'computing');
  // The button is gone: the keyboard goes on where the new part begins.
  expect(await page.evaluate(() => document.activeElement?.id)).toBe('state');
  await page.getByText('a software adapter').waitFor();
  await operator.until(({ committedSteps }) => committedSteps > 0);
  await expectAccessible(page);
  expect(started.filter((url) => /^wss?:/.test(url))).toHaveLength(1);
  expect(complaints).toEqual([]);
});

const MISSING = [
  {
    remove: () => {
      Reflect.deleteProperty(Navigator.prototype, 'gpu');
    },
    reason: 'noWebGpu',
    sentence: 'This browser has no WebGPU.',
  },
  {
    remove: () => {
      Reflect.deleteProperty(globalThis, 'RTCPeerConnection');
    },
    reason: 'noWebRtc',
    sentence: 'This browser has no WebRTC',
  },
] as const;

async function expectFailure(page: Page, reason: string, sentence: string): Promise<void> {
  await untilState(page, 'failed');
  expect(await page.locator('body').getAttribute('data-reason')).toBe(reason);
  await page.getByText(sentence).waitFor();
}

test('without WebGPU, WebRTC or a GPU the page says so at once, with its button off', async () => {
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
  const asPhone = { userAgent: devices['Pixel 7'].userAgent, viewport: NARROW };
  const { browser: withGpu } = await openBrowser();
  const phone = await (await withGpu.newContext(asPhone)).newPage();
  await phone.goto(server.url);
  await phone.getByText('phones are off by default').waitFor();
  const donate = phone.getByRole('button', { name: 'Donate this GPU' });
  expect(await donate.isDisabled()).toBe(true);
  await phone.getByRole('button', { name: 'Allow this phone' }).focus();
  await phone.keyboard.press('Enter');
  // The button is gone: the keyboard goes on at the part that it was in.
  await phone.keyboard.press('Tab');
  expect(await phone.evaluate(() => document.activeElement?.textContent)).toMatch(/^Gentle/);
  // What a phone without a GPU may do is nothing.
  const empty = await (await browser.newContext(asPhone)).newPage();
  await empty.goto(server.url);
  await empty.getByText('This browser has WebGPU but offers no GPU').waitFor();
  expect(await empty.getByText('phones are off by default').count()).toBe(0);
  const page = await context.newPage();
  await page.goto(server.url);
  await page.getByText('This browser has WebGPU but offers no GPU').waitFor();
  expect(await page.getByRole('button', { name: 'Donate this GPU' }).isDisabled()).toBe(true);
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
  await expectFailure(page, 'insecure', 'This address isn’t secure, so the browser keeps the GPU to itself.');
  await page.getByText('Open this page over https').waitFor();
});

/** While the run is paused: it has no steps to spare for that. */
async function openSecond(url: string, operator: Operator): Promise<Donor> {
  await operator.press('Pause');
  await operator.until(({ phase }) => phase === 'paused');
  const donor = await openDonor(url);
  await operator.press('Resume');
  const computes = donor.page.locator('body[data-state="computing"]');
  await computes.or(donor.page.getByText(/wouldn’t speed this up|quicker without your GPU/)).waitFor();
  return donor;
}

test('the server is killed and comes back, the tab goes on without a reload; a second one takes part or says why not, and takes over', async () => {
  const runFile = copyOfRun('gpt2-long', withSteps(100));
  const first = await startServer(runFile);
  const operator = await openOperator(first);
  const donor = await openDonor(first.url);
  await donor.page.evaluate(() => document.body.setAttribute('data-same-page', 'yes'));
  await operator.untilFurther(4);
  await first.kill();
  await donor.until('reconnecting');
  await donor.page.getByText('The server doesn’t answer. This page keeps trying by itself.').waitFor();
  // What is known of the run is what it was, and does not look like what it is.
  await donor.untilShows('Loss', /when last seen/);
  await expectAccessible(donor.page);
  await operator.page
    .getByText(/The server has not answered since .*\. Everything below is as it was then\./)
    .waitFor();
  // Every card below the first, also the first of its row.
  const inColour = (cards: (HTMLElement | SVGElement)[]): number =>
    cards.slice(1).filter((card) => getComputedStyle(card).filter !== 'grayscale(1)').length;
  expect(await operator.page.locator('main .card').evaluateAll(inColour)).toBe(0);

  const { dataDirectory, port } = first;
  await startServer(runFile, { dataDirectory, port });
  await donor.until('computing');
  await donor.page.getByText(/The server didn’t answer for .*\. Then this tab went on by itself/).waitFor();
  const other = await openSecond(first.url, operator);
  await operator.untilFurther(2);
  await donor.press('Leave');
  await donor.until('left');
  await other.until('computing');
  await operator.until(({ phase }) => phase === 'finished');
  expect(await donor.page.locator('body').getAttribute('data-same-page')).toBe('yes');
  const { steps } = await operator.page.evaluate(async () => (await fetch('/api/operator/steps?run=gpt2-long')).json());
  expect(curveFaults('gpt2-long', 100, steps)).toEqual([]);
});

test('who presses the button while the server is gone is told so, and trains once it is back', async () => {
  const runFile = copyOfRun('gpt2-long', withSteps(200));
  const first = await startServer(runFile);
  const { context } = await openBrowser();
  const page = await context.newPage();
  await page.goto(first.url);
  await page.locator('.chip', { hasText: 'Ready' }).waitFor();
  await first.kill();
  await page.getByRole('button', { name: 'Donate this GPU' }).click();
  await page.getByText('The server doesn’t answer. This page keeps trying by itself.').waitFor();
  const { dataDirectory, port } = first;
  await startServer(runFile, { dataDirectory, port });
  await untilState(page, 'computing');
});

test('the operator’s page wants the token that was printed last, once', async () => {
  const server = await startServer(TINY);
  const operator = await openOperator(server);
  // The token is a secret: it does not stay in the address.
  expect(operator.page.url()).toBe(`${server.url}/operator`);
  const again = await operator.page.context().newPage();
  const complaints = await complaintsOf(again);
  await again.goto(`${server.url}/operator`);
  await again.locator('body[data-connection="open"]').waitFor();
  await again.goto(`${server.url}/status`, { waitUntil: 'networkidle' });
  expect(complaints).toEqual([]);
  await again.close();

  const { context } = await openBrowser({ webGpu: false });
  const page = await context.newPage();
  await page.goto(server.operatorUrl);
  await page.getByText('this token was used before or is unknown').waitFor();
  await page.getByLabel('Operator token').fill('guess');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.locator('[aria-invalid="true"]').waitFor();
  await page.getByText('this token was used before or is unknown').waitFor();
  await expectAccessible(page);
});

test('anyone talks to the model: it goes on with a text, says what of it is from where, and older states answer too', async () => {
  const server = await startServer(copyOfRun('gpt2-tiny', withSteps(2)));
  const operator = await openOperator(server);
  await openDonor(server.url);
  await operator.until(({ phase }) => phase === 'finished');
  await operator.page.getByRole('link', { name: 'Talk', exact: true }).waitFor();

  const { context } = await openBrowser({ webGpu: false });
  const donors = await context.newPage();
  await donors.goto(server.url);
  expect(await donors.getByRole('link', { name: 'talk to it' }).getAttribute('href')).toBe('/talk');
  const page = await context.newPage();
  const complaints = await complaintsOf(page);
  await page.goto(`${server.url}/status`);
  await page.getByRole('link', { name: 'Talk to the model' }).click();
  await page.getByRole('heading', { name: 'Talk to gpt2-tiny' }).waitFor();
  await page.getByText('It makes things up.').waitFor();
  await page.getByText('Donors who compute its first or last part could read what you type').waitFor();
  await page.getByLabel('Write the beginning').fill('Call me Ish');
  const coming = page.waitForResponse(`${server.url}/talk/completions`);
  await page.getByRole('button', { name: 'Let it go on' }).click();
  const answer = await coming;
  expect(answer.headers()['content-type']).toMatch(/^text\/event-stream/);
  await page.getByText(/^From step 2, by one donor’s GPU, in /).waitFor(); // the run is finished, and its donor still here
  // The same question again, whole.
  const again = await fetch(answer.url(), {
    ...{ method: 'POST', headers: { 'content-type': 'application/json' } },
    body: JSON.stringify({ ...answer.request().postDataJSON(), stream: false }),
  });
  const { text } = (await again.json()).choices[0];
  expect(text).not.toBe('');
  expect(await page.getByRole('log').locator('blockquote').textContent()).toBe(`Call me Ish${text}`);
  await walkByKeyboard(page);
  const picture = await savedBy(page, () => page.getByRole('button', { name: 'Save as a picture' }).click());
  expect([picture.name, picture.text.slice(1, 4)]).toEqual(['gpt2-tiny-2.png', 'PNG']);

  await page.getByRole('button', { name: 'Ask older checkpoints, too' }).click();
  await page.getByText(/^From step 0, by the server, in /).waitFor();
  const names = page.locator('.older h4');
  expect(await names.allTextContents()).toEqual(['Before it learnt anything', 'Now, after step 2']);
  await page.getByText('Length and chance').click();
  await expectAccessible(page);
  expect(complaints).toEqual([]);
});

/** What a person finds again: after a reload, in the tab's title, and when the server is gone. */
test.runIf(IS_LONG)(
  'a reload forgets neither a snooze nor what was given; titles say the state, and old numbers that they are old',
  async () => {
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
  },
);

/** A site of its own that shows this address in a frame. */
async function siteWith(address: () => string): Promise<string> {
  const site = createServer((_request, response) => {
    response.setHeader('content-type', 'text/html');
    response.end(
      `<!doctype html><title>A blog</title><iframe title="Run" src="${address()}" width="360" height="420">`,
    );
  });
  await new Promise<void>((resolve) => site.listen(0, 'localhost', resolve));
  atTestEnd(() => {
    site.closeAllConnections();
    site.close();
  });
  return `http://localhost:${(site.address() as AddressInfo).port}`;
}

/** How often a school of fish was moved from now on. */
async function movesOf(page: Page): Promise<() => Promise<number>> {
  await page.evaluate(() => {
    const kept = { moves: 0 };
    Object.assign(globalThis, { kept });
    const shoal = document.querySelector('.shoal');
    if (shoal)
      new MutationObserver((all) => {
        kept.moves += all.filter(({ target }) => (target as Element).matches('.school')).length;
      }).observe(shoal, { attributes: true, subtree: true });
  });
  return () => page.evaluate(() => (globalThis as unknown as { kept: { moves: number } }).kept.moves);
}

/** A run on other people's sites, and its donors as fish: what moves, and for whom nothing does. */
test.runIf(IS_LONG)(
  'a run is framed by the site that is named and by no other; a donor is a fish, which moves with steps unless no motion is wanted',
  async () => {
    let embed = '';
    const [named, other] = [await siteWith(() => embed), await siteWith(() => embed)];
    const server = await startServer(copyOfRun('gpt2-long', withSteps(400)), { embedOn: named });
    embed = `${server.url}/embed`;
    const operator = await openOperator(server);
    const still = await openDonor(server.url, {
      prepare: (page) => void page.emulateMedia({ reducedMotion: 'reduce' }),
    });
    await still.until('computing');
    await still.page.locator('.shoal .training.own').waitFor();
    const { context } = await openBrowser({ webGpu: false });
    const site = await context.newPage();
    await site.goto(named);
    const frame = site.frameLocator('iframe');
    await frame.getByText('1 GPU training.').waitFor();
    const donate = frame.getByRole('link', { name: /^Donate/ });
    expect([await donate.getAttribute('target'), await donate.getAttribute('href')]).toEqual(['_blank', '/']);
    const elsewhere = await context.newPage();
    await elsewhere.goto(other);
    await expect.poll(() => elsewhere.frames().some((each) => each.url() === embed)).toBe(false);
    await elsewhere.goto(embed);
    await elsewhere.getByText('1 GPU training.').waitFor();
    await expectAccessible(elsewhere);

    const [moved, stood] = [await movesOf(elsewhere), await movesOf(still.page)];
    await operator.untilFurther(3);
    await expect.poll(moved, { timeout: 60_000 }).toBeGreaterThan(0);
    expect(await stood()).toBe(0);
  },
);

/** Two islands of six steps. */
const ROUND_STEPS = 12;

test.runIf(IS_LONG)('islands are curves with their mean, boxes on the map, and a meeting on the timeline', async () => {
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
