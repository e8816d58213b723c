// node e2e/screenshots.mjs: the README's pictures, from a real run: a server, donors' tabs and the operator's page.
// Needs a built checkout (npm run build) and a browser (npm run -s shoal -- doctor).
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright';
import { findBrowser, HEADLESS_SWITCHES, WEBGPU_SWITCHES } from '../signaling-server/headless/findBrowser.mjs';

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const OPERATOR_STEPS = 60;
const folder = mkdtempSync(join(tmpdir(), 'shoal-picture-'));
const server = spawn(process.execPath, [
  here('../dist/server/cli.js'),
  'serve',
  here('golden/gpt2-long/run.json'),
  ...['--data-dir', folder, '--port', '0', '--schedule', 'gpipe'],
]);
const { donorUrl, operatorUrl } = await new Promise((resolve) => {
  let text = '';
  server.stdout.on('data', (bytes) => {
    text += bytes;
    const donor = /donor page:\s+(\S+)/.exec(text);
    const operator = /dashboard:\s+(\S+)/.exec(text);
    if (donor && operator) resolve({ donorUrl: donor[1], operatorUrl: operator[1] });
  });
});
const browser = await chromium.launch({
  executablePath: (await findBrowser())?.path,
  args: [...WEBGPU_SWITCHES, ...HEADLESS_SWITCHES],
});
try {
  const open = async (url, viewport = { width: 700, height: 860 }) => {
    const page = await (await browser.newContext({ viewport })).newPage();
    await page.goto(url);
    return page;
  };
  const donors = [await open(donorUrl), await open(donorUrl)];
  const operator = await open(operatorUrl, { width: 1180, height: 1120 });
  await operator.locator('#run-name').waitFor();
  // What an operator would say of it.
  await operator.evaluate(() => {
    const card = {
      purpose: 'A small model that learns to write like a book from 1851, trained by whoever lends a GPU for a while.',
      ...{ text: 'Moby Dick, by Herman Melville', licence: 'Apache-2.0', link: '' },
    };
    const headers = { 'content-type': 'application/json' };
    return fetch('/api/operator/card', { method: 'POST', headers, body: JSON.stringify(card) });
  });
  for (const donor of donors) {
    await donor.getByRole('button', { name: 'Donate this GPU', exact: true }).click();
    await donor.waitForFunction(() => document.body.dataset.state === 'computing', undefined, { timeout: 120_000 });
  }
  await operator.waitForFunction(() => Number(document.body.dataset.donors) >= 2, undefined, {
    timeout: 60_000,
  });
  await donors[0].waitForFunction(() => /1 of 2|2 of 2/.test(document.body.textContent ?? ''), undefined, {
    timeout: 60_000,
  });
  await donors[0].screenshot({ path: here('screenshots/donor.png') });
  const visitor = await open(donorUrl);
  await visitor.getByText(/GPUs are training it/).waitFor();
  await visitor.screenshot({ path: here('screenshots/first.png') });
  // Enough of a curve to see one.
  await operator.waitForFunction(
    (steps) => Number(document.querySelector('progress')?.value) >= steps,
    OPERATOR_STEPS,
    { timeout: 180_000 },
  );
  await operator.screenshot({ path: here('screenshots/operator.png') });
  await operator.setViewportSize({ width: 1180, height: 1320 });
  await operator.getByRole('link', { name: 'Swarm', exact: true }).click();
  await operator.getByText(/more than the|less than the/).waitFor();
  await operator.screenshot({ path: here('screenshots/swarm.png') });
} finally {
  await browser.close();
  server.kill('SIGTERM');
  await new Promise((resolve) => server.on('exit', resolve));
  rmSync(folder, { recursive: true, force: true });
}
