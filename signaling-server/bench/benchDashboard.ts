/**
 * `shoal bench dashboard`: the operator's page in a headless browser, fed with a run of 256 donors four times a second
 * while it goes from part to part. What is looked at: does its memory stay flat, does a redraw ever hold the page up,
 * does anything move that nobody touched. The feed is the simulator's (dashboardFeed.ts): no donor takes part.
 */

import type { Command } from 'commander';
import Fastify, { type FastifyInstance } from 'fastify';
import type { Browser, CDPSession, Locator, Page } from 'playwright';
import { WebSocketServer } from 'ws';
import { z } from 'zod';
import { median } from '../../swarm/base.ts';
import { failed, need } from '../commands/failure.ts';
import { wholeNumber } from '../commands/options.ts';
import { PAGES_FOLDER } from '../files/projectRoot.ts';
import { launchBrowser } from '../headless/chromium.ts';
import { addPages } from '../http/pages.ts';
import { WATCH_INTERVAL_MS } from '../operator/api.ts';
import { DashboardFeed } from './dashboardFeed.ts';
import { longestTasksMs, pageTasks, type Task } from './pageTasks.ts';

const PARTS = ['Overview', 'Swarm', 'Donors', 'Runs', 'Samples', 'Settings'] as const;
/** Every part is looked at this often. */
const LEAST_ROUNDS = 4;
const ROUND_SECONDS = 60;
const UNSEEN_REDRAWS = 8;
const COLLECTIONS = 5;
/** What is told shows within a redraw or two, out of sight a second after the last one. */
const PATIENCE_MS = 5_000;
const WINDOW = { width: 1440, height: 900 };

const watchedSchema = z.object({ redraws: z.number(), shift: z.number(), shifted: z.array(z.string()) });
type Watched = z.infer<typeof watchedSchema>;

interface DashboardBench {
  readonly donors: number;
  readonly seconds: number;
  readonly messages: number;
  readonly redrawsPerSecond: number;
  /** Of every quarter of a second the longest task of the page's thread; while a part is looked at. */
  readonly tasksMs: Spread;
  /** The same by the processor's time: what the page itself takes, however busy the machine is. */
  readonly tasksCpuMs: Spread;
  /** The same while another part is opened. */
  readonly openingMs: Spread;
  /** Of each part, the longest task. */
  readonly longestMsOf: Readonly<Record<string, number>>;
  /** Of one core. */
  readonly busyShare: number;
  /** The browser's own score, by part, of what moved although nobody touched anything; and what it was. */
  readonly layoutShift: Readonly<Record<string, number>>;
  readonly shifted: readonly string[];
  /** After collections of garbage, at the end of each round of the parts; and the medians of its first and last quarter. */
  readonly heapBytes: readonly number[];
  readonly heapQuarters: readonly [first: number, last: number];
  readonly nodes: readonly number[];
  readonly faults: readonly string[];
}

interface Spread {
  readonly p50: number;
  readonly p95: number;
  readonly max: number;
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
  const { app, quiet } = await feedServer(feed);
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
    const driven = await drive(browser, page, session, seconds);
    await openAllDonors(page, donors);
    quiet();
    faults.push(...(await untruths(page, feed)));
    if ((await page.locator('#page img').count()) > 0) faults.push('a name became markup');
    return { donors, ...driven, faults };
  } finally {
    await browser.close().catch(() => {});
    await server.close().catch(() => server.kill());
    await app.close();
  }
}

/** What the page asks of a server, and nothing that changes anything. */
export async function feedServer(feed: DashboardFeed): Promise<{ app: FastifyInstance; quiet: () => void }> {
  const app = Fastify({ logger: false, forceCloseConnections: true });
  await addPages(app, PAGES_FOLDER);
  const first = feed.next();
  app.get('/api/snapshot', () => first);
  app.get('/api/operator/steps', () => ({ steps: feed.older(first.recent[0]?.step ?? 0), evaluations: [] }));
  app.get('/api/operator/timeline', ({ query }) =>
    feed.timeline(z.object({ step: z.coerce.number() }).parse(query).step),
  );
  app.get('/api/operator/runs', () => ({ runs: [], texts: [], canActivate: false, queue: [] }));
  app.get('/api/operator/blocks', () => ({ blocks: [] }));
  app.get('/api/operator/samples', () => ({ samples: [], evaluations: [] }));
  let timer: NodeJS.Timeout | undefined;
  new WebSocketServer({ server: app.server, path: '/api/watch' }).on('connection', (socket) => {
    socket.send(JSON.stringify(first));
    timer = setInterval(() => socket.send(JSON.stringify(feed.next())), WATCH_INTERVAL_MS);
    socket.on('close', () => clearInterval(timer));
  });
  return { app, quiet: () => clearInterval(timer) };
}

