/** The first screen of the donor's page, with as long words as an operator may write: read at a glance, and still. */
import type { Browser, Page } from 'playwright';
import { expect, test } from 'vitest';
import { openBrowser, openDonor, openOperator, untilState } from './browser.ts';
import { blockAddress, tell } from './dashboardControls.ts';
import { expectAccessible } from './pageChecks.ts';
import { copyOfRun, type Json, startServer, withSteps } from './product.ts';

const WINDOWS = [
  { width: 390, height: 844 },
  { width: 1280, height: 720 },
  { width: 1180, height: 900 },
  { width: 1280, height: 860 },
  { width: 1280, height: 880 },
];
/** Five windows beside a donor that trains, on a busy machine. */
const BUSY_MS = 600_000;
const words = (length: number): string => 'Whales and what is written of them. '.repeat(20).slice(0, length);
const CARD = {
  purpose: words(600),
  by: words(100),
  text: words(200),
  licence: words(100),
  link: 'https://example.org/',
};

const savedOften = (run: Json): Json => ({
  ...withSteps(4_000)(run),
  state: { replicas: 0 },
  checkpoint: { ...(run.checkpoint as Json), everySteps: 5 },
});

const bottomOf = (page: Page, text: RegExp): Promise<number> =>
  page.getByText(text).evaluate((element) => element.getBoundingClientRect().bottom);

/** Whether the window's edge cuts a line of what the model writes. */
const cutLine = (page: Page): Promise<boolean> =>
  page.locator('.writing blockquote').evaluate((box) => {
    const { top, bottom } = box.getBoundingClientRect();
    const [before, behind] = [getComputedStyle(box).paddingTop, getComputedStyle(box).paddingBottom];
    const [first, last] = [top + Number.parseFloat(before), bottom - Number.parseFloat(behind)];
    const seen = (innerHeight - first) / Number.parseFloat(getComputedStyle(box).lineHeight);
    return innerHeight > first && innerHeight < last - 1 && Math.abs(seen - Math.round(seen)) > 0.05;
  });

/** From the first thing that is drawn on. */
async function openWatched(
  browser: Browser,
  url: string,
  viewport: (typeof WINDOWS)[number],
  hasGpu = true,
): Promise<Page> {
  const context = await browser.newContext();
  context.setDefaultTimeout(BUSY_MS);
  const page = await context.newPage();
  if (!hasGpu) await page.addInitScript(() => Reflect.deleteProperty(Navigator.prototype, 'gpu'));
  await page.setViewportSize(viewport);
  await page.addInitScript(() => {
    const moved: unknown[] = [];
    Object.assign(globalThis, { moved });
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries() as (PerformanceEntry & { value: number; sources: { node: Node }[] })[])
        if (entry.value > 0.001)
          moved.push([entry.value, ...entry.sources.map(({ node }) => node?.textContent?.slice(0, 50))]);
    }).observe({ type: 'layout-shift', buffered: true });
  });
  await page.goto(url);
  return page;
}

test(
  'with the longest words and a sample it says what it costs and how to stop above the fold, and nothing moves',
  async () => {
    const server = await startServer(copyOfRun('gpt2-long', savedOften), { schedule: 'gpipe' });
    const operator = await openOperator(server);
    await tell(operator.page, 'card', CARD);
    await openDonor(server.url);
    await operator.untilFurther(12);
    const { browser } = await openBrowser();
    for (const viewport of WINDOWS) {
      const page = await openWatched(browser, server.url, viewport);
      await page.locator('.writing strong').waitFor();
      await page.getByText(/is training it right now/).waitFor();
      expect(await bottomOf(page, /^It costs you electricity/), `${viewport.width}`).toBeLessThanOrEqual(
        viewport.height,
      );
      expect(await page.evaluate(() => (globalThis as unknown as { moved: unknown }).moved)).toEqual([]);
      expect(await cutLine(page), `${viewport.width}×${viewport.height}`).toBe(false);
      expect(
        await page.evaluate(() => performance.getEntriesByName(new URL('/api/run', location.href).href).length),
      ).toBe(1);
      await page.getByRole('button', { name: 'More about this run' }).click();
      await page.getByText(`Text: ${CARD.text}`).waitFor();
      if (viewport === WINDOWS[0]) await expectAccessible(page); // at widths of its own
      await page.getByRole('button', { name: 'Less about this run' }).click();
      await page.context().close();
    }
  },
  BUSY_MS,
);

test('the button is on the first screen of a page at twice its size, and of a small phone, no word is cut; without WebGPU the reason is in sight in every window', async () => {
  const server = await startServer(copyOfRun('gpt2-long'));
  const operator = await openOperator(server);
  const { browser } = await openBrowser();
  await tell(operator.page, 'card', { ...CARD, by: 'the readers of whales' });
  for (const viewport of [
    { width: 640, height: 400 },
    { width: 360, height: 640 },
  ]) {
    const page = await openWatched(browser, server.url, viewport);
    await page.getByText(/^Whales .* Whales…$/).waitFor();
    const button = page.getByRole('button', { name: 'Donate this GPU' });
    const bottom = await button.evaluate((element) => element.getBoundingClientRect().bottom);
    expect(bottom, `${viewport.width}`).toBeLessThanOrEqual(viewport.height);
    await page.context().close();
  }
  await tell(operator.page, 'card', CARD);
  for (const viewport of WINDOWS) {
    const page = await openWatched(browser, server.url, viewport, false);
    await page.getByRole('button', { name: 'More about this run' }).waitFor();
    const reason = /^This browser has no WebGPU\./;
    expect(await bottomOf(page, reason), `${viewport.width}`).toBeLessThanOrEqual(viewport.height);
    expect(await page.evaluate(() => (globalThis as unknown as { moved: unknown }).moved)).toEqual([]);
    await page.context().close();
  }
});

test('whoever is blocked reads so, with the button off, also on the next visit; let in again it may donate', async () => {
  const server = await startServer(copyOfRun('gpt2-long', withSteps(4_000)));
  const operator = await openOperator(server);
  const donor = await openDonor(server.url);
  await donor.until('computing');
  await blockAddress(operator.page);
  await donor.until('failed');
  const { page } = donor;
  const donate = page.getByRole('button', { name: 'Donate this GPU' });
  const said = page.getByText('has blocked this network address');
  await said.waitFor();
  await expect.poll(() => donate.isDisabled()).toBe(true);
  const visit = await page.context().newPage();
  await visit.goto(server.url);
  await visit.getByText('has blocked this network address').waitFor();
  expect(await visit.getByRole('button', { name: 'Donate this GPU' }).isDisabled()).toBe(true);
  await expectAccessible(visit);
  await visit.close();
  await operator.page.getByRole('button', { name: 'Let in again' }).click();
  await said.waitFor({ state: 'detached' });
  await donate.click();
  await untilState(page, 'computing');
});
