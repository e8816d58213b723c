/** The dashboard as operators use it: every part and control on a real run, readable by everyone, hard to fool. */
import { readFileSync } from 'node:fs';
import type { Page } from 'playwright';
import { expect, test } from 'vitest';
import { INITIAL_ALERT_LIMITS } from '../swarm/messages/watch.ts';
import { type Donor, type Operator, openBrowser, openDonor, openOperator } from './browser.ts';
import { walkCrowd } from './crowd.ts';
import {
  chooseLines,
  compareWith,
  draft,
  go,
  lookAtPeers,
  lookCloser,
  moreCharts,
  readFiles,
  readHistory,
  restWhileHidden,
  scrub,
  tell,
  writeSamples,
} from './dashboardControls.ts';
import { byKeyboard, expectAccessible } from './pageChecks.ts';
import { beside, copyOfRun, expectReplayed, IS_LONG, RunningCommand, startServer, withSteps } from './product.ts';

const PARTS = ['Run', 'Swarm', 'Peers', 'Runs', 'Samples', 'Settings'] as const;
const WINDOW = { width: 1440, height: 900 };
const POLL = { timeout: 60_000 };
/** Of the alerts, as they are by default. */
const HOSTILE = '<img src=x onerror=alert(1)>';

/** What the page says of itself in its console, beside what is wanted. */
function complaintsOf(page: Page): string[] {
  const complaints: string[] = [];
  page.on('console', (message) => {
    // zod asks once whether text may become code: the page's policy says no, and it does without. That a server is gone,
    // or refuses, is the browser's own complaint.
    if (!/TrustedScript|Function constructor|net::ERR_|status of 40[09]/.test(message.text()))
      complaints.push(message.text());
  });
  page.on('pageerror', ({ message }) => complaints.push(message));
  return complaints;
}

/** The charts' files, and everything that changes what they show. */
async function walkCharts(page: Page): Promise<void> {
  await readFiles(page, 'gpt2-long');
  await lookCloser(page);
  await chooseLines(page);
}

/** Nothing but keys: the charts, one part after the other, and something in each. */
async function walkByKeyboard(page: Page): Promise<void> {
  await byKeyboard(page, 'Logarithmic loss', 'Space');
  await byKeyboard(page, 'Closer', 'Enter');
  await byKeyboard(page, 'All steps', 'Enter');
  const next = async (part: string, shows: RegExp): Promise<void> => {
    await page.evaluate(() => document.querySelector<HTMLElement>('.parts a')?.focus());
    await byKeyboard(page, part, 'Enter');
    await page.getByText(shows).first().waitFor();
  };
  await next('Swarm', /^Follow the newest step/);
  await byKeyboard(page, 'Follow the newest step', 'Space');
  await page.getByRole('heading', { name: /^Map of plan \d/ }).waitFor();
  await next('Donors', /^More of/);
  await byKeyboard(page, 'Tokens', 'Enter');
  await page.locator('th[aria-sort="descending"]', { hasText: 'Tokens' }).waitFor();
  await byKeyboard(page, 'More of', 'Enter');
  await byKeyboard(page, 'Block its address', 'Enter');
  await byKeyboard(page, 'No', 'Enter');
  await next('Runs', /^Checkpoints of gpt2-long/);
  await byKeyboard(page, 'Checkpoints of', 'Enter');
  await byKeyboard(page, 'Go back', 'Enter');
  await byKeyboard(page, 'No', 'Enter');
  await next('Settings', /^What operators did/);
}

/** Each part with everything open. */
async function lookAtParts(page: Page): Promise<void> {
  for (const part of PARTS) {
    await go(page, part);
    if (part === 'Swarm') {
      await page.getByText(/did the whole step alone and was at work \d/).waitFor();
      await scrub(page);
    }
    if (part === 'Peers') {
      await lookAtPeers(page);
      await page.getByRole('button', { name: /^More of/ }).click();
      await page.getByLabel('More donors').fill('1');
      await page.getByRole('button', { name: 'Predict' }).click();
      await page.getByText(/^Without the change:/).waitFor();
    }
    if (part === 'Runs') {
      await page.locator('summary', { hasText: 'Checkpoints of gpt2-long' }).click();
      await draft(page, 'gpt2-long');
      await page.getByRole('button', { name: 'New run', exact: true }).click();
    }
    if (part === 'Samples') {
      await writeSamples(page);
      await page.getByLabel(/^Prompts/).fill('Call me ');
      await page.getByRole('button', { name: 'Write samples' }).click();
      await page.getByRole('columnheader', { name: '“Call me ”' }).waitFor();
    }
    if (part === 'Settings') await readHistory(page, () => tell(page, 'alerts', INITIAL_ALERT_LIMITS));
    await expectAccessible(page, part);
  }
}

