/** `shoal bench transport`: two tabs of one headless browser, a link between them and a bare data channel beside it. */
import type { Command } from 'commander';
import type { Page } from 'playwright';
import { inBrowser, openBenchPage } from './benchBrowser.ts';
import type { BenchPage } from './page/main.ts';
import type { Carrier, TransportBenchResult } from './page/transport.ts';

export function addTransportBench(bench: Command): void {
  bench
    .command('transport')
    .description('bytes a second and round trips between two tabs, beside a bare data channel of the same run')
    .option('--json', 'one JSON document on standard output')
    .action(transport);
}

async function transport({ json }: { readonly json?: boolean }): Promise<void> {
  const result = await inBrowser(
    async () => null,
    async (first) => {
      const second = await openBenchPage(first.context(), async () => null);
      await connectTransport(first, second);
      return first.evaluate(() => (globalThis as unknown as { shoalBench: BenchPage }).shoalBench.measureTransport());
    },
  );
  if (json) console.log(JSON.stringify(result));
  else print(result);
}

/** Each tab's signals go to the other one, in order. */
async function connectTransport(first: Page, second: Page): Promise<void> {
  for (const [from, to] of [
    [first, second],
    [second, first],
  ] as const) {
    await from.exposeFunction('shoalSignal', (way: Carrier, data: string) => {
      void to.evaluate(
        ([kind, text]) =>
          (globalThis as unknown as { shoalBench: BenchPage }).shoalBench.transportSignalled(kind, text),
        [way, data] as const,
      );
    });
  }
  for (const [page, initiator] of [
    [second, false],
    [first, true],
  ] as const) {
    await page.evaluate(
      (begins) => (globalThis as unknown as { shoalBench: BenchPage }).shoalBench.openTransport(begins),
      initiator,
    );
  }
}

function print({ frames, underLoad, heartbeats }: TransportBenchResult): void {
  const rate = (bytesPerSecond: number): string => `${(bytesPerSecond / 1e6).toFixed(2).padStart(7)} MB/s`;
  const ms = (value: number): string => `${value.toFixed(1)} ms`;
  for (const { bytes, link, ports, bare, share, gain } of frames) {
    console.log(
      `${String(bytes).padStart(8)} B  link ${rate(link.bytesPerSecond)} ${ms(link.roundTripMs)}` +
        `  by ports ${rate(ports.bytesPerSecond)} ${ms(ports.roundTripMs)}  gain ${gain.toFixed(2)}` +
        `  bare ${rate(bare.bytesPerSecond)} ${ms(bare.roundTripMs)}  share ${share.toFixed(2)}`,
    );
  }
  const { link, bareSecondChannel, ratio } = underLoad;
  console.log(
    `1 KiB under load: link ${ms(link.medianMs)}, p95 ${ms(link.p95Ms)}; bare second channel ` +
      `${ms(bareSecondChannel.medianMs)}, p95 ${ms(bareSecondChannel.p95Ms)}; ratio ${ratio.toFixed(2)}`,
  );
  console.log(
    `heartbeats while ${heartbeats.megabytes} MB flowed in ${heartbeats.seconds.toFixed(1)} s: ` +
      `median ${ms(heartbeats.medianMs)}, p95 ${ms(heartbeats.p95Ms)}, most ${ms(heartbeats.mostMs)}`,
  );
}
