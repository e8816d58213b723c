/** Nothing hangs on a page's timer: a donor in a hidden tab is admitted, trains, is paused and leaves as any other. */
import { expect, test } from 'vitest';
import { openDonor, openOperator } from './browser.ts';
import { openHidableDonor } from './hiddenTab.ts';
import { copyOfRun, startServer, withSteps } from './product.ts';

const visibility = 'document.visibilityState';

test('[AD4] two donors train while the tab of one of them is hidden', async () => {
  const server = await startServer(copyOfRun('gpt2-long', withSteps(150)));
  const operator = await openOperator(server);
  const { page, hide, show } = await openHidableDonor(server.url);
  await hide();
  const visible = await openDonor(server.url);
  await operator.until(({ donors }) => donors.filter(({ state }) => state === 'computing').length === 2);
  await operator.untilFurther(8);
  expect(await page.evaluate(visibility)).toBe('hidden');
  await visible.press('Leave');
  await visible.until('left');
  await operator.untilFurther(3);
  expect(await page.evaluate(visibility)).toBe('hidden');
  await show();
  await operator.untilFurther(1);
});

/** `HIDDEN_BENCH=1 npx vitest run --project e2e e2e/hidden.spec.ts`: prints the figure; time is asserted nowhere. */
test.skipIf(process.env.HIDDEN_BENCH === undefined)('bench: a step hidden and visible, in turn', async () => {
  const server = await startServer(copyOfRun('gpt2-long', withSteps(600)));
  const operator = await openOperator(server);
  const donor = await openHidableDonor(server.url);
  await operator.untilFurther(10);
  const seconds: Record<'hidden' | 'visible', number[]> = { hidden: [], visible: [] };
  for (let round = 0; round < 8; round++) {
    const state = round % 2 === 0 ? 'hidden' : 'visible';
    await (state === 'hidden' ? donor.hide() : donor.show());
    await operator.untilFurther(1);
    const begun = performance.now();
    const from = (await operator.until(() => true)).committedSteps;
    const { committedSteps } = await operator.untilFurther(8);
    seconds[state].push((performance.now() - begun) / 1000 / (committedSteps - from));
  }
  const median = (values: number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
  const [hidden, visible] = [median(seconds.hidden), median(seconds.visible)];
  console.log(
    `hidden ${hidden.toFixed(3)} s, visible ${visible.toFixed(3)} s a step: ${(hidden / visible).toFixed(3)}`,
  );
});