/** Two sessions of one operator, or two operators: each sees what the other one does. */
async function pauseTogether(page: Page, other: Page): Promise<void> {
  // One after the other: the button says Resume as soon as somebody has paused, and a press aimed at Pause would be that.
  await page.getByRole('button', { name: 'Pause', exact: true }).click();
  await tell(other, 'command', { command: 'pause' });
  for (const each of [page, other]) await each.getByText(/^Paused by the operator after/).waitFor();
  // A tab behind another one draws late.
  await page.bringToFront();
  for (const each of [page, other]) await go(each, 'Settings');
  await page.getByText('When to alert').click();
  await page.getByLabel('Donors at work, at least').fill('3');
  await page.getByLabel('Seconds without a step, at most').fill('77');
  await page.getByLabel('Minutes without a checkpoint, at most').fill('7');
  await page.getByRole('button', { name: 'Keep these limits' }).click();
  await page.getByText('Kept.').waitFor();
  await expect.poll(() => other.getByLabel('Donors at work, at least').inputValue(), POLL).toBe('3');
  expect(await other.getByLabel('Seconds without a step, at most').inputValue()).toBe('77');
  expect(await other.getByLabel('Minutes without a checkpoint, at most').inputValue()).toBe('7');
}

/** Whatever is pressed at once, whoever comes last is followed, and both see the same in the end. */
async function pressAtOnce(page: Page, other: Page): Promise<void> {
  const commands = ['resume', 'pause', 'start', 'pause'];
  const both = [page, other].flatMap((each) => commands.map((command) => tell(each, 'command', { command })));
  expect(new Set(await Promise.all(both))).toEqual(new Set([200]));
  await tell(page, 'command', { command: 'pause' });
  await expect.poll(() => phaseAtServer(page), POLL).toBe('paused');
  for (const each of [page, other]) await each.locator('body[data-phase="paused"]').waitFor();
}

const phaseAtServer = (page: Page): Promise<string> =>
  page.evaluate(() => fetch('/api/snapshot').then(async (answer) => (await answer.json()).snapshot.phase));

