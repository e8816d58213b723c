/**
 * A donor in a tab that is really hidden. Playwright's own launch keeps every tab visible (focus emulation, background
 * throttling switched off), so the browser is started by hand and spoken to over its debugging port without those
 * defaults; a second tab brought to the front then hides the first, throttled as a person's would be.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { type Browser, chromium, type Page } from 'playwright';
import { expect } from 'vitest';
import { WEBGPU_SWITCHES } from '../signaling-server/headless/findBrowser.mjs';
import { launchOptions } from './browser.ts';
import { atTestEnd, temporaryFolder } from './product.ts';

interface HidableDonor {
  readonly page: Page;
  /** Opens another tab, in front. */
  hide(): Promise<void>;
}

async function launchByHand(): Promise<Browser> {
  const { executablePath, args } = await launchOptions(WEBGPU_SWITCHES);
  const child = spawn(
    executablePath,
    [...args, '--headless', '--remote-debugging-port=0', `--user-data-dir=${temporaryFolder()}`],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  atTestEnd(() => ended(child));
  const address = await new Promise<string>((resolve, reject) => {
    let said = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said += text;
      const found = /DevTools listening on (ws:\S+)/.exec(said)?.[1];
      if (found) resolve(found);
    });
    child.on('close', () => reject(new Error(`the browser ended: ${said}`)));
  });
  const browser = await chromium.connectOverCDP(address, { noDefaults: true });
  atTestEnd(() => browser.close());
  return browser;
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const closed = new Promise((resolve) => child.on('close', resolve));
  child.kill('SIGKILL');
  await closed;
}

/** A donor that is admitted, in a tab that can be hidden. `prepare` is called before the page loads anything. */
export async function openHidableDonor(url: string, prepare: (page: Page) => void = () => {}): Promise<HidableDonor> {
  const [context] = (await launchByHand()).contexts();
  if (!context) throw new Error('the browser has no context');
  const page = await context.newPage();
  prepare(page);
  await page.goto(url);
  await page.getByRole('button', { name: 'Donate this GPU', exact: true }).click();
  await page.locator('body:not([data-state="idle"]):not([data-state="starting"])').waitFor({ state: 'attached' });
  return {
    page,
    hide: async () => {
      await context.newPage();
      // Asked from here: a hidden page's own polling may be late.
      await expect.poll(() => page.evaluate('document.visibilityState'), { timeout: 30_000 }).toBe('hidden');
    },
  };
}
