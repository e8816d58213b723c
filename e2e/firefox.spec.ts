/**
 * Donors in Firefox, whose WebGPU is not Chromium's: other kernels' texts, another way to wait, another adapter. Where this
 * machine has no Firefox, or it finds no adapter, these are skipped.
 */
import { join } from 'node:path';
import { expect, type TestContext, test } from 'vitest';
import { findFirefox, noFirefox } from '../signaling-server/headless/findBrowser.mjs';
import { openFirefox } from '../signaling-server/headless/firefox.ts';
import { invariant } from '../swarm/base.ts';
import { curveFaults, weightFaults } from './fidelity.ts';
import {
  atTestEnd,
  copyOfRun,
  goldenFile,
  IS_LONG,
  runSwarm,
  startServer,
  temporaryFolder,
  withSteps,
} from './product.ts';
import { expectUnusual } from './unusual.ts';

const PATIENCE_MS = 120_000;
const GOLDEN = goldenFile('gpt2-tiny/run.json');

/** What its pages warn of comes with it. */
async function firefox() {
  const warnings: string[] = [];
  const opened = await openFirefox('a donor', (level, text) => void (level === 'warn' && warnings.push(text)));
  invariant(opened.ok, opened.ok ? '' : opened.reason);
  const tab = opened.value;
  atTestEnd(() => tab.close());
  return { tab, warnings };
}

/** Of a page of ours: WebGPU is for secure addresses alone. */
let found: Promise<string | null> | undefined;
async function lack(): Promise<string | null> {
  if (findFirefox() === null) return noFirefox();
  const { tab } = await firefox();
  const server = await startServer(copyOfRun('gpt2-tiny'));
  await tab.goto(server.url, PATIENCE_MS);
  const hasAdapter = await tab.evaluate(async () => Boolean(await navigator.gpu?.requestAdapter()), null);
  return hasAdapter ? null : 'Firefox finds no adapter: it needs a Vulkan driver, as Mesa 25 has one for the processor';
}

async function needsFirefox({ skip }: TestContext): Promise<void> {
  found ??= lack();
  const reason = await found;
  if (reason !== null) skip(reason);
}

test('a swarm of Firefox and Chromium computes what one trainer in float64 does', async (context) => {
  await needsFirefox(context);
  const folder = join(temporaryFolder(), 'export');
  const donors = ['--donor', 'browser=firefox', '--donor', 'browser=chromium'];
  const { metrics } = await runSwarm(GOLDEN, ...donors, '--export', folder);
  expect(curveFaults('gpt2-tiny', 20, metrics)).toEqual([]);
  expect(weightFaults('gpt2-tiny', folder)).toEqual([]);
  expect(new Set(metrics.map(({ stages }) => stages))).toEqual(new Set([2]));
});

test.runIf(IS_LONG)('Chromium beside Firefox learns dashes by heart, and verse after them', async (context) => {
  await needsFirefox(context);
  await expectUnusual('dashes', '--donor', 'browser=chromium', '--donor', 'browser=firefox');
});

test.runIf(IS_LONG)('Firefox alone, frozen in between: the same curve', async (context) => {
  await needsFirefox(context);
  const options = ['--donors', '1', '--browser', 'firefox', '--steps', '8', '--chaos', 'freeze:0@3+1s'];
  const { metrics } = await runSwarm(GOLDEN, ...options);
  expect(curveFaults('gpt2-tiny', 8, metrics)).toEqual([]);
});

test('the donor page in Firefox: joins, pauses, goes on, leaves, and breaks no rule of its own', async (context) => {
  await needsFirefox(context);
  const server = await startServer(copyOfRun('gpt2-tiny', withSteps(100_000)));
  const { tab, warnings } = await firefox();
  const until = (state: string): Promise<void> =>
    tab.waitFor((wanted) => document.body.dataset.state === wanted, state, PATIENCE_MS);
  await tab.goto(`${server.url}/#speed=1`, PATIENCE_MS);
  await tab.press('Donate this GPU', PATIENCE_MS);
  await until('computing');
  await tab.press('Pause', PATIENCE_MS);
  await until('paused');
  await tab.press('Resume', PATIENCE_MS);
  await until('computing');
  await tab.press('Leave', PATIENCE_MS);
  await until('left');
  expect(warnings).toEqual([]);
});
