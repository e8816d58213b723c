/** Nothing hangs on a page's timer: a donor in a hidden tab is admitted, trains, is paused and leaves as any other. */
import { expect, test } from 'vitest';
import { openDonor, openOperator } from './browser.ts';
import { openHidableDonor } from './hiddenTab.ts';
import { copyOfRun, startServer, withSteps } from './product.ts';

const visibility = 'document.visibilityState';

test('[AD4] two donors train while the tab of one of them is hidden', async () => {
  const server = await startServer(copyOfRun('gpt2-long', withSteps(150)));
  const operator = await openOperator(server);
  const { page, hide } = await openHidableDonor(server.url);
  await hide();
  const visible = await openDonor(server.url);
  await operator.until(({ donors }) => donors.filter(({ state }) => state === 'computing').length === 2);
  await operator.untilFurther(8);
  expect(await page.evaluate(visibility)).toBe('hidden');
  await visible.press('Leave');
  await visible.until('left');
  await operator.untilFurther(3);
  expect(await page.evaluate(visibility)).toBe('hidden');
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
