/** The dashboard as operators use it: every part and control on a real run, readable by everyone, hard to fool. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { AxeBuilder } from '@axe-core/playwright';
import type { Page } from 'playwright';
import { expect, test } from 'vitest';
import { openDonor, openOperator } from './browser.ts';
import { copyOfRun, startServer, temporaryFolder, withSteps } from './product.ts';

const PARTS = ['Run', 'Swarm', 'Peers', 'Runs', 'Samples', 'History'] as const;
const WIDTHS = [1440, 768, 350];
const SCHEMES = ['light', 'dark'] as const;
const HEIGHT = 900;
const POLL = { timeout: 60_000 };
const HOSTILE = '<img src=x onerror=alert(1)>';

/**
 * At every width and in both schemes nothing sticks out of the window, and in the narrow one axe finds nothing wrong. No
 * page has frames, so that axe needs no page of its own to put its findings together.
 */
async function expectAccessible(page: Page, where: string): Promise<void> {
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: HEIGHT });
    for (const colorScheme of SCHEMES) {
      await page.emulateMedia({ colorScheme });
      const overhang = await page.evaluate(() => {
        const { scrollWidth, clientWidth } = document.documentElement;
        return scrollWidth - clientWidth;
      });
      expect(overhang, `${where}, ${width}, ${colorScheme}`).toBe(0);
    }
  }
  for (const colorScheme of SCHEMES) {
    await page.emulateMedia({ colorScheme });
    const { violations } = await new AxeBuilder({ page }).setLegacyMode().analyze();
    const faults = violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]);
    expect(faults, `${where}, ${colorScheme}`).toEqual([]);
  }
  await page.setViewportSize({ width: WIDTHS[0] ?? 0, height: HEIGHT });
}

const go = (page: Page, part: (typeof PARTS)[number]): Promise<void> =>
  page.getByRole('navigation').getByRole('link', { name: part, exact: true }).click();

/** Reached by the Tab key alone, and each thing on the way shows that it has the focus; then `key` is pressed there. */
async function byKeyboard(page: Page, name: string, key: 'Enter' | 'Space'): Promise<void> {
  for (let presses = 0; presses < 80; presses++) {
    await page.keyboard.press('Tab');
    const { text, ring } = await page.evaluate(() => {
      const focused = document.activeElement;
      const named = focused instanceof HTMLInputElement ? focused.labels?.[0] : focused;
      // What scrolls has the focus too, and the words of all that is in it.
      const text = focused?.matches('a, button, input, summary') ? named?.textContent : '';
      // Behind its last thing the page has the focus itself, and then its first thing.
      const isPage = focused === null || focused === document.body;
      return { text: text ?? '', ring: isPage ? 'page' : getComputedStyle(focused).outlineStyle };
    });
    expect(ring, text).not.toBe('none');
    if (text.includes(name)) return page.keyboard.press(key);
  }
  throw new Error(`${name} is not reached by keyboard`);
}

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

async function readCharts(page: Page): Promise<void> {
  await page.getByRole('img', { name: /^Loss, steps 1 to \d+: each step from 5\.\d+ to/ }).waitFor();
  await page.getByRole('img', { name: /^Traffic by kind, steps 1 to / }).waitFor();
  const chart = page.getByRole('region', { name: 'Step time' });
  await chart.getByText('Numbers').click();
  await chart.getByRole('columnheader', { name: 'slowest 5 % (p95)' }).waitFor();
  const download = page.waitForEvent('download');
  await chart.getByRole('button', { name: 'CSV' }).click();
  const file = await download;
  expect(file.suggestedFilename()).toBe('gpt2-long-time.csv');
  const path = join(temporaryFolder(), 'time.csv');
  await file.saveAs(path);
  expect(readFileSync(path, 'utf8')).toMatch(/^step,seconds\n0,[\d.]+\n1,/);
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
  await next('Peers', /^More of/);
  await byKeyboard(page, 'Tokens', 'Enter');
  await page.locator('th[aria-sort="descending"]', { hasText: 'Tokens' }).waitFor();
  await byKeyboard(page, 'More of', 'Enter');
  await byKeyboard(page, 'Block its address', 'Enter');
  await byKeyboard(page, 'No', 'Enter');
  await next('Runs', /^Checkpoints of gpt2-long/);
  await byKeyboard(page, 'Checkpoints of', 'Enter');
  await byKeyboard(page, 'Go back', 'Enter');
  await byKeyboard(page, 'No', 'Enter');
  await next('History', /^What operators did/);
}

/** Each part with everything open. */
async function lookAtParts(page: Page): Promise<void> {
  for (const part of PARTS) {
    await go(page, part);
    if (part === 'Swarm') await page.getByText(/does the whole step alone, \d/).waitFor();
    if (part === 'Peers') {
      await page.getByRole('button', { name: /^More of/ }).click();
      await page.getByLabel('More donors').fill('1');
      await page.getByRole('button', { name: 'Predict' }).click();
      await page.getByText(/^Without the change:/).waitFor();
    }
    if (part === 'Runs') {
      await page.locator('summary', { hasText: 'Checkpoints of gpt2-long' }).click();
      await page.getByRole('button', { name: 'New run' }).click();
    }
    if (part === 'Samples') {
      await page.getByLabel('Tokens').fill('8');
      await page.getByRole('button', { name: 'Write samples' }).click();
      await page.getByRole('columnheader', { name: '“Call me ”' }).waitFor();
    }
    await expectAccessible(page, part);
  }
}

