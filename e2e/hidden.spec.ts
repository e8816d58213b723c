/** Nothing hangs on a page's timer: a donor in a hidden tab is admitted, trains, is paused and leaves as any other. */
import type { Page } from 'playwright';
import { expect, test } from 'vitest';
import { openDonor, openOperator, untilState } from './browser.ts';
import { openHidableDonor } from './hiddenTab.ts';
import { copyOfRun, startServer, withSteps } from './product.ts';

const visibility = 'document.visibilityState';

test('two donors train, the tab of one of them hidden; directly connected they send no tensor frame through the server', async () => {
  const server = await startServer(copyOfRun('gpt2-long', withSteps(1_000)), { schedule: 'gpipe' });
  const operator = await openOperator(server);
  let binaryMessages = 0;
  const watch = ({ payload }: { payload: string | Buffer }): void => {
    if (typeof payload !== 'string') binaryMessages += 1;
  };
  const prepare = (page: Page): void => {
    page.on('websocket', (socket) => socket.on('framesent', watch).on('framereceived', watch));
  };
  const { page, hide } = await openHidableDonor(server.url, prepare);
  await hide();
  const visible = await openDonor(server.url, { prepare });
  const { links } = await operator.until((now) => now.links?.length === 2);
  expect(links?.map(({ route }) => route)).toEqual(['direct', 'direct']);
  await operator.untilFurther(8);
  expect(await page.evaluate(visibility)).toBe('hidden');
  await operator.page.getByRole('link', { name: 'Swarm' }).click();
  await operator.page.getByRole('region', { name: 'Links' }).getByText('direct').first().waitFor();
  await visible.press('Leave');
  await visible.until('left');
  await operator.untilFurther(3);
  expect(await page.evaluate(visibility)).toBe('hidden');
  expect(binaryMessages).toBe(0);
});

test('a tab that its browser freezes leaves at once, and comes back by itself', async () => {
  const server = await startServer(copyOfRun('gpt2-long', withSteps(1_000)), { schedule: 'gpipe' });
  const operator = await openOperator(server);
  const { page, hide } = await openHidableDonor(server.url);
  await hide();
  await untilState(page, 'computing');
  const before = await page.locator('body').getAttribute('data-peer');
  const session = await page.context().newCDPSession(page);
  // Its worker goes on all the same, heartbeats too: only the page's own word ends it.
  await session.send('Page.setWebLifecycleState', { state: 'frozen' });
  await operator.until(({ donors }) => donors.every(({ peer }) => peer !== before));
  await session.send('Page.setWebLifecycleState', { state: 'active' });
  await untilState(page, 'computing');
  await operator.untilFurther(2);
});

/** `HIDDEN_BENCH=1 npx vitest run --project e2e e2e/hidden.spec.ts`: prints the figure; time is asserted nowhere. */
test.skipIf(process.env.HIDDEN_BENCH === undefined)('bench: a step visible, then hidden', async () => {
  const server = await startServer(copyOfRun('gpt2-long', withSteps(600)));
  const operator = await openOperator(server);
  const donor = await openHidableDonor(server.url);
  const secondsPerStep = async (): Promise<number> => {
    const { committedSteps: from } = await operator.untilFurther(5);
    const begun = performance.now();
    const { committedSteps } = await operator.untilFurther(25);
    return (performance.now() - begun) / 1000 / (committedSteps - from);
  };
  const visible = await secondsPerStep();
  await donor.hide();
  const hidden = await secondsPerStep();
  console.log(
    `hidden ${hidden.toFixed(3)} s, visible ${visible.toFixed(3)} s a step: ${(hidden / visible).toFixed(3)}`,
  );
});