const whole = (value: number): string => value.toLocaleString('en', { maximumFractionDigits: 0 });

/** Every row, and a while in which most of them are out of sight. */
async function openAllDonors(page: Page, donors: number): Promise<void> {
  await page.getByRole('navigation').getByRole('link', { name: 'Donors', exact: true }).click();
  await page.getByRole('button', { name: `All ${donors} donors` }).click();
  await redrawn(page, UNSEEN_REDRAWS);
}

/** What the page shows, when nothing more is said, that is not what it was told last: in sight and out of it. */
async function untruths(page: Page, feed: DashboardFeed): Promise<string[]> {
  const { committedSteps, donors } = feed.newest;
  const rows = page.getByRole('region', { name: 'Donors' }).locator('tbody tr');
  const found: string[] = [];
  const expected = async (what: string, where: Locator, text: string): Promise<void> => {
    const isThere = await where
      .getByText(text, { exact: true })
      .waitFor({ state: 'attached', timeout: PATIENCE_MS })
      .then(
        () => true,
        () => false,
      );
    if (!isThere) found.push(`${what} is not shown as ${text}`);
  };
  await expected('the step', page.locator('.steps-line'), whole(committedSteps));
  if ((await rows.count()) !== donors.length) found.push('not every donor has a row');
  for (const [place, { tokens }] of [...donors.entries()].filter(([each]) => each % (donors.length - 1) === 0)) {
    await expected(`what donor ${place} gave`, rows.nth(place), whole(tokens));
  }
  return found;
}

/** In the page, before anything of it runs. */
function watchPage(): void {
  const watched = { redraws: 0, shift: 0, shifted: [] as string[] };
  Object.assign(globalThis, { shoalWatched: watched });
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

/** What the page holds on to: a message that comes between a collection and the look counts as held, so the least of a few. */
async function heldBytes(session: CDPSession): Promise<number> {
  const looks: number[] = [];
  while (looks.length < COLLECTIONS) {
    await session.send('HeapProfiler.collectGarbage');
    looks.push(await metric(session, 'JSHeapUsedSize'));
  }
  return Math.min(...looks);
}

async function drive(
  browser: Browser,
  page: Page,
  session: CDPSession,
  seconds: number,
): Promise<Omit<DashboardBench, 'donors' | 'faults'>> {
  const rounds = Math.max(LEAST_ROUNDS, Math.round(seconds / ROUND_SECONDS));
  const partMs = (seconds * 1_000) / rounds / PARTS.length;
  const looking: Stay[] = [];
  const tasks: Task[][] = [];
  const heapBytes: number[] = [];
  const layoutShift: Record<string, number> = {};
  const nodes: number[] = [];
  // Each part was there once: what is compiled and cached is no news.
  for (const part of PARTS) await show(page, part);
  const before = await watchedBy(page);
  const busy = await metric(session, 'TaskDuration');
  const startMs = performance.now();
  const round = async (): Promise<void> => {
    for (const part of PARTS) {
      await show(page, part);
      const then = await watchedBy(page);
      const from = await metric(session, 'Timestamp');
      await new Promise((resolve) => setTimeout(resolve, partMs));
      looking.push({ part, from, to: await metric(session, 'Timestamp') });
      layoutShift[part] = (layoutShift[part] ?? 0) + (await watchedBy(page)).shift - then.shift;
    }
  };
  while (heapBytes.length < rounds) {
    tasks.push(await pageTasks(browser, page, round));
    heapBytes.push(await heldBytes(session));
    nodes.push(await metric(session, 'Nodes'));
  }
  const took = (performance.now() - startMs) / 1_000;
  const after = await watchedBy(page);
  const quarter = Math.ceil(rounds / 4);
  return {
    ...{ seconds: took, messages: Math.round((took * 1_000) / WATCH_INTERVAL_MS) },
    redrawsPerSecond: (after.redraws - before.redraws) / took,
    ...lengths(tasks.flat(), looking),
    busyShare: ((await metric(session, 'TaskDuration')) - busy) / took,
    layoutShift,
    shifted: after.shifted.slice(before.shifted.length),
    ...{ heapBytes, nodes },
    heapQuarters: [median(heapBytes.slice(0, quarter)) ?? 0, median(heapBytes.slice(-quarter)) ?? 0],
  };
}

/** How long a part was looked at, in seconds of the browser's clock. */
interface Stay {
  readonly part: string;
  readonly from: number;
  readonly to: number;
}

function lengths(tasks: readonly Task[], stays: readonly Stay[]) {
  const during = ({ from, to }: Stay): Task[] => tasks.filter(({ atSeconds: at }) => at >= from && at < to);
  const looked = stays.map((stay) => ({ part: stay.part, tasks: during(stay) }));
  const isLooked = new Set(looked.flatMap((stay) => stay.tasks));
  const of = (part: string): Task[] => looked.filter((stay) => stay.part === part).flatMap((stay) => stay.tasks);
  return {
    tasksMs: spread(longestTasksMs([...isLooked])),
    tasksCpuMs: spread(longestTasksMs([...isLooked], 'cpuMs')),
    openingMs: spread(longestTasksMs(tasks.filter((task) => !isLooked.has(task)))),
    longestMsOf: Object.fromEntries(PARTS.map((part) => [part, Math.max(0, ...longestTasksMs(of(part)))])),
  };
}

function spread(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number): number => sorted[Math.ceil(share * sorted.length) - 1] ?? 0;
  return { p50: at(0.5), p95: at(0.95), max: at(1) };
}