/** Two sessions of one operator, or two operators: each sees what the other one does. */
async function pauseTogether(page: Page, other: Page): Promise<void> {
  await Promise.all(
    [page, other].map((each) => each.getByRole('button', { name: 'Pause', exact: true }).click({ force: true })),
  );
  for (const each of [page, other]) await each.getByText(/^Paused by the operator after/).waitFor();
  // A tab behind another one draws late.
  await page.bringToFront();
  await page.getByText('When to alert').click();
  await page.getByLabel('Donors at work, at least').fill('3');
  await page.getByRole('button', { name: 'Keep these limits' }).click();
  await page.getByText('Kept.').waitFor();
  await expect.poll(() => other.getByLabel('Donors at work, at least').inputValue(), POLL).toBe('3');
}

/** Whatever is pressed at once, whoever comes last is obeyed, and both see the same in the end. */
async function pressAtOnce(page: Page, other: Page): Promise<void> {
  const commands = ['resume', 'pause', 'start', 'pause'];
  const both = [page, other].flatMap((each) => commands.map((command) => tell(each, 'command', { command })));
  expect(new Set(await Promise.all(both))).toEqual(new Set([200]));
  await tell(page, 'command', { command: 'pause' });
  await expect.poll(() => phaseAtServer(page), POLL).toBe('paused');
  for (const each of [page, other]) await each.locator('body[data-phase="paused"]').waitFor();
}

/** As the page itself would, without its buttons. */
const tell = (page: Page, path: string, body: unknown): Promise<number> =>
  page.evaluate(
    ([to, text]) =>
      fetch(`/api/operator/${to}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: text,
      }).then(({ status }) => status),
    [path, JSON.stringify(body)] as const,
  );

const phaseAtServer = (page: Page): Promise<string> =>
  page.evaluate(() => fetch('/api/snapshot').then(async (answer) => (await answer.json()).snapshot.phase));

async function draftRuns(page: Page): Promise<void> {
  await go(page, 'Runs');
  await page.locator('summary', { hasText: 'Checkpoints of gpt2-long' }).click();
  const keep = page.getByLabel(/^Keep checkpoint \d+ of gpt2-long/).first();
  await keep.click();
  await page.getByText(/^Checkpoint \d+ stays\.$/).waitFor();
  await page.getByRole('button', { name: 'New run' }).click();
  const refusedAs = async (name: string, shown: string): Promise<void> => {
    await page.getByLabel('Name').fill(name);
    await page.getByRole('button', { name: 'Create' }).click();
    await page.getByText(shown).waitFor();
  };
  await refusedAs(HOSTILE, `not "${HOSTILE}"`);
  expect(await tell(page, 'runs', { name: 'x'.repeat(10_000) })).toBe(400);
  await page.getByLabel('Name').fill('second');
  const text = { name: 'my text.txt', mimeType: 'text/plain', buffer: Buffer.from('One fish, two fish. '.repeat(900)) };
  await page.getByLabel('Bring a text along').setInputFiles(text);
  await page.getByText('Text my-text is there.').waitFor();
  await page.getByLabel('Model').selectOption('tiny');
  await page.getByRole('button', { name: 'Can it be carried?' }).click();
  await page.getByText(/steps take about/).waitFor();
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByText('second is made.').waitFor();
}

test('operators read, steer, draft, go back, let go and change the run; two at once and a lost server leave it whole', async () => {
  const runFile = copyOfRun('gpt2-long', withSteps(2_000));
  const first = await startServer(runFile);
  const [operator, donor] = await Promise.all([openOperator(first), openDonor(first.url)]);
  const { page } = operator;
  const complaints = complaintsOf(page);
  await operator.until(({ committedSteps }) => committedSteps > 8);
  await readCharts(page);
  const other = await page.context().newPage();
  await other.goto(`${first.url}/operator`);
  await pauseTogether(page, other);
  // Two cores are for the reader now.
  await go(page, 'Run');
  await walkByKeyboard(page);
  await lookAtParts(page);
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
  await page.getByText('The connection is lost; this is how the run was last seen.').waitFor();
  await page.getByText('Reconnecting').waitFor();
  expect(await page.getByRole('button', { name: 'Resume', exact: true }).isDisabled()).toBe(true);
  const server = await startServer(runFile, { dataDirectory: first.dataDirectory, port: first.port });
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
  await go(page, 'Peers');
  await page.getByRole('button', { name: /^More of/ }).click();
  const peer = await donor.page.locator('body').getAttribute('data-peer');
  await page.getByRole('button', { name: 'Let go after this step' }).click();
  // Another operator presses the same: the donor is on its way out, or out.
  expect([200, 409]).toContain(await tell(other, 'let-go', { peer, how: 'atBoundary' }));
  await donor.until('left');
  await page.getByText(/^Donor \S+ is gone$/).waitFor();
  await expect.poll(() => tell(other, 'let-go', { peer, how: 'atBoundary' }), POLL).toBe(409);

  await go(page, 'Runs');
  await page.getByRole('button', { name: 'Make active second' }).click();
  await page.getByRole('button', { name: /^Yes, make active/ }).click();
  await operator.until(({ run }) => run === 'second');
  await page.getByRole('heading', { name: 'second', level: 1 }).waitFor();
  expect(complaints).toEqual([]);

  // Somebody who made the cookie up.
  const { domain = 'localhost' } = (await page.context().cookies())[0] ?? {};
  const forged = 'eyJhbGciOiJub25lIn0.eyJyb2xlIjoib3BlcmF0b3IifQ.';
  await page.context().addCookies([{ name: 'shoal_operator', value: forged, domain, path: '/' }]);
  await page.goto(`${server.url}/operator`);
  await page.getByLabel('Operator token').fill('guessed');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByText('Refused: this is not the token that the server printed last.').waitFor();
  await expectAccessible(page, 'Login');
});
