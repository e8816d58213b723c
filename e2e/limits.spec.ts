/** The donor's limits, as a person and as the command line set them. */
import { expect, test } from 'vitest';
import { type Donor, openDonor, openOperator } from './browser.ts';
import { copyOfRun, goldenFile, runSwarm, shoal, startServer, withSteps } from './product.ts';

const TINY = goldenFile('gpt2-tiny/run.json');

async function setSpeed({ page }: Donor, percent: number): Promise<void> {
  const form = page.locator('details.limits');
  if ((await form.getAttribute('open')) === null) await form.locator('summary').click();
  await page.getByLabel('GPU time').fill(String(percent));
  await page.locator('output', { hasText: `${percent} %` }).waitFor();
}

test('[LI3] [LI4] memory caps shape the plan; what does not fit ends with the memory that is missing', async () => {
  const small = ['--donor', 'memory=4MiB,speed=0.9', '--donor', 'memory=64MiB,upload=4MB/s', '--steps', '2'];
  const { metrics } = await runSwarm(TINY, ...small);
  expect(metrics.map(({ donors }) => donors)).toEqual([2, 2]);
  const uneven = await shoal('swarm', TINY, '--donor', 'memory=64MiB', '--donor', 'memory=1MiB', '--steps', '2');
  expect(uneven.code).toBe(1);
  expect(uneven.stderr).toMatch(
    /does not fit these donors: about [\d.]+ \w+ of memory is missing\. donor 1 gives 1.0 MiB/,
  );
  const faulty = await shoal('swarm', TINY, '--donor', 'memory=1MiB', '--chaos', 'kill:0@1,join@2');
  expect(faulty.code).toBe(1);
  expect(faulty.stderr).toMatch(
    /does not fit these donors: about [\d.]+ \w+ of memory is missing\. donor 0 gives 1.0 MiB/,
  );
});

test('[LI1] the share of GPU time is changed while the donor computes', async () => {
  const server = await startServer(copyOfRun('gpt2-long', withSteps(150)));
  const operator = await openOperator(server);
  const donor = await openDonor(server.url);
  await operator.untilFurther(2);
  await setSpeed(donor, 25);
  await operator.untilFurther(2);
  await setSpeed(donor, 100);
  await operator.untilFurther(2);
});
