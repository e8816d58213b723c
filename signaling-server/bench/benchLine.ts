/**
 * `shoal bench line`: a load over a link between two emulated homes, by one connection and by several side by side: what
 * it takes, and what the link's own meters make of it.
 */
import type { Command } from 'commander';
import type { Page } from 'playwright';
import { at } from '../../swarm/base.ts';
import { MOST_STREAMS } from '../../swarm/plan/planLink.ts';
import { badInput, failed, need } from '../commands/failure.ts';
import { wholeNumber } from '../commands/options.ts';
import { launchBrowser } from '../headless/chromium.ts';
import { openBenchPage } from './benchBrowser.ts';
import { inBenchFolder } from './benchFolder.ts';
import { connectTransport } from './benchTransport.ts';
import { homesProblem, openHomes } from './homes/homes.ts';
import { addLineOptions, type LineOptions, lineOf } from './homes/lineOptions.ts';
import type { BenchPage } from './page/main.ts';
import type { Carried } from './page/transport.ts';

const HOMES = 2;
const STREAMS = [1, 2, 4, 8];
const MEBIBYTE = 1_048_576;
/** Of a server that the homes could reach, were there one. */
const NO_PORT = 9;

interface LineBenchOptions extends LineOptions {
  readonly mebibytes: number;
  readonly streams?: readonly number[];
  readonly json?: boolean;
}

export function addLineBench(bench: Command): void {
  addLineOptions(
    bench
      .command('line')
      .description('a load between two emulated homes, by 1 to 8 connections: about a minute (root on Linux)'),
  )
    .option('--mebibytes <n>', 'size of the load', wholeNumber('--mebibytes', 1), 16)
    .option(
      '--streams <counts>',
      'how many connections to try, ascending, with commas between (default: 1,2,4,8)',
      parseStreams,
    )
    .option('--json', 'one JSON document on standard output')
    .action(line);
}

/** A link closes no connection, so that there can only be more of them. */
function parseStreams(text: string): readonly number[] {
  const counts = text.split(',').map(Number);
  const isRight = counts.every(
    (count, index) => Number.isInteger(count) && count > (counts[index - 1] ?? 0) && count <= MOST_STREAMS,
  );
  if (isRight) return counts;
  throw badInput(`--streams: expected ascending whole numbers from 1 to ${MOST_STREAMS} such as 1,4, not "${text}"`);
}

async function line(options: LineBenchOptions): Promise<void> {
  const problem = homesProblem();
  if (problem !== null) throw failed(problem);
  await inBenchFolder('line', ({ unlessStopped }) => overHomes(options, unlessStopped));
}

async function overHomes(
  options: LineBenchOptions,
  unlessStopped: <Value>(work: Promise<Value>) => Promise<Value>,
): Promise<void> {
  const [nat = 'none', other = nat] = options.nat ?? [];
  const homes = need(await openHomes([nat, other], lineOf(options), NO_PORT), failed);
  const closers = [() => homes.close()];
  try {
    const pages: Page[] = [];
    for (let home = 0; home < HOMES; home++) {
      const { browser, server } = need(await launchBrowser(homes.browserIn(home)), failed);
      closers.unshift(async () => {
        await browser.close().catch(() => {});
        await server.close().catch(() => server.kill());
      });
      pages.push(await openBenchPage(await browser.newContext(), async () => null));
    }
    await connectTransport(at(pages, 0), at(pages, 1));
    const { carried, wrongBytes } = await unlessStopped(carryLoads(at(pages, 0), at(pages, 1), options));
    if (options.json) console.log(JSON.stringify({ carried, wrongBytes }));
    else if (wrongBytes > 0) throw failed(`${wrongBytes} bytes arrived otherwise than they were sent`);
  } finally {
    for (const close of closers) await close();
  }
}

async function carryLoads(from: Page, to: Page, { mebibytes, streams = STREAMS, json }: LineBenchOptions) {
  const carried: Carried[] = [];
  for (const count of streams) {
    const one = await from.evaluate(
      ([bytes, connections]) =>
        (globalThis as unknown as { shoalBench: BenchPage }).shoalBench.carryTransport(bytes, connections),
      [mebibytes * MEBIBYTE, count] as const,
    );
    carried.push(one);
    if (!json) print(one);
  }
  const wrongBytes = await to.evaluate(() =>
    (globalThis as unknown as { shoalBench: BenchPage }).shoalBench.wrongTransportBytes(),
  );
  return { carried, wrongBytes };
}

function print({ streams, seconds, bytesPerSecond, measured }: Carried): void {
  const rate = (value: number | null): string => (value === null ? 'unknown' : `${(value / 1e6).toFixed(2)} MB/s`);
  const trip = measured.roundTripMs === null ? 'unknown' : `${measured.roundTripMs.toFixed(0)} ms`;
  const { windowBytes } = measured;
  const window = windowBytes === null ? '' : `, limited by windows of ${windowBytes} bytes`;
  console.log(
    `${streams} connection${streams > 1 ? 's' : ''}: ${seconds.toFixed(1)} s, ${rate(bytesPerSecond)}; ` +
      `the link’s meters say ${rate(measured.bytesPerSecond)}, round trip ${trip}${window}`,
  );
}