async function draftRuns(page: Page): Promise<void> {
  await go(page, 'Runs');
  await page.locator('summary', { hasText: 'Checkpoints of gpt2-long' }).click();
  const keep = page.getByLabel(/^Keep checkpoint \d+ of gpt2-long/).first();
  await keep.click();
  await page.getByText(/^Checkpoint \d+ is kept\.$/).waitFor();
  await page.getByRole('button', { name: 'New run', exact: true }).click();
  const refusedAs = async (name: string, shown: string): Promise<void> => {
    await page.getByLabel('Name').fill(name);
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByText(shown).waitFor();
  };
  await refusedAs(HOSTILE, `not "${HOSTILE}"`);
  await isLedTo(page, 'Name', /^✕ Name must be/);
  await page.getByLabel('Name').fill('too-long');
  const tokens = page.getByLabel('Tokens a sample', { exact: true });
  const asked = await tokens.inputValue();
  await tokens.fill('4096');
  await page.getByRole('button', { name: 'Check plan' }).click();
  await isLedTo(page, 'Tokens a sample', /^✕ Tokens a sample must be at most the model's/);
  await fitted(page, () => tokens.fill(asked));
  expect(await tell(page, 'runs', { name: 'x'.repeat(10_000) })).toBe(400);
  await page.getByLabel('Name').fill('second');
  await bringExamples(page);
  const text = { name: 'my text.txt', mimeType: 'text/plain', buffer: Buffer.from('One fish, two fish. '.repeat(900)) };
  await page.getByLabel('Bring your own text').setInputFiles(text);
  await page.getByText('Text my-text is uploaded and chosen').waitFor();
  await page.getByRole('combobox', { name: 'Model', exact: true }).selectOption('tiny');
  await page.getByRole('button', { name: 'Check plan' }).click();
  await page.getByText(/steps take about/).waitFor();
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByText('second is created.').waitFor();
}

/** Those with a bad line are refused and stay in the field; the others are shown as the model sees them. By keys alone. */
async function bringExamples(page: Page): Promise<void> {
  await page.getByText('Paste examples').click();
  const pasted = page.getByLabel('Examples, one a line');
  const [good, bad] = ['{"prompt": "One fish, ", "completion": "two fish."}', '{"prompt": "Red fish, "}'];
  await pasted.fill(`${good}\n${bad}`);
  await byKeyboard(page, 'Use these examples', 'Enter');
  await page.getByText('Refused: line 2: completion is missing: it must be a text.').waitFor();
  expect(await page.getByLabel('Name').inputValue()).toBe('second');
  expect(await pasted.inputValue()).toBe(`${good}\n${bad}`);
  await pasted.fill(`${good}\n${good}`);
  await byKeyboard(page, 'Use these examples', 'Enter');
  await page.getByText(/^1 example in 1 window of \d+ tokens: 19 tokens, of which the loss counts 9\./).waitFor();
  expect(await page.locator('.example .counted').first().textContent()).toContain('two fish.');
  await expectAccessible(page, 'examples');
}

/** A field that was refused is marked, says why, and has the focus. */
async function isLedTo(page: Page, label: string, words: RegExp): Promise<void> {
  const field = page.getByLabel(label, { exact: true });
  await page.getByText(words).waitFor();
  await expect.poll(() => field.evaluate((element) => element === document.activeElement)).toBe(true);
  expect(await field.getAttribute('aria-invalid')).toBe('true');
  const ids = (await field.getAttribute('aria-describedby'))?.split(' ') ?? [];
  const said = await Promise.all(ids.map((id) => page.locator(`#${id}`).textContent()));
  expect(said.join(' ').trim()).toMatch(words);
}

/** While the server works it out the form says so; then by whom the draft would be carried. */
async function fitted(page: Page, change: () => Promise<void>): Promise<void> {
  let answer = (): void => {};
  const isAsked = new Promise<void>((resolve) => {
    answer = resolve;
  });
  await page.route('**/api/operator/plan*', async (route) => {
    await isAsked;
    await route.continue();
  });
  await change();
  await page.getByText('Checking whether the donors here can train it…').waitFor();
  answer();
  await page.getByText(/^It fits: donor \S+ would train it, in about .*\. Nobody is left out\.$/).waitFor();
  await page.unroute('**/api/operator/plan*');
}

/** A button that means nothing now is not there. */
async function isNotThere(page: Page, name: string): Promise<void> {
  await expect.poll(() => page.getByRole('button', { name, exact: true }).count()).toBe(0);
}

/** The donor changes over with the server, and the run that rests is compared with the new one. */
async function changeRuns(operator: Operator, donor: Donor): Promise<void> {
  const { page } = operator;
  await go(page, 'Runs');
  await page.getByRole('button', { name: 'Make active second' }).click();
  await page.getByRole('button', { name: /^Yes, make active/ }).click();
  await operator.until(({ run }) => run === 'second');
  await page.getByRole('heading', { name: 'second', level: 1 }).waitFor();
  await operator.until(({ committedSteps }) => committedSteps > 1);
  await donor.page.getByRole('heading', { name: 'second', level: 1 }).waitFor();
  await go(page, 'Run');
  await compareWith(page, 'gpt2-long');
}

/** In order, and by its address; whoever is shut out is told so, until it is let in again. */
async function letGo(page: Page, other: Page, donor: Donor): Promise<void> {
  const more = page.getByRole('button', { name: /^More of/ });
  await go(page, 'Peers');
  await more.click();
  const peer = await donor.page.locator('body').getAttribute('data-peer');
  await page.getByRole('button', { name: 'Let go after this step' }).click();
  // Another operator presses the same: the donor is on its way out, or out.
  expect([200, 409]).toContain(await tell(other, 'let-go', { peer, how: 'atBoundary' }));
  await donor.until('left');
  await page.getByText(/^Donor \S+ is gone$/).waitFor();
  await expect.poll(() => tell(other, 'let-go', { peer, how: 'atBoundary' }), POLL).toBe(409);

  await donor.press('Donate this GPU');
  await more.click();
  await page.getByRole('button', { name: 'Block its address' }).click();
  await page.getByRole('button', { name: 'Yes, block its address' }).click();
  await donor.until('failed');
  await page.getByRole('region', { name: 'Blocked addresses' }).getByRole('button', { name: 'Let in again' }).click();
  await page.getByRole('heading', { name: 'Blocked addresses' }).waitFor({ state: 'detached' });
}

test('operators read, steer, draft, go back, let go and change the run; two at once and a lost server leave it whole', async () => {
  const runFile = copyOfRun('gpt2-long', withSteps(2_000));
  const record = beside(runFile, 'record.jsonl');
  const first = await startServer(runFile, { record });
  const [operator, donor] = await Promise.all([openOperator(first), openDonor(first.url)]);
  const { page } = operator;
  const complaints = complaintsOf(page);
  await page.setViewportSize(WINDOW);
  await operator.until(({ committedSteps }) => committedSteps > 8);
  await page.getByRole('img', { name: /^Loss, steps 1 to \d+: each step from 5\.\d+ to/ }).waitFor();
  await moreCharts(page);
  await page.getByRole('img', { name: /^Traffic by kind, steps 1 to / }).waitFor();
  await restWhileHidden(page, () => operator.untilFurther(3));
  const other = await page.context().newPage();
  await other.goto(`${first.url}/operator`);
  await pauseTogether(page, other);
  // Two cores are for the reader now.
  await go(page, 'Run');
  await isNotThere(page, 'Start');
  await walkCharts(page);
  await walkByKeyboard(page);
  await lookAtParts(page);
  await walkCrowd(await page.context().newPage(), first.url);
  await page.bringToFront();
  await pressAtOnce(page, other);
  const response = await other.goto(`${first.url}/status`);
  expect(response?.headers()['content-security-policy']).toContain("require-trusted-types-for 'script'");
  await other.getByText('The run is paused.').waitFor();
  await other.getByText('Nobody with a name has given this run anything yet.').waitFor();
  await expectAccessible(other, 'Status');
  expect(await other.content()).not.toContain(String(await donor.page.locator('body').getAttribute('data-peer')));

  // The server is gone for a while, and comes back to the same.
  await page.bringToFront();
  const before = await operator.until(() => true);
  await first.kill();
  await page.getByText(/The server has not answered since .*\. Everything below is as it was then\./).waitFor();
  await page.getByText('Reconnecting').waitFor();
  expect(await page.getByRole('button', { name: 'Resume', exact: true }).isDisabled()).toBe(true);
  const server = await startServer(runFile, { dataDirectory: first.dataDirectory, port: first.port, record });
  await page.locator('body[data-connection="open"]').waitFor();
  expect(await operator.until(() => true)).toMatchObject({ phase: 'paused', committedSteps: before.committedSteps });

  await donor.until('joined');
  await draftRuns(page);
  await page
    .getByRole('button', { name: /^Go back to checkpoint/ })
    .first()
    .click();
  await page.getByRole('button', { name: /^Yes, go back/ }).click();
  await operator.until((now) => now.phase === 'paused' && now.committedSteps < before.committedSteps);
  await operator.press('Resume');
  await operator.until(({ phase }) => phase === 'training');
  await isNotThere(page, 'Resume');
  await changeRuns(operator, donor);
  await letGo(page, other, donor);
  expect(complaints).toEqual([]);

  // Somebody who made the cookie up.
  const { domain = 'localhost' } = (await page.context().cookies())[0] ?? {};
  const forged = 'eyJhbGciOiJub25lIn0.eyJyb2xlIjoib3BlcmF0b3IifQ.';
  await page.context().addCookies([{ name: 'shoal_operator', value: forged, domain, path: '/' }]);
  await page.goto(`${server.url}/operator`);
  await page.getByLabel('Operator token').fill('guessed');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByText('this token was used before or is unknown').waitFor();
  await expectAccessible(page, 'Login');

  await server.stop();
  await expectReplayed(record);
});

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

/** Alerts that reach people: what a browser is asked to notify of while its dashboard is open. */
test.runIf(IS_LONG)(
  'who wants notices in this browser gets a test, and each alert once when it begins; who does not gets none',
  async () => {
    const server = await startServer(copyOfRun('gpt2-long', withSteps(4_000)));
    const [operator] = await Promise.all([openOperator(server), openDonor(server.url)]);
    const { page } = operator;
    await operator.until(({ phase }) => phase === 'training');
    await noteNotices(page);
    await go(page, 'Settings');
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
  },
);

const REHEARSALS = '.card:has(> #rehearsals)';

/** By the panel's own controls; resolves with the cells of its row when it is over. */
async function rehearse(page: Page, what: string, seconds?: number): Promise<string[]> {
  const card = page.locator(REHEARSALS);
  const before = await card.locator('tbody tr').count();
  await card.getByLabel('What').selectOption(what);
  if (seconds !== undefined) await card.getByLabel('Seconds').fill(String(seconds));
  await card.getByRole('button', { name: 'Rehearse' }).click();
  await card.getByRole('button', { name: 'Yes, rehearse' }).click();
  // With what the panel says: a refusal tells why.
  const seen = async () => ({
    rows: await card.locator('tbody tr').count(),
    says: await card.locator('.answer').textContent(),
  });
  await expect
    .poll(seen, { timeout: 10_000 })
    .toEqual({ rows: before + 1, says: 'Begun. The table says what it costs.' });
  const row = card.locator('tbody tr').first();
  await row.getByText('Over').waitFor();
  return row.locator('td, th').allTextContents();
}

const SECONDS = expect.stringMatching(/^\d+\.\d s$/);
/** Of a fault that was noticed and got over, without a step that was given up. */
const lossless = (what: string) => [
  ...[
    expect.stringMatching(/^[a-z]+-[a-z]+(-\d+)?$/),
    what,
    expect.stringMatching(/^\d+$/),
    expect.stringContaining('Over'),
  ],
  ...[SECONDS, SECONDS, '0', expect.stringMatching(/B$/)],
];

test.runIf(IS_LONG)(
  'an operator freezes and kills donors of the server’s own: no step is given up, a viewer reads the table',
  async () => {
    const runFile = copyOfRun('gpt2-long', withSteps(5_000));
    const report = beside(runFile, 'report.json');
    const swarm = new RunningCommand(['swarm', runFile, '--donors', '4', '--report', report]);
    const operatorUrl = await swarm.printed(/its dashboard: (\S+)/, 'stderr');
    const operator = await openOperator({ operatorUrl });
    const { page } = operator;
    await operator.until(({ donors }) => donors.filter(({ state }) => state === 'computing').length === 4);
    await operator.untilFurther(3);
    await go(page, 'Settings');
    const frozen = await rehearse(page, 'freeze', 8);
    expect(frozen).toEqual(lossless('freeze it for 8 s'));
    // It came back by itself.
    await operator.until(({ donors }) => donors.length === 4);
    const killed = await rehearse(page, 'kill');
    expect(killed).toEqual(lossless('kill its tab'));
    await operator.until(({ donors }) => donors.length === 3);
    await expectAccessible(page, 'Swarm');

    const asked = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' };
    const newLink = async (): Promise<string> => {
      const token = await page.evaluate(
        async (init) => (await (await fetch('/api/operator/viewer', init)).json()).token,
        asked,
      );
      return `${new URL(operatorUrl).origin}/operator#token=${token}`;
    };
    const { context } = await openBrowser({ webGpu: false });
    const viewer = await context.newPage();
    const link = await newLink();
    await viewer.goto(link);
    await go(viewer, 'Swarm');
    await expect.poll(() => viewer.locator(REHEARSALS).locator('tbody tr').count()).toBe(2);
    expect(await viewer.locator(REHEARSALS).getByRole('button').count()).toBe(0);
    // A link opened in a tab that shows the dashboard: a used one says so, after a log-out a new one logs in.
    await viewer.goto(link);
    await viewer.getByText('used before').waitFor();
    expect(viewer.url()).not.toContain('token');
    await viewer.getByRole('button', { name: 'Log out' }).click();
    await viewer.getByLabel('Operator token').waitFor();
    await expect.poll(() => viewer.title()).toBe('Shoal: operator');
    await viewer.goto(await newLink());
    await viewer.getByText('Viewer: looks only').waitFor();

    await swarm.stop();
    const { faults, rollbacks } = JSON.parse(readFileSync(report, 'utf8'));
    const given = { stepsGivenUp: 0, detectedSeconds: expect.any(Number), resumedSeconds: expect.any(Number) };
    expect(faults).toMatchObject([
      { entry: expect.stringMatching(/^freeze:\d@\d+\+8s$/), ...given },
      { entry: expect.stringMatching(/^kill:\d@\d+$/), ...given },
    ]);
    expect(rollbacks).toEqual([]);
  },
);
