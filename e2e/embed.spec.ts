/** A run on other people's sites, and its donors as fish: what moves, and for whom nothing does. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Page } from 'playwright';
import { expect, test } from 'vitest';
import { openBrowser, openDonor, openOperator } from './browser.ts';
import { expectAccessible } from './pageChecks.ts';
import { atTestEnd, copyOfRun, startServer, withSteps } from './product.ts';

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

test('[OP52] [DO11] a run is framed by the site that is named and by no other; a donor is a fish, which moves with steps unless no motion is wanted', async () => {
  let embed = '';
  const [named, other] = [await siteWith(() => embed), await siteWith(() => embed)];
  const server = await startServer(copyOfRun('gpt2-long', withSteps(400)), { embedOn: named });
  embed = `${server.url}/embed`;
  const operator = await openOperator(server);
  const still = await openDonor(server.url, { prepare: (page) => void page.emulateMedia({ reducedMotion: 'reduce' }) });
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
});
