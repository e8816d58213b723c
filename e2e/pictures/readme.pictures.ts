/** The README's pictures, of a real run: a visitor, a donor beside another one, the dashboard and its map. */
import { join } from 'node:path';
import type { Page } from 'playwright';
import { test } from 'vitest';
import { openBrowser, openOperator, untilState } from '../browser.ts';
import { tell } from '../dashboardControls.ts';
import { goldenFile, startServer } from '../product.ts';
import { CARD } from './picture.ts';

const FOLDER = join(import.meta.dirname, '..', 'screenshots');
const WINDOW = { width: 700, height: 860 };
const OPERATOR_STEPS = 60;

test('the pictures of the README', async () => {
  const server = await startServer(goldenFile('gpt2-long/run.json'), { schedule: 'gpipe' });
  const operator = await openOperator(server);
  await operator.page.setViewportSize({ width: 1180, height: 1520 });
  await tell(operator.page, 'card', { ...CARD, link: '' });
  const { browser } = await openBrowser();
  const open = async (): Promise<Page> => {
    const page = await (await browser.newContext({ viewport: WINDOW })).newPage();
    await page.goto(server.url);
    return page;
  };
  const take = (page: Page, name: string): Promise<unknown> => page.screenshot({ path: join(FOLDER, `${name}.png`) });
  const [donor, other] = [await open(), await open()];
  for (const page of [donor, other]) {
    // Each measures its GPU alone, and both share one: at full speed no step would come near to the prediction.
    await page.getByRole('button', { name: /^Gentle/ }).click();
    await page.getByRole('button', { name: 'Donate this GPU', exact: true }).click();
    await untilState(page, 'computing');
  }
  await operator.until(({ donors }) => donors.filter(({ state }) => state === 'computing').length === 2);
  await operator.untilFurther(4);
  await donor.getByText('2 donors training').waitFor();
  await take(donor, 'donor');
  // Enough of a curve to see one.
  await operator.until(({ committedSteps }) => committedSteps >= OPERATOR_STEPS);
  await take(operator.page, 'operator');
  const visitor = await open();
  await visitor.getByText(/GPUs are training it/).waitFor();
  // What it writes has typed itself out so far.
  await visitor
    .locator('.writing')
    .filter({ hasText: /after step \d+.*:.{40}/s })
    .waitFor();
  await take(visitor, 'first');
  await operator.page.setViewportSize({ width: 1180, height: 1320 });
  await operator.page.getByRole('link', { name: 'Swarm', exact: true }).click();
  await operator.page.getByText(/more than the|less than the/).waitFor();
  await take(operator.page, 'swarm');
});
