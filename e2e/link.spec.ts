/** The contract of `Link` on real data channels, and on ports to them: simple-peer in the browser's page, both ends in one tab. */
import { type Browser, chromium, type Page } from 'playwright';
import { build, type Rolldown } from 'vite';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { LINK_CONTRACT } from '../web/src/testing/linkContract.ts';
import { launchOptions } from './browser.ts';

const ENTRY = 'web/src/testing/linkContractPage.ts';
const ORIGIN = 'http://localhost';

async function bundle(): Promise<string> {
  const output = (await build({
    configFile: 'web/vite.config.ts',
    logLevel: 'error',
    build: { write: false, rolldownOptions: { input: ENTRY } },
  })) as Rolldown.RolldownOutput;
  return output.output.flatMap((file) => (file.type === 'chunk' ? [file.code] : [])).join('\n');
}

describe('Link', () => {
  let browser: Browser;
  let page: Page;

  beforeAll(async () => {
    const code = await bundle();
    browser = await chromium.launch(await launchOptions());
    page = await browser.newPage();
    await page.route(`${ORIGIN}/**`, (route) =>
      route.request().url().endsWith('/page.js')
        ? route.fulfill({ contentType: 'text/javascript', body: code })
        : route.fulfill({ contentType: 'text/html', body: '<script type="module" src="/page.js"></script>' }),
    );
    await page.goto(ORIGIN);
    await page.waitForFunction(() => 'runLinkCase' in window);
  });

  afterAll(async () => {
    await browser?.close();
  });

  for (const by of ['channels', 'ports'] as const) {
    for (const { title } of LINK_CONTRACT) {
      test(`${title} (by ${by})`, async () => {
        await page.evaluate(([name, way]) => window.runLinkCase(name, way), [title, by] as const);
      });
    }
  }
});
