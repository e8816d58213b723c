/**
 * A tab that trains for long takes no more memory than at first: its GPU buffers not a byte, its processes nothing that
 * is more than noise. Buffers are counted in the worker as they are made; processes by their proportional set size.
 */
import { readdirSync, readFileSync } from 'node:fs';
import type { Browser, Worker } from 'playwright';
import { expect, test } from 'vitest';
import { peerId, totalOf } from '../swarm/base.ts';
import { predictedBytes } from '../swarm/memory/memory.ts';
import { equalSplit } from '../swarm/planner/equalSplit.ts';
import { modelOf, parseRunFile } from '../swarm/run/runFile.ts';
import { type Donor, type Operator, openDonor, openOperator } from './browser.ts';
import { copyOfRun, type Json, startServer } from './product.ts';

const GROWTH_LIMIT_BYTES = 15e6;
const SAMPLES = 10;
/** More steps than are looked at, each short. */
const TRAIN = { steps: 400, globalBatchSize: 2, sequenceLength: 16 };
/** None while it is looked at: Playwright's record of the network (1.65) keeps every upload's bytes in the renderer. */
const CHECKPOINT = { everySteps: 400 };

/** From here on every buffer that the worker makes is counted, until it is destroyed. */
async function countBuffers(worker: Worker): Promise<void> {
  await worker.evaluate(() => {
    const living = new Map<GPUBuffer, number>();
    const { createBuffer } = GPUDevice.prototype;
    const { destroy } = GPUBuffer.prototype;
    GPUDevice.prototype.createBuffer = function (descriptor) {
      const buffer = createBuffer.call(this, descriptor);
      living.set(buffer, buffer.size);
      return buffer;
    };
    GPUBuffer.prototype.destroy = function () {
      living.delete(this);
      return destroy.call(this);
    };
    Object.assign(globalThis, { livingBytes: () => [...living.values()].reduce((sum, bytes) => sum + bytes, 0) });
  });
}

const livingBytes = (worker: Worker): Promise<number> =>
  worker.evaluate(() => (globalThis as unknown as { livingBytes(): number }).livingBytes());

const threads = (pid: number): string[] =>
  readdirSync(`/proc/${pid}/task`).map((task) => readFileSync(`/proc/${pid}/task/${task}/comm`, 'utf8').trim());

/** The renderer that has the donor's worker, and the GPU process. */
async function processes(browser: Browser): Promise<number[]> {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send('SystemInfo.getProcessInfo');
  await session.detach();
  const renderers = processInfo.filter(({ type, id }) => type === 'renderer' && threads(id).some(isDedicatedWorker));
  const gpu = processInfo.filter(({ type }) => type === 'GPU');
  expect([renderers.length, gpu.length]).toEqual([1, 1]);
  return [...renderers, ...gpu].map(({ id }) => id);
}

const isDedicatedWorker = (thread: string): boolean => thread.startsWith('DedicatedWorker');

function proportionalBytes(pid: number): number {
  const kibibytes = /^Pss:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1];
  return Number(kibibytes) * 1024;
}

interface Measured {
  readonly bufferBytes: number;
  /** What the page says. */
  readonly shown: string;
  /** Median over some steps, each after a collection. */
  readonly processBytes: number;
}

async function measure(donor: Donor, worker: Worker, operator: Operator, fromStep: number): Promise<Measured> {
  await operator.until(({ committedSteps }) => committedSteps >= fromStep);
  const pids = await processes(donor.browser);
  const session = await donor.context.newCDPSession(donor.page);
  const samples: number[] = [];
  while (samples.length < SAMPLES) {
    await session.send('HeapProfiler.collectGarbage');
    await worker.evaluate(() => (globalThis as unknown as { gc(): void }).gc());
    samples.push(totalOf(pids, (pid) => proportionalBytes(pid)));
    await operator.untilFurther(1);
  }
  samples.sort((a, b) => a - b);
  return {
    bufferBytes: await livingBytes(worker),
    shown: await donor.page
      .locator('.stat', { hasText: 'GPU memory' })
      .textContent()
      .then((text) => text ?? ''),
    processBytes: samples[SAMPLES / 2] ?? 0,
  };
}

function predicted(run: Json): number {
  const parsed = parseRunFile(run, 'run.json');
  if (!parsed.ok) throw new Error(parsed.reason);
  const { globalBatchSize, sequenceLength } = parsed.value.train;
  const model = modelOf(parsed.value);
  const me = peerId('me');
  return predictedBytes(model, equalSplit(model, globalBatchSize, [me]), me, sequenceLength);
}

const whyNot = process.platform === 'linux' ? '' : ' (needs /proc)';
test.skipIf(whyNot)(`from step 100 to step 200 a donor takes no more memory${whyNot}`, async () => {
  const runFile = copyOfRun('gpt2-long', (run) => ({
    ...run,
    train: { ...(run.train as Json), ...TRAIN },
    checkpoint: CHECKPOINT,
  }));
  const server = await startServer(runFile);
  const operator = await openOperator(server);
  const donor = await openDonor(server.url, {
    switches: ['--js-flags=--expose-gc'],
    prepare: (page) => page.on('worker', countBuffers),
  });
  const [worker] = donor.page.workers();
  if (!worker) throw new Error('the page started no worker');
  const early = await measure(donor, worker, operator, 95);
  const late = await measure(donor, worker, operator, 195);
  expect(late.bufferBytes).toBe(early.bufferBytes);
  expect(late.shown).toBe(early.shown);
  expect(early.bufferBytes).toBeGreaterThan(0);
  expect(early.bufferBytes).toBeLessThanOrEqual(1.2 * predicted(JSON.parse(readFileSync(runFile, 'utf8'))));
  expect(late.processBytes - early.processBytes).toBeLessThan(GROWTH_LIMIT_BYTES);
});
