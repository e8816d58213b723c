/**
 * Firefox without a window, driven by puppeteer-core over WebDriver BiDi (Playwright drives only a Firefox of its own). No
 * text is evaluated in the page as Puppeteer's own waits do, which the page's policy forbids: it is asked from here.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { messageOf } from '../files/errorWords.ts';
import type { Log } from '../monitoring/log.ts';
import { descendantWithWorker, endWithUs, isRunning } from './donorProcesses.ts';
import { type DonorTab, POLL_MS } from './donorTab.ts';
import { findFirefox, noFirefox } from './findBrowser.mjs';

const PREFERENCES = {
  'dom.webgpu.enabled': true,
  'dom.webgpu.workers.enabled': true,
  // A machine without a GPU is on it.
  'gfx.webgpu.ignore-blocklist': true,
  // Names of donors on one machine need not resolve.
  'media.peerconnection.ice.obfuscate_host_addresses': false,
};

export async function openFirefox(name: string, log: Log): Promise<Result<DonorTab>> {
  const found = findFirefox();
  if (found === null) return refusal(noFirefox());
  // Who opens no Firefox does not wait for its library.
  const { launch } = await import('puppeteer-core');
  const browser = await launch({
    browser: 'firefox',
    executablePath: found.path,
    headless: true,
    extraPrefsFirefox: PREFERENCES,
    acceptInsecureCerts: true, // this very machine's server, whose certificate bears another name
    protocolTimeout: 0,
    handleSIGINT: false,
    handleSIGTERM: false,
    handleSIGHUP: false,
  }).catch((error: unknown) => messageOf(error));
  if (typeof browser === 'string') return refusal(`${found.path} does not start: ${browser.split('\n')[0]}`);
  const page = await browser.newPage();
  page.on('console', (message) => log('debug', `${name}: ${message.type()}: ${message.text()}`));
  page.on('pageerror', (error) => log('warn', `${name}: ${messageOf(error)}`));
  const browserPid = browser.process()?.pid ?? 0;
  endWithUs(browserPid);
  const over = new AbortController();
  const ended = new Promise<string>((resolve) => {
    over.signal.addEventListener('abort', () => resolve(String(over.signal.reason)));
  });
  browser.on('disconnected', () => over.abort('its browser ended'));
  page.on('close', () => over.abort('its tab was closed'));
  return success({
    browserPid,
    ended,
    goto: async (url, timeout) => void (await page.goto(url, { timeout })),
    press: async (button, timeout) => {
      const found = await page.waitForSelector(`::-p-aria([name="${button}"][role="button"])`, { timeout });
      await found?.click();
    },
    evaluate: (work, given) => page.evaluate(work as (given: unknown) => ReturnType<typeof work>, given) as never,
    evaluateInWorker: async (work, given) => {
      while (page.workers().length === 0) await pause(POLL_MS, undefined, { signal: over.signal });
      const worker = page.workers().at(-1);
      return worker?.evaluate(work as (given: unknown) => ReturnType<typeof work>, given) as never;
    },
    waitFor: async (holds, given, timeout) => {
      const limit = AbortSignal.any([over.signal, ...(timeout === 0 ? [] : [AbortSignal.timeout(timeout)])]);
      while (!(await page.evaluate(holds as (given: unknown) => boolean, given))) {
        await pause(POLL_MS, undefined, { signal: limit });
      }
    },
    expose: (called, call) => page.exposeFunction(called, call),
    processes: async () => {
      const renderer = descendantWithWorker(browserPid);
      // A tab whose process is gone is replaced by a page that says so: nothing else is told.
      if (renderer !== null) void ending(renderer, over.signal).then(() => over.abort('its tab crashed'));
      return { renderer, network: null };
    },
    crashGpuProcess: null,
    close: async () => {
      over.abort('its browser was closed');
      const process = browser.process();
      await browser.close().catch(() => process?.kill('SIGKILL'));
    },
  });
}

/** Resolves when this process has ended, or when nobody asks any more. */
async function ending(pid: number, signal: AbortSignal): Promise<void> {
  while (isRunning(pid) && !signal.aborted) await pause(POLL_MS);
}
