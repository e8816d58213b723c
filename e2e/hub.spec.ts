/** A checkpoint on its way to the Hub: what leaves the dashboard, when, and to whom. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { BrowserContext } from 'playwright';
import { expect, test } from 'vitest';
import { HubStandIn } from '../signaling-server/testing/hubStandIn.ts';
import { openBrowser } from './browser.ts';
import { go } from './dashboardControls.ts';
import { complaintsOf, expectAccessible } from './pageChecks.ts';
import { atTestEnd, goldenFile, startServer } from './product.ts';

const REPOSITORY = 'fisher/whales';
const PUSH = 'Open a pull request';
const SIGN_IN = ['GET /.well-known/openid-configuration', 'GET /oauth/authorize'];

/** All that its pages send, windows that they open among them: addresses, heads and bodies, by origin. */
function sentBy(context: BrowserContext): Map<string, string[]> {
  const sent = new Map<string, string[]>();
  context.on('request', (request) => {
    const { origin } = new URL(request.url());
    const words = [request.url(), JSON.stringify(request.headers()), request.postData() ?? ''].join('\n');
    sent.set(origin, [...(sent.get(origin) ?? []), words]);
  });
  return sent;
}

test('a press opens a pull request with the adapter’s folder; before it nothing goes to the Hub, and the token goes nowhere else', async () => {
  const hub = await HubStandIn.open({ repositories: [REPOSITORY] });
  atTestEnd(() => hub.close());
  const server = await startServer(goldenFile('lora-tiny/run.json'), { hub: { url: hub.url, clientId: 'shoal' } });
  hub.application = { clientId: 'shoal', redirectUrl: `${server.url}/operator` };
  const { context } = await openBrowser({ webGpu: false });
  const sent = sentBy(context);
  const page = await context.newPage();
  const complaints = await complaintsOf(page);
  await page.goto(server.operatorUrl);
  await go(page, 'Runs');
  await page.locator('summary', { hasText: 'Checkpoints of lora-tiny' }).click();
  await page.getByRole('button', { name: 'Push to the Hub checkpoint 0 of lora-tiny' }).click();
  const form = page.getByRole('form', { name: 'Push lora-tiny after 0 steps to the Hub' });
  await form.getByRole('cell', { name: 'adapter_model.safetensors' }).waitFor();
  await form.getByText('What its README.md says').click();
  await form.getByText('- Licence: not said by who trained it').waitFor();
  await expectAccessible(page, 'the form');
  await form.getByLabel(/^Model repository at localhost:/).fill(REPOSITORY);
  expect(await form.getByRole('button', { name: PUSH }).isDisabled()).toBe(true);
  expect(hub.calls).toEqual([]);
  expect([...sent.keys()]).toEqual([server.url]);

  const opened = page.waitForEvent('popup');
  await form.getByRole('button', { name: /^Sign in at localhost:/ }).click();
  const agree = (await opened).getByRole('link', { name: 'Authorize' });
  await agree.waitFor();
  // The window closes itself, maybe before it is known that the press was done.
  await agree.click({ noWaitAfter: true }).catch(() => {});
  await form.getByText('Signed in as fisher.').waitFor();
  expect(hub.calls).toEqual([...SIGN_IN, SIGN_IN[0], 'POST /oauth/token', 'GET /oauth/userinfo']);

  await form.getByRole('button', { name: PUSH }).click();
  const link = form.getByRole('link', { name: `${hub.url}/${REPOSITORY}/discussions/1` });
  await link.waitFor();
  const [request] = hub.pullRequests.get(REPOSITORY) ?? [];
  expect(request?.scope).toBe('openid profile read-repos write-discussions');
  expect([...(request?.files.keys() ?? [])].toSorted()).toEqual([
    'README.md',
    'adapter_config.json',
    'adapter_model.safetensors',
    'tokenizer.json',
    'tokenizer_config.json',
  ]);
  const archive = await context.request.get(`${server.url}/api/operator/export?run=lora-tiny&step=0`);
  const tar = await archive.body();
  for (const [path, bytes] of request?.files ?? []) expect(tar.includes(bytes), path).toBe(true);
  expect(hub.faults).toEqual([]);

  // The token is the Hub's and this form's.
  const [token = ''] = hub.tokens.keys();
  expect(sent.get(hub.url)?.some((words) => words.includes(token))).toBe(true);
  expect(sent.get(server.url)?.filter((words) => words.includes(token))).toEqual([]);
  expect([...sent.keys()].toSorted()).toEqual([hub.url, server.url].toSorted());
  const kept = await page.evaluate(async () =>
    JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, await indexedDB.databases()]),
  );
  expect(kept).not.toMatch(/hf_oauth_|code_verifier/);
  const files = readdirSync(server.dataDirectory, { recursive: true }).map((name) =>
    join(server.dataDirectory, String(name)),
  );
  for (const path of files) if (statSync(path).isFile()) expect(readFileSync(path).includes(token), path).toBe(false);
  expect(complaints.filter((words) => /policy/i.test(words))).toEqual([]);

  hub.tokens.clear();
  await form.getByRole('button', { name: PUSH }).click();
  await form.getByText('The Hub does not know this token: it is wrong, or it has expired.').waitFor();
  await link.waitFor({ state: 'detached' });
  await form.getByRole('checkbox', { name: /^The whole model/ }).check();
  await form.getByRole('cell', { name: 'model.safetensors', exact: true }).waitFor();
});
