/**
 * The servers of a training as several processes of one site, over a NATS of their own, so that the one that leads can be
 * killed while the others go on. To the command they are one server: what it asks goes to whichever leads.
 */
import type { ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Command } from 'commander';
import { z } from 'zod';
import { got, invariant, type Result, refusal, success } from '../../swarm/base.ts';
import { HELD, type Held } from '../../swarm/coordinator/events.ts';
import { terminalLog } from '../monitoring/log.ts';
import type { Server } from '../server.ts';
import { createServer } from '../server.ts';
import { SiteMember } from '../site/member.ts';
import { type NatsServer, startNatsServer } from '../site/natsServer.ts';
import { openSite, type Site } from '../site/site.ts';
import { awaitOrders, exit, forkCommand, tell } from './childServer.ts';
import { GATHER_LIMIT_MS, trainingSchema } from './serverProcess.ts';
import {
  type RunStatus,
  runStatusSchema,
  statusOf,
  type TrainingOptions,
  type TrainingServer,
} from './trainingServer.ts';

/** The hidden command that each child runs. */
const SITE_PROCESS_COMMAND = 'site-process';
const SITE = 'swarm';

const orderSchema = z.discriminatedUnion('type', [
  trainingSchema.extend({ type: z.literal('open'), nats: z.string(), isBack: z.boolean() }),
  z.object({ type: z.literal('hold'), held: z.enum(HELD) }),
  /** So many may come to whoever leads next. */
  z.object({ type: z.literal('expect'), donors: z.int() }),
  z.object({ type: z.literal('stop') }),
  z.object({ type: z.literal('close') }),
]);
type Order = z.infer<typeof orderSchema>;

const wordSchema = z.discriminatedUnion('type', [
  z.object({ type: z.literal('serving'), url: z.string(), operatorToken: z.string() }),
  z.object({ type: z.literal('refused'), reason: z.string() }),
  /** It leads, and the run stands so. */
  z.object({ type: z.literal('status'), ownDonorKey: z.string(), status: runStatusSchema }),
  z.object({ type: z.literal('leadsNoMore') }),
]);
type Word = z.infer<typeof wordSchema>;

interface SiteProcesses extends TrainingServer {
  /** SIGKILL to the process that leads; then it is started again, where so many donors are left. */
  killAndRestart(donors: number): Promise<Result<null>>;
  /** What came of the training, once it is closed. */
  conclude<T>(work: (site: Site) => Promise<T>): Promise<T>;
  /** All of it, NATS too. */
  end(): Promise<void>;
}

interface SiteOptions extends Omit<TrainingOptions, 'runName' | 'port'> {
  readonly servers: number;
  /** Puts the run into the site, before any server is there; answers with its name. */
  prepare(site: Site): Promise<string>;
}

interface Member {
  child: ChildProcess;
  readonly directory: string;
  url: string;
  operatorToken: string;
}

export async function openSiteProcesses(options: SiteOptions): Promise<Result<SiteProcesses>> {
  const folder = mkdtempSync(join(tmpdir(), 'shoal-site-'));
  const clean = (): void => rmSync(folder, { recursive: true, force: true });
  process.once('exit', clean); // a second signal ends this process wherever it is
  const nats = await startNatsServer(join(folder, 'nats'));
  if (!nats.ok) {
    clean();
    return nats;
  }
  const processes = new Processes(options, folder, nats.value);
  const started = await processes.start().catch(async (error: unknown) => {
    await processes.end();
    throw error;
  });
  if (!started.ok) {
    await processes.end();
    return started;
  }
  return success(processes);
}

class Processes implements SiteProcesses {
  readonly #options: SiteOptions;
  readonly #folder: string;
  readonly #nats: NatsServer;
  readonly #members = new Map<number, Member>();
  readonly #listeners = new Set<() => void>();
  #leading: number | null = null;
  #status: RunStatus | null = null;
  #runName = '';
  #ownDonorKey = '';
  #held: Held = 'none';
  #expected: number;

