/**
 * A training's server in a process of its own, so that it can be killed and started again as a machine's crash would:
 * the same port, the same data directory, donors reconnect by themselves.
 */
import type { ChildProcess } from 'node:child_process';
import type { Command } from 'commander';
import { z } from 'zod';
import { invariant, type Result, refusal, success } from '../../swarm/base.ts';
import { HELD, type Held } from '../../swarm/coordinator/events.ts';
import { planSchema, SCHEDULE_NAMES, WARM_UPS } from '../../swarm/plan/plan.ts';
import { terminalLog } from '../monitoring/log.ts';
import { openDataDirectory } from '../store/dataDirectory.ts';
import { awaitOrders, exit, forkCommand, tell } from './childServer.ts';
import { openTrainingServer, type RunStatus, runStatusSchema, type TrainingServer } from './trainingServer.ts';

/** The hidden command that the child runs. */
const SERVER_PROCESS_COMMAND = 'server-process';
/** So long a server that was killed waits for the donors it had. */
export const GATHER_LIMIT_MS = 20_000;

/** What a training's server is told, whichever process it is. */
export const trainingSchema = z.object({
  directory: z.string(),
  runName: z.string(),
  pages: z.string(),
  port: z.int(),
  expectedDonors: z.int(),
  steps: z.int().exactOptional(),
  metricsPath: z.string().exactOptional(),
  recordPath: z.string().exactOptional(),
  stages: z.int().exactOptional(),
  microBatches: z.int().exactOptional(),
  schedule: z.enum(SCHEDULE_NAMES).exactOptional(),
  chunks: z.int().exactOptional(),
  pairs: z.int().exactOptional(),
  warmup: z.enum(WARM_UPS).exactOptional(),
  plan: planSchema.exactOptional(),
  groupPlans: z.array(planSchema).readonly().exactOptional(),
  auto: z.boolean().exactOptional(),
  replicas: z.int().exactOptional(),
});

const orderSchema = z.discriminatedUnion('type', [
  trainingSchema.extend({ type: z.literal('open'), gatherLimitMs: z.number().nullable() }),
  z.object({ type: z.literal('hold'), held: z.enum(HELD) }),
  z.object({ type: z.literal('stop') }),
  z.object({ type: z.literal('close') }),
]);
type Order = z.infer<typeof orderSchema>;
type OpenOrder = Extract<Order, { type: 'open' }>;
type ServerProcessOptions = Omit<OpenOrder, 'type' | 'gatherLimitMs'>;

const wordSchema = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('serving'),
    url: z.string(),
    ownDonorUrl: z.string(),
    operatorToken: z.string(),
    status: runStatusSchema,
  }),
  z.object({ type: z.literal('refused'), reason: z.string() }),
  z.object({ type: z.literal('status'), status: runStatusSchema }),
]);
type Word = z.infer<typeof wordSchema>;

interface ServerProcess extends TrainingServer {
  /** SIGKILL; then started again from its store, for so many donors who should come back. */
  killAndRestart(donors: number): Promise<Result<null>>;
}

/** Starts it; the data directory must not be open here. */
export async function openServerProcess(options: ServerProcessOptions): Promise<Result<ServerProcess>> {
  const process = new Process(options);
  const started = await process.start(null);
  return started.ok ? success(process) : started;
}

class Process implements ServerProcess {
  #options: ServerProcessOptions;
  readonly #listeners = new Set<() => void>();
  #child: ChildProcess | null = null;
  #status: RunStatus | null = null;
  #held: Held = 'none';
  url = '';
  #ownDonorUrl = '';
  operatorToken = '';

  constructor(options: ServerProcessOptions) {
    this.#options = options;
  }

  status(): RunStatus {
    invariant(this.#status, 'the server has said how the run stands');
    return this.#status;
  }

  donorUrl(): string {
    return this.#ownDonorUrl;
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  hold(held: Held): void {
    this.#held = held;
    this.#tell({ type: 'hold', held });
  }

  stop(): Promise<void> {
    return this.#end({ type: 'stop' });
  }

  close(): Promise<void> {
    return this.#end({ type: 'close' });
  }

  async killAndRestart(donors: number): Promise<Result<null>> {
    const child = this.#child;
    if (child === null) return refusal('the server is gone already');
    this.#child = null;
    child.kill('SIGKILL');
    await exit(child);
    this.#options = { ...this.#options, port: Number(new URL(this.url).port), expectedDonors: donors };
    return this.start(GATHER_LIMIT_MS);
  }

  /** Resolves when it serves. */
  async start(gatherLimitMs: number | null): Promise<Result<null>> {
    const child = forkCommand(SERVER_PROCESS_COMMAND);
    this.#child = child;
    this.#tell({ type: 'open', ...this.#options, gatherLimitMs });
    return new Promise((resolve) => {
      child.on('exit', () => resolve(refusal('the server process ended before it served')));
      child.on('error', (error) => resolve(refusal(`the server process: ${error.message}`)));
      child.on('message', (message) => {
        const word = wordSchema.parse(message);
        if (word.type === 'refused') return resolve(refusal(word.reason));
        this.#status = word.status;
        if (word.type === 'serving') {
          this.url = word.url;
          this.#ownDonorUrl = word.ownDonorUrl;
          this.operatorToken = word.operatorToken;
          if (this.#held !== 'none') this.#tell({ type: 'hold', held: this.#held });
          resolve(success(null));
        }
        for (const listener of [...this.#listeners]) listener();
      });
    });
  }

  async #end(order: Order): Promise<void> {
    const child = this.#child;
    if (child === null) return;
    this.#tell(order);
    await exit(child);
    this.#child = null;
  }

  #tell(order: Order): void {
    if (this.#child !== null) tell(this.#child, order);
  }
}

export function addServerProcessCommand(program: Command): void {
  program.command(SERVER_PROCESS_COMMAND, { hidden: true }).action(serveAsProcess);
}

/** What the child does: serves until it is told to end, or nobody is there to tell it. */
async function serveAsProcess(): Promise<void> {
  const { first, say, onOrder } = await awaitOrders<Order, Word>(orderSchema);
  invariant(first.type === 'open', 'the first order opens the server');
  const { directory, gatherLimitMs, ...options } = first;
  const data = await openDataDirectory(directory);
  if (!data.ok) return say({ type: 'refused', reason: data.reason });
  const log = terminalLog();
  for (const text of data.value.found) log('warn', text);
  const opened = await openTrainingServer({ ...options, data: data.value, log, gatherLimitMs });
  if (!opened.ok) return say({ type: 'refused', reason: opened.reason });
  const server = opened.value;
  const ended = new Promise<void>((resolve, reject) => {
    onOrder((order) => {
      if (order.type === 'hold') return server.hold(order.held);
      if (order.type === 'open') return;
      (order.type === 'stop' ? server.stop() : server.close()).then(resolve, reject);
    });
  });
  const { url, operatorToken } = server;
  say({ type: 'serving', url, ownDonorUrl: server.donorUrl(0), operatorToken, status: server.status() });
  server.onChange(() => say({ type: 'status', status: server.status() }));
  await ended;
  data.value.close();
}
