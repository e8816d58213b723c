/** The donor's limits, as a person and as the command line set them. */
import { expect, test } from 'vitest';
import { type Donor, openDonor, openOperator } from './browser.ts';
import { copyOfRun, goldenFile, type Json, runSwarm, shoal, startServer, withSteps } from './product.ts';

const TINY = goldenFile('gpt2-tiny/run.json');

/** Few weights and many tokens: what lanes exchange is small beside what they compute. */
const NARROW = { model_type: 'gpt2', n_layer: 2, n_head: 4, n_embd: 64, n_positions: 128, vocab_size: 256 };
const MEDIUM = { model_type: 'gpt2', n_layer: 4, n_head: 8, n_embd: 256, n_positions: 128, vocab_size: 512 };
const longTrain = ({ train }: Json): Json => ({
  ...(train as Json),
  ...{ steps: 8, globalBatchSize: 128, sequenceLength: 128 },
});
/** Until the time alone of every kind of work is known. */
const WARM_UP_STEPS = 3;

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

const bench = test.skipIf(process.env.LIMITS_BENCH === undefined);

/** `LIMITS_BENCH=1 npx vitest run --project e2e e2e/limits.spec.ts -t bench`: prints rates; time is asserted nowhere. */
bench('bench: the rate at a share of the time', async () => {
  const server = await startServer(copyOfRun('gpt2-long', withSteps(900)));
  const operator = await openOperator(server);
  const donor = await openDonor(server.url);
  await operator.untilFurther(10);
  const seconds = new Map<number, number[]>();
  for (let round = 0; round < 4; round++)
    for (const percent of [100, 50, 25]) {
      await setSpeed(donor, percent);
      await operator.untilFurther(2);
      const from = (await operator.until(() => true)).committedSteps;
      const begun = performance.now();
      const { committedSteps } = await operator.untilFurther(10);
      const step = (performance.now() - begun) / 1000 / (committedSteps - from);
      seconds.set(percent, [...(seconds.get(percent) ?? []), step]);
    }
  const best = (percent: number): number => Math.min(...(seconds.get(percent) ?? []));
  for (const [percent, all] of seconds) {
    const times = all.map((value) => value.toFixed(3)).join(' ');
    console.log(`${percent} %: ${times} s a step, rate ${(best(100) / best(percent)).toFixed(3)} of full speed`);
  }
});

interface Contest {
  readonly run: string;
  readonly speed: number;
  readonly donors: number;
  readonly stages: number;
}

/** So many donors against one, each with the same share of this machine: two rounds, alternating. */
async function contest({ run, speed, donors, stages }: Contest): Promise<void> {
  const rates = new Map<number, number[]>();
  for (let round = 0; round < 2; round++)
    for (const count of [1, donors]) {
      const specs = Array.from({ length: count }, () => ['--donor', `speed=${speed}`]).flat();
      const { metrics } = await runSwarm(run, ...specs, '--stages', String(Math.min(count, stages)));
      const seconds = metrics.slice(WARM_UP_STEPS).map((line) => line.seconds);
      const median = seconds.toSorted((a, b) => a - b)[Math.floor(seconds.length / 2)] ?? Number.NaN;
      console.log(`${count} donors: ${seconds.map((value) => value.toFixed(2)).join(' ')} s`);
      rates.set(count, [...(rates.get(count) ?? []), (metrics[0]?.tokens ?? 0) / median]);
    }
  const mean = (count: number): number => (rates.get(count) ?? []).reduce((sum, rate) => sum + rate / 2, 0);
  const tokens = JSON.stringify([...rates].map(([count, all]) => [count, all.map(Math.round)]));
  console.log(`tokens/s ${tokens}: ${donors} donors, ${(mean(donors) / mean(1)).toFixed(2)} times one`);
}

/** As above. Lanes: four donors of one stage. */
bench('bench: four lanes against one donor', { timeout: 900_000 }, async () => {
  const run = copyOfRun('gpt2-tiny', (file) => ({
    ...file,
    init: { seed: 1 },
    model: NARROW,
    train: longTrain(file),
  }));
  await contest({ run, speed: 0.18, donors: 4, stages: 1 });
});

/** As above. The m size of the other libraries' benchmark: the bubble of two stages and four micro-batches or more. */
bench('bench: two stages against one donor', { timeout: 900_000 }, async () => {
  const run = copyOfRun('gpt2-tiny', (file) => ({
    ...file,
    init: { seed: 1 },
    model: MEDIUM,
    train: { ...(file.train as Json), steps: 7, globalBatchSize: 16, sequenceLength: 128 },
  }));
  await contest({ run, speed: 0.35, donors: 2, stages: 2 });
});
