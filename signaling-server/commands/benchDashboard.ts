/**
 * `shoal bench dashboard`: the operator's page in a headless browser, fed with a run of 256 donors four times a second
 * while it goes from part to part. What is looked at: does its memory stay flat, does a redraw ever hold the page up,
 * does anything move that nobody touched. The feed is the simulator's (dashboardFeed.ts): no donor takes part.
 */
import type { Command } from 'commander';
import Fastify, { type FastifyInstance } from 'fastify';
import type { CDPSession, Page } from 'playwright';
import { WebSocketServer } from 'ws';
import { z } from 'zod';
import { launchBrowser } from '../headless/headless.ts';
import { PAGES_FOLDER } from '../headless/projectRoot.ts';
import { addPages } from '../pages.ts';
import { DashboardFeed } from './dashboardFeed.ts';
import { failed, need } from './failure.ts';
import { wholeNumber } from './options.ts';

/** As often as a server tells a dashboard (operatorApi.ts). */
const MESSAGE_MS = 250;
const PARTS = ['Run', 'Swarm', 'Peers', 'Runs', 'Samples', 'History'] as const;
/** Every part is looked at this often. */
const LEAST_ROUNDS = 2;
const ROUND_SECONDS = 60;
const WINDOW = { width: 1440, height: 900 };

const watchedSchema = z.object({
  redraws: z.number(),
  longTasksMs: z.array(z.number()),
  shift: z.number(),
  shifted: z.array(z.string()),
});
type Watched = z.infer<typeof watchedSchema>;

export interface DashboardBench {
  readonly donors: number;
  readonly seconds: number;
  readonly messages: number;
  readonly redrawsPerSecond: number;
  /** Tasks of the page's thread of more than 50 ms, the longest one, and how many there were for each redraw. */
  readonly longTasks: number;
  readonly longestTaskMs: number;
  readonly longTasksPerRedraw: number;
  /** Of each part, the longest task. */
  readonly longestMsOf: Readonly<Record<string, number>>;
  /** Of one core. */
  readonly busyShare: number;
  /** The browser's own score, by part, of what moved although nobody touched anything; and what it was. */
  readonly layoutShift: Readonly<Record<string, number>>;
  readonly shifted: readonly string[];
  /** After a collection of garbage, at the end of each round of the parts. */
  readonly heapBytes: readonly number[];
  readonly nodes: readonly number[];
  readonly faults: readonly string[];
}

interface Options {
  readonly seconds: number;
  readonly donors: number;
  readonly json?: boolean;
}

export function addDashboardBench(bench: Command): void {
  bench
    .command('dashboard')
    .description('the operator’s page, fed with a simulated run of many donors: memory, long tasks, what moves')
    .option('--seconds <n>', 'how long', wholeNumber('--seconds', 6), 600)
    .option('--donors <n>', 'donors of the run', wholeNumber('--donors', 32, 512), 256)
    .option('--json', 'one JSON document on standard output')
    .action(async ({ seconds, donors, json }: Options) => {
      const result = await benchDashboard(donors, seconds);
      if (json) console.log(JSON.stringify(result));
      else print(result);
    });
}

async function benchDashboard(donors: number, seconds: number): Promise<DashboardBench> {
  const feed = new DashboardFeed(donors);
  const app = await feedServer(feed);
  const { browser, server } = need(await launchBrowser(), failed);
  try {
    const page = await browser.newPage({ viewport: WINDOW });
    const faults: string[] = [];
    page.on('pageerror', ({ message }) => faults.push(message));
    await page.addInitScript(watchPage);
    await page.goto(`${await app.listen({ port: 0, host: 'localhost' })}/operator`);
    await page.locator('#run-name').waitFor();
    const session = await page.context().newCDPSession(page);
    await session.send('Performance.enable');
    const driven = await drive(page, session, seconds);
    if ((await page.locator('#page img').count()) > 0) faults.push('a name became markup');
    return { donors, ...driven, faults };
  } finally {
    await browser.close().catch(() => {});
    await server.close().catch(() => server.kill());
    await app.close();
  }
}

/** What the page asks of a server, and nothing that changes anything. */
async function feedServer(feed: DashboardFeed): Promise<FastifyInstance> {
  const app = Fastify({ logger: false, forceCloseConnections: true });
  await addPages(app, PAGES_FOLDER);
  const first = feed.next();
  app.get('/api/snapshot', () => first);
  app.get('/api/operator/steps', () => ({ steps: feed.older(first.recent[0]?.step ?? 0), evaluations: [] }));
  app.get('/api/operator/timeline', ({ query }) =>
    feed.timeline(z.object({ step: z.coerce.number() }).parse(query).step),
  );
  app.get('/api/operator/runs', () => ({ runs: [], texts: [], canActivate: false }));
  app.get('/api/operator/blocks', () => ({ blocks: [] }));
  app.get('/api/operator/samples', () => ({ samples: [], evaluations: [] }));
  new WebSocketServer({ server: app.server, path: '/api/watch' }).on('connection', (socket) => {
    socket.send(JSON.stringify(first));
    const timer = setInterval(() => socket.send(JSON.stringify(feed.next())), MESSAGE_MS);
    socket.on('close', () => clearInterval(timer));
  });
  return app;
}