/** The part is there whole, drawn twice: what comes of a click is no surprise to who clicked. */
async function show(page: Page, part: (typeof PARTS)[number]): Promise<void> {
  await page.getByRole('navigation').getByRole('link', { name: part, exact: true }).click();
  if (part === 'Swarm') await page.locator('.spans').waitFor();
  await redrawn(page, 2);
}

async function redrawn(page: Page, times: number): Promise<void> {
  const { redraws } = await watchedBy(page);
  await page.waitForFunction(
    (least) => (globalThis as unknown as { shoalWatched: { redraws: number } }).shoalWatched.redraws >= least,
    redraws + times,
  );
}

function print(result: DashboardBench): void {
  const { donors, seconds, redrawsPerSecond, tasksMs, tasksCpuMs, openingMs, busyShare, heapQuarters } = result;
  const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;
  const words = ({ p50, p95, max }: Spread): string =>
    `p50 ${p50.toFixed(0)} ms, p95 ${p95.toFixed(0)} ms, max ${max.toFixed(0)} ms`;
  console.log(`${donors} donors, ${seconds.toFixed(0)} s: ${redrawsPerSecond.toFixed(2)} redraws a second`);
  console.log(
    `longest task of each quarter of a second: ${words(tasksMs)}; ${(100 * busyShare).toFixed(0)} % of a core`,
  );
  console.log(`the same by the processor's time: ${words(tasksCpuMs)}`);
  console.log(`the same while another part is opened: ${words(openingMs)}`);
  const parts = Object.entries(result.longestMsOf).map(([part, ms]) => `${part} ${ms.toFixed(0)} ms`);
  console.log(`the longest of each part: ${parts.join(', ')}`);
  const [first, last] = heapQuarters;
  console.log(
    `memory, median of the rounds: first quarter ${megabytes(first)}, last quarter ${megabytes(last)}; ${result.nodes.at(-1)} nodes`,
  );
  const shifts = Object.entries(result.layoutShift).map(([part, score]) => `${part} ${score.toFixed(4)}`);
  console.log(`layout shift: ${shifts.join(', ')}`);
  for (const text of new Set(result.shifted)) console.log(`  ${text}`);
  for (const fault of result.faults) console.log(`fault: ${fault}`);
}
