/** Chromium without a window, driven by Playwright: for donors, `shoal doctor` and the benchmarks. */
import { type Browser, type BrowserServer, chromium } from 'playwright';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { messageOf } from '../files/errorWords.ts';
import type { Log } from '../monitoring/log.ts';
import { chromiumProcesses } from './donorProcesses.ts';
import { type DonorTab, POLL_MS } from './donorTab.ts';
import { findBrowser, HEADLESS_SWITCHES, noBrowser, WEBGPU_SWITCHES } from './findBrowser.mjs';

/** How it is started in place of this machine's own browser, and with what beside the switches that all have. */
export interface BrowserProgram {
  readonly path: string;
  readonly switches: readonly string[];
}

/** A headless browser with WebGPU, as the donors use it. */
export async function launchBrowser(
  program?: BrowserProgram,
): Promise<Result<{ readonly server: BrowserServer; readonly browser: Browser }>> {
  const found = program ?? (await findBrowser());
  if (found === null) return refusal(noBrowser());
  try {
    const server = await chromium.launchServer({
      executablePath: found.path,
      headless: true,
      args: [...WEBGPU_SWITCHES, ...HEADLESS_SWITCHES, ...(program?.switches ?? [])],
      handleSIGINT: false,
      handleSIGTERM: false,
      handleSIGHUP: false,
    });
    return success({ server, browser: await chromium.connect(server.wsEndpoint()) });
  } catch (error) {
    return refusal(`${found.path} does not start: ${messageOf(error).split('\n')[0]}`);
  }
}

/** `name`: what the log calls it. */
export async function openChromium(name: string, log: Log, program?: BrowserProgram): Promise<Result<DonorTab>> {
  const launched = await launchBrowser(program);
  if (!launched.ok) return launched;
  const { server, browser } = launched.value;
  // It is sent to this very machine's server, whose certificate bears another name.
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  const page = await context.newPage();
  page.on('console', (message) => log('debug', `${name}: ${message.type()}: ${message.text()}`));
  page.on('pageerror', (error) => log('warn', `${name}: ${error.message}`));
  const ended = new Promise<string>((resolve) => {
    browser.on('disconnected', () => resolve('its browser ended'));
    page.on('crash', () => resolve('its tab crashed'));
    page.on('close', () => resolve('its tab was closed'));
  });
  const session = await browser.newBrowserCDPSession();
  return success({
    browserPid: server.process().pid ?? 0,
    ended,
    goto: async (url, timeout) => void (await page.goto(url, { timeout })),
    press: (button, timeout) => page.getByRole('button', { name: button, exact: true }).click({ timeout }),
    evaluate: (work, given) => page.evaluate(work as (given: unknown) => ReturnType<typeof work>, given),
    evaluateInWorker: async (work, given) => {
      const worker = page.workers().at(-1) ?? (await page.waitForEvent('worker'));
      return worker.evaluate(work as (given: unknown) => ReturnType<typeof work>, given);
    },
    waitFor: async (holds, given, timeout) =>
      void (await page.waitForFunction(holds as (given: unknown) => boolean, given, { timeout, polling: POLL_MS })),
    expose: async (called, call) => void (await page.exposeFunction(called, call)),
    processes: () => chromiumProcesses(session),
    crashGpuProcess: () => void session.send('Browser.crashGpuProcess').catch(() => {}), // it may take its time to answer
    close: async () => {
      await browser.close().catch(() => {}); // it may be gone already
      await server.close().catch(() => server.kill());
    },
  });
}