/** In the page, before anything of it runs. */
function watchPage(): void {
  const watched = { redraws: 0, longTasksMs: [] as number[], shift: 0, shifted: [] as string[] };
  Object.assign(globalThis, { shoalWatched: watched });
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) watched.longTasksMs.push(duration);
  }).observe({ type: 'longtask' });
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries() as (PerformanceEntry & LayoutShift)[]) {
      if (entry.hadRecentInput) continue;
      watched.shift += entry.value;
      for (const { node } of entry.sources)
        if (watched.shifted.length < 20)
          watched.shifted.push(`${node instanceof Element ? node.outerHTML.slice(0, 80) : (node?.textContent ?? '')}`);
    }
  }).observe({ type: 'layout-shift' });
  // Every message brings another step: its number is written anew with each redraw.
  new MutationObserver((records) => {
    if (records.some(({ target }) => target.parentElement?.closest('.steps-line') != null)) watched.redraws++;
  }).observe(document, { subtree: true, characterData: true });
}

/** As browsers have it, and TypeScript's library does not. */
interface LayoutShift {
  readonly value: number;
  readonly hadRecentInput: boolean;
  readonly sources: readonly { readonly node: Node | null }[];
}

const watchedBy = async (page: Page): Promise<Watched> =>
  watchedSchema.parse(await page.evaluate(() => (globalThis as unknown as { shoalWatched: unknown }).shoalWatched));

async function metric(session: CDPSession, name: string): Promise<number> {
  const { metrics } = await session.send('Performance.getMetrics');
  return metrics.find((each) => each.name === name)?.value ?? Number.NaN;
}

async function drive(
  page: Page,
  session: CDPSession,
  seconds: number,
): Promise<Omit<DashboardBench, 'donors' | 'faults'>> {
  const rounds = Math.max(LEAST_ROUNDS, Math.round(seconds / ROUND_SECONDS));
  const partMs = (seconds * 1_000) / rounds / PARTS.length;
  const heapBytes: number[] = [];
  const longestMsOf: Record<string, number> = {};
  const layoutShift: Record<string, number> = {};
  const nodes: number[] = [];
  // Each part was there once: what is compiled and cached is no news.
  for (const part of PARTS) await show(page, part);
  const before = await watchedBy(page);
  const busy = await metric(session, 'TaskDuration');
  const startMs = performance.now();
  for (let round = 0; round < rounds; round++) {
    for (const part of PARTS) {
      await show(page, part);
      const then = await watchedBy(page);
      await new Promise((resolve) => setTimeout(resolve, partMs));
      const now = await watchedBy(page);
      longestMsOf[part] = Math.max(longestMsOf[part] ?? 0, ...now.longTasksMs.slice(then.longTasksMs.length));
      layoutShift[part] = (layoutShift[part] ?? 0) + now.shift - then.shift;
    }
    await session.send('HeapProfiler.collectGarbage');
    heapBytes.push(await metric(session, 'JSHeapUsedSize'));
    nodes.push(await metric(session, 'Nodes'));
  }
  const took = (performance.now() - startMs) / 1_000;
  const after = await watchedBy(page);
  const redraws = after.redraws - before.redraws;
  const longTasksMs = after.longTasksMs.slice(before.longTasksMs.length);
  return {
    ...{ seconds: took, messages: Math.round((took * 1_000) / MESSAGE_MS), redrawsPerSecond: redraws / took },
    ...{ longTasks: longTasksMs.length, longestTaskMs: Math.max(0, ...longTasksMs) },
    longTasksPerRedraw: longTasksMs.length / redraws,
    longestMsOf,
    busyShare: ((await metric(session, 'TaskDuration')) - busy) / took,
    layoutShift,
    shifted: after.shifted.slice(before.shifted.length),
    ...{ heapBytes, nodes },
  };
}

/** The part is there whole, drawn twice: what comes of a click is no surprise to who clicked. */
async function show(page: Page, part: (typeof PARTS)[number]): Promise<void> {
  await page.getByRole('navigation').getByRole('link', { name: part, exact: true }).click();
  if (part === 'Swarm') await page.locator('.spans').waitFor();
  const { redraws } = await watchedBy(page);
  await page.waitForFunction(
    (least) => (globalThis as unknown as { shoalWatched: { redraws: number } }).shoalWatched.redraws >= least,
    redraws + 2,
  );
}

function print(result: DashboardBench): void {
  const { donors, seconds, redrawsPerSecond, longTasks, longestTaskMs, longTasksPerRedraw, busyShare } = result;
  const megabytes = (bytes: number | undefined): string => `${((bytes ?? 0) / 1e6).toFixed(1)} MB`;
  console.log(`${donors} donors, ${seconds.toFixed(0)} s: ${redrawsPerSecond.toFixed(2)} redraws a second`);
  console.log(
    `${longTasks} tasks of more than 50 ms (${(100 * longTasksPerRedraw).toFixed(1)} for 100 redraws), the longest ${longestTaskMs.toFixed(0)} ms; ${(100 * busyShare).toFixed(0)} % of a core`,
  );
  const parts = Object.entries(result.longestMsOf).filter(([, ms]) => ms > 0);
  if (parts.length > 0)
    console.log(`the longest of each part: ${parts.map(([part, ms]) => `${part} ${ms.toFixed(0)} ms`).join(', ')}`);
  console.log(
    `memory ${megabytes(result.heapBytes[0])} after the first round, ${megabytes(result.heapBytes.at(-1))} after the last; ${result.nodes.at(-1)} nodes`,
  );
  const shifts = Object.entries(result.layoutShift).map(([part, score]) => `${part} ${score.toFixed(4)}`);
  console.log(`layout shift: ${shifts.join(', ')}`);
  for (const text of new Set(result.shifted)) console.log(`  ${text}`);
  for (const fault of result.faults) console.log(`fault: ${fault}`);
}
