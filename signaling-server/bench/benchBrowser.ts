/** The benchmark's page in a headless browser. It has no server: its files are handed to the browser as it asks for them. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { BrowserContext, Page } from 'playwright';
import { failed, need } from '../commands/failure.ts';
import { PAGES_FOLDER } from '../files/projectRoot.ts';
import { launchBrowser } from '../headless/chromium.ts';

/** No socket is behind it, and localhost is where a browser gives WebGPU. */
const BENCH_ORIGIN = 'http://localhost:9';
const CONTENT_TYPES: Readonly<Record<string, string>> = { html: 'text/html', js: 'text/javascript', css: 'text/css' };

/** What the page may fetch besides its own files; null: no such thing. */
type BenchFile = (path: string) => Promise<Buffer | null>;

export async function openBenchPage(context: BrowserContext, file: BenchFile): Promise<Page> {
  const page = await context.newPage();
  await page.route(`${BENCH_ORIGIN}/**`, async (route) => {
    const path = new URL(route.request().url()).pathname.slice(1);
    const body = (await file(path)) ?? (await readFile(join(PAGES_FOLDER, path)).catch(() => null));
    const contentType = CONTENT_TYPES[path.split('.').at(-1) ?? ''] ?? 'application/octet-stream';
    await (body === null ? route.fulfill({ status: 404 }) : route.fulfill({ body, contentType }));
  });
  await page.goto(`${BENCH_ORIGIN}/bench.html`);
  await page.waitForFunction(() => 'shoalBench' in globalThis);
  return page;
}

export async function inBrowser<T>(file: BenchFile, work: (page: Page) => Promise<T>): Promise<T> {
  const { browser, server } = need(await launchBrowser(), failed);
  try {
    return await work(await openBenchPage(await browser.newContext(), file));
  } finally {
    await browser.close().catch(() => {});
    await server.close().catch(() => server.kill());
  }
}