  constructor(options: SiteOptions, folder: string, nats: NatsServer) {
    this.#options = options;
    this.#folder = folder;
    this.#nats = nats;
    this.#expected = options.expectedDonors;
  }

  get url(): string {
    return got(this.#members, 0).url;
  }

  get operatorToken(): string {
    return got(this.#members, 0).operatorToken;
  }

  /** Shared out over the processes. */
  donorUrl(donor: number): string {
    return `${got(this.#members, donor % this.#options.servers).url}/#own=${this.#ownDonorKey}`;
  }

  status(): RunStatus {
    invariant(this.#status, 'a server has said how the run stands');
    return this.#status;
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  hold(held: Held): void {
    this.#held = held;
    this.#tellAll({ type: 'hold', held });
  }

  /** Resolves when all serve and one leads. */
  async start(): Promise<Result<null>> {
    const { prepare, servers } = this.#options;
    this.#runName = await this.#withSite(prepare, true);
    for (let number = 0; number < servers; number++) {
      const started = await this.#fork(number, 0, false);
      if (!started.ok) return started;
    }
    while (this.#status === null)
      await new Promise<void>((resolve) => {
        const forget = this.onChange(() => {
          forget();
          resolve();
        });
      });
    return success(null);
  }

  async killAndRestart(donors: number): Promise<Result<null>> {
    const number = this.#leading;
    if (number === null) return refusal('no server leads the run at the moment');
    const { child, url } = got(this.#members, number);
    this.#expected = donors;
    this.#tellAll({ type: 'expect', donors });
    this.#leading = null;
    // What it said before, and is read late, is older than what another says by then.
    child.removeAllListeners('message');
    child.kill('SIGKILL');
    await exit(child);
    return this.#fork(number, Number(new URL(url).port), true);
  }

  /** The one that leads goes to the end of its step; the others have nothing to end. */
  async stop(): Promise<void> {
    await this.#endAll({ type: 'stop' });
  }

  async close(): Promise<void> {
    await this.#endAll({ type: 'close' });
  }

  conclude<T>(work: (site: Site) => Promise<T>): Promise<T> {
    return this.#withSite(work, false);
  }

  async end(): Promise<void> {
    await this.close();
    await this.#nats.stop();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #withSite<T>(work: (site: Site) => Promise<T>, leads: boolean): Promise<T> {
    const directory = join(this.#folder, 'command');
    const site = await openSite({ urls: [this.#nats.url], site: SITE, directory, log: terminalLog() });
    if (!site.ok) throw new Error(site.reason);
    try {
      if (leads) {
        const led = await site.value.lead();
        if (!led.ok) throw new Error(led.reason);
      }
      const result = await work(site.value);
      if (leads) await site.value.data.store.kept();
      return result;
    } finally {
      await site.value.close();
    }
  }

  /** Resolves when it serves. */
  #fork(number: number, port: number, isBack: boolean): Promise<Result<null>> {
    const child = forkCommand(SITE_PROCESS_COMMAND);
    const { servers, prepare, onChange, ...training } = { ...this.#options, onChange: null };
    const directory = join(this.#folder, `server-${number}`);
    const member: Member = { child, directory, url: '', operatorToken: '' };
    this.#members.set(number, member);
    const options = { ...training, runName: this.#runName, port, directory, expectedDonors: this.#expected };
    tell(child, { type: 'open', ...options, nats: this.#nats.url, isBack });
    if (this.#held !== 'none') tell(child, { type: 'hold', held: this.#held });
    return new Promise((resolve) => {
      child.on('exit', () => resolve(refusal('a server process ended before it served')));
      child.on('error', (error) => resolve(refusal(`a server process: ${error.message}`)));
      child.on('message', (message) => {
        const word = wordSchema.parse(message);
        switch (word.type) {
          case 'refused':
            return resolve(refusal(word.reason));
          case 'serving':
            member.url = word.url;
            member.operatorToken = word.operatorToken;
            return resolve(success(null));
          case 'leadsNoMore':
            if (this.#leading === number) this.#leading = null;
            return;
          case 'status':
            this.#leading = number;
            this.#status = word.status;
            this.#ownDonorKey = word.ownDonorKey;
            for (const listener of [...this.#listeners]) listener();
        }
      });
    });
  }

  #tellAll(order: Order): void {
    for (const { child } of this.#members.values()) tell(child, order);
  }

  /** The one that leads first: nobody takes its place when all end. */
  async #endAll(order: Order): Promise<void> {
    const leading = this.#leading === null ? undefined : this.#members.get(this.#leading);
    const others = [...this.#members.values()].filter((member) => member !== leading);
    if (order.type === 'close') for (const { child } of others) tell(child, order);
    if (order.type === 'close') await Promise.all(others.map(({ child }) => exit(child)));
    for (const member of leading === undefined ? [] : [leading]) {
      tell(member.child, order);
      await exit(member.child);
    }
    for (const { child } of others) tell(child, { type: 'close' });
    await Promise.all(others.map(({ child }) => exit(child)));
  }
}

export function addSiteProcessCommand(program: Command): void {
  program.command(SITE_PROCESS_COMMAND, { hidden: true }).action(serveAsMember);
}

/** What each child does: is a process of the site until it is told to end, or nobody is there to tell it. */
async function serveAsMember(): Promise<void> {
  const { first, say, onOrder } = await awaitOrders<Order, Word>(orderSchema);
  invariant(first.type === 'open', 'the first order opens the server');
  const { directory, nats, port, pages, isBack, type, ...training } = first;
  let held: Held = 'none';
  let expectedDonors = training.expectedDonors;
  let server: Server | null = null;
  let end: (order: 'stop' | 'close') => void = () => {};
  const ended = new Promise<'stop' | 'close'>((resolve) => {
    end = resolve;
  });
  onOrder((order) => {
    if (order.type === 'hold') {
      held = order.held;
      server?.run.hold(held);
    } else if (order.type === 'expect') expectedDonors = order.donors;
    else if (order.type !== 'open') end(order.type);
  });
  const log = terminalLog();
  const site = await openSite({ urls: [nats], site: SITE, directory, log });
  if (!site.ok) return say({ type: 'refused', reason: site.reason });
  const { data } = site.value;
  const member = await SiteMember.open({
    ...{ site: site.value, access: {}, host: 'localhost', port, pages, log },
    open: (url, { name, data: ofRun, runs }) => {
      if (name !== null) return createServer({ data: ofRun, log, runName: name, pages, knownAs: url, site: runs });
      if (!isBack && data.store.run(training.runName)?.operatorPaused)
        data.store.setOperatorPaused(training.runName, false);
      // Whoever leads after another waits for the donors there were, and not for ever.
      const gatherLimitMs = data.store.run(training.runName)?.epoch ? GATHER_LIMIT_MS : null;
      const ofFirst = { ...training, expectedDonors, gatherLimitMs };
      return createServer({ ...ofFirst, data: ofRun, log, pages, knownAs: url, site: runs });
    },
    onRole: (leading) => {
      server = leading;
      if (leading === null) return say({ type: 'leadsNoMore' });
      const ownDonorKey = new URL(leading.ownDonorUrl).hash.replace('#own=', '');
      const tell = (): void => say({ type: 'status', ownDonorKey, status: statusOf(leading.run) });
      if (held !== 'none') leading.run.hold(held);
      tell();
      leading.run.onChange(() => server === leading && tell());
    },
  });
  if (!member.ok) return say({ type: 'refused', reason: member.reason });
  say({ type: 'serving', url: member.value.url, operatorToken: member.value.operatorToken });
  const order = await ended;
  await (order === 'stop' ? member.value.stop() : member.value.close());
  await site.value.close();
  process.disconnect?.();
}
