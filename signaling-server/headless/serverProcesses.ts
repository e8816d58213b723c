/**
 * A training's server in a process of its own, so that it can be killed and started again as a machine's crash would: the same
 * port, the same data directory, donors reconnect by themselves. Or several such processes of one site, over a NATS of their
 * own, of which the one that leads is killed while the others go on; to the command they are one server. Orders go down and
 * words come up over a process's own channel. When that closes, whoever is left ends.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Command } from 'commander';
import { arrayOf, got, invariant, type Result, refusal, success } from '../../swarm/base.ts';
import type { Held } from '../../swarm/coordinator/events.ts';
import { COMMAND_FILE, PAGES_FOLDER } from '../files/projectRoot.ts';
import { type Log, terminalLog } from '../monitoring/log.ts';
import { createServer, type Server } from '../server.ts';
import { SiteMember } from '../site/member.ts';
import { startNatsServer } from '../site/natsServer.ts';
import { openSite, type Site } from '../site/site.ts';
import { openDataDirectory } from '../store/dataDirectory.ts';
import { type RunStatus, statusOf, type TrainingOptions, type TrainingServer } from './trainingServer.ts';

/** The hidden command that each child runs. */
const COMMAND = 'server-process';
const SITE = 'swarm';
/** So long a server that was killed waits for the donors it had. */
const GATHER_LIMIT_MS = 20_000;

/** `nats`: of the site that it is a process of; absent: it is alone. `isBack`: it was killed before. */
interface OpenOrder extends TrainingOptions {
  readonly type: 'open';
  readonly directory: string;
  readonly nats?: string;
  readonly port: number;
  readonly isBack: boolean;
}

type Order =
  | OpenOrder
  | { readonly type: 'hold'; readonly held: Held }
  /** So many may come to whoever leads next. */
  | { readonly type: 'expect'; readonly donors: number }
  | { readonly type: 'end'; readonly how: 'stop' | 'close' };

type Word =
  | { readonly type: 'serving'; readonly url: string; readonly operatorToken: string }
  | { readonly type: 'refused'; readonly reason: string }
  /** It leads, and the run stands so. */
  | { readonly type: 'status'; readonly ownDonorKey: string; readonly status: RunStatus }
  | { readonly type: 'leadsNoMore' };

interface Member {
  readonly child: ChildProcess;
  url: string;
  operatorToken: string;
}

/** One that has ended hears nothing. */
function tell(child: ChildProcess, order: Order): void {
  if (child.connected) child.send(order, () => {});
}

async function exit(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
}

type ServerProcess = TrainingServer & Required<Pick<TrainingServer, 'killAndRestart'>>;

/** Starts it alone; the data directory must not be open here. */
export async function openServerProcess(options: TrainingOptions, directory: string): Promise<Result<ServerProcess>> {
  const processes = new Processes(options, [directory]);
  const started = await processes.start();
  return started.ok ? success(processes) : started;
}

interface SiteProcesses {
  readonly server: TrainingServer;
  /** What came of the training, once it is closed. */
  conclude<T>(work: (site: Site) => Promise<T>): Promise<T>;
  /** All of it, NATS too. */
  end(): Promise<void>;
}

/** So many of one site. `prepare` puts the run into it, before any server is there; answers with its name. */
export async function openSiteProcesses(
  options: Omit<TrainingOptions, 'runName'>,
  servers: number,
  prepare: (site: Site) => Promise<string>,
): Promise<Result<SiteProcesses>> {
  const folder = mkdtempSync(join(tmpdir(), 'shoal-site-'));
  const clean = (): void => rmSync(folder, { recursive: true, force: true });
  process.once('exit', clean); // a second signal ends this process wherever it is
  const nats = await startNatsServer(join(folder, 'nats'));
  if (!nats.ok) {
    clean();
    return nats;
  }
  const { url, stop } = nats.value;
  let server: Processes | null = null;
  const end = async (): Promise<void> => {
    await server?.close();
    await stop();
    clean();
  };
  const withSite = async <T>(work: (site: Site) => Promise<T>): Promise<T> => {
    const site = await openSite({ urls: [url], site: SITE, directory: join(folder, 'command'), log: terminalLog() });
    if (!site.ok) throw new Error(site.reason);
    return work(site.value).finally(() => site.value.close());
  };
  try {
    const runName = await withSite(async (site) => {
      const led = await site.lead();
      if (!led.ok) throw new Error(led.reason);
      const name = await prepare(site);
      await site.data.store.kept();
      return name;
    });
    const directories = arrayOf(servers, (number) => join(folder, `server-${number}`));
    server = new Processes({ ...options, runName }, directories, url);
    const started = await server.start();
    if (started.ok) return success({ server, conclude: withSite, end });
    await end();
    return started;
  } catch (error) {
    await end();
    throw error;
  }
}

class Processes implements TrainingServer {
  readonly #options: TrainingOptions;
  /** Of each process. */
  readonly #directories: readonly string[];
  readonly #nats: string | undefined;
  readonly #members = new Map<number, Member>();
  readonly #listeners = new Set<() => void>();
  #leading: number | null = null;
  #status: RunStatus | null = null;
  #ownDonorKey = '';
  #held: Held = 'none';
  #expectedDonors: number;

  constructor(options: TrainingOptions, directories: readonly string[], nats?: string) {
    this.#options = options;
    this.#directories = directories;
    this.#nats = nats;
    this.#expectedDonors = options.expectedDonors;
  }

  get url(): string {
    return got(this.#members, 0).url;
  }

  get operatorToken(): string {
    return got(this.#members, 0).operatorToken;
  }

  /** Shared out over the processes. */
  donorUrl(donor: number): string {
    return `${got(this.#members, donor % this.#directories.length).url}/#own=${this.#ownDonorKey}`;
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
    for (const number of this.#directories.keys()) {
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

  /** Of several the one that leads is killed. */
  async killAndRestart(donors: number): Promise<Result<null>> {
    const number = this.#leading;
    if (number === null) return refusal('no server leads the run at the moment');
    const { child, url } = got(this.#members, number);
    this.#expectedDonors = donors;
    this.#tellAll({ type: 'expect', donors });
    this.#leading = null;
    // What it said before, and is read late, is older than what another says by then.
    child.removeAllListeners('message');
    child.kill('SIGKILL');
    await exit(child);
    return this.#fork(number, Number(new URL(url).port), true);
  }

  stop(): Promise<void> {
    return this.#end('stop');
  }

  close(): Promise<void> {
    return this.#end('close');
  }

  /** Resolves when it serves. */
  #fork(number: number, port: number, isBack: boolean): Promise<Result<null>> {
    const child = fork(COMMAND_FILE, [COMMAND], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    const member: Member = { child, url: '', operatorToken: '' };
    this.#members.set(number, member);
    tell(child, {
      ...{ ...this.#options, type: 'open', port, isBack, expectedDonors: this.#expectedDonors },
      directory: this.#directories[number] ?? '',
      ...(this.#nats !== undefined && { nats: this.#nats }),
    });
    if (this.#held !== 'none') tell(child, { type: 'hold', held: this.#held });
    return new Promise((resolve) => {
      child.on('exit', () => resolve(refusal('a server process ended before it served')));
      child.on('error', (error) => resolve(refusal(`a server process: ${error.message}`)));
      child.on('message', (word: Word) => {
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

  /**
   * To stop, the one that leads goes to the end of its step first, since the others have nothing to end; to close, it goes last:
   * nobody takes its place when all end.
   */
  async #end(how: 'stop' | 'close'): Promise<void> {
    const leading = [...this.#members].flatMap(([number, { child }]) => (number === this.#leading ? child : []));
    const others = [...this.#members].flatMap(([number, { child }]) => (number === this.#leading ? [] : child));
    for (const group of how === 'stop' ? [leading, others] : [others, leading]) {
      for (const child of group) tell(child, { type: 'end', how: group === leading ? how : 'close' });
      await Promise.all(group.map(exit));
    }
  }
}

export function addServerProcessCommand(program: Command): void {
  program.command(COMMAND, { hidden: true }).action(serveAsProcess);
}

/** How a child serves: what it is to end then. */
interface Serving {
  readonly url: string;
  readonly operatorToken: string;
  end(how: 'stop' | 'close'): Promise<void>;
}

interface Child {
  readonly order: OpenOrder;
  readonly log: Log;
  /** As it was said last. */
  expectedDonors(): number;
  /** It leads the run with this server from now on, or no more. */
  onRole(server: Server | null): void;
}

/** What each child does: serves until it is told to end, or nobody is there to tell it. */
async function serveAsProcess(): Promise<void> {
  // Ctrl-C reaches the whole group: when this server ends is the other process's to say.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
  process.on('disconnect', () => process.exit(1));
  const say = (word: Word): void => void process.send?.(word, undefined, undefined, () => {});
  let held: Held = 'none';
  let expected = 0;
  let leading: Server | null = null;
  let end: (how: 'stop' | 'close') => void = () => {};
  const ended = new Promise<'stop' | 'close'>((resolve) => {
    end = resolve;
  });
  const order = await new Promise<OpenOrder>((resolve) => {
    process.on('message', (order: Order) => {
      if (order.type === 'open') {
        expected = order.expectedDonors;
        resolve(order);
      } else if (order.type === 'hold') {
        held = order.held;
        leading?.run.hold(held);
      } else if (order.type === 'expect') expected = order.donors;
      else end(order.how);
    });
  });
  const onRole = (server: Server | null): void => {
    leading = server;
    if (server === null) {
      say({ type: 'leadsNoMore' });
      return;
    }
    const ownDonorKey = new URL(server.ownDonorUrl).hash.replace('#own=', '');
    const tell = (): void => say({ type: 'status', ownDonorKey, status: statusOf(server.run) });
    if (held !== 'none') server.run.hold(held);
    tell();
    server.run.onChange(() => leading === server && tell());
  };
  const child: Child = { order, log: terminalLog(), expectedDonors: () => expected, onRole };
  const serving = await (order.nats === undefined ? serveAlone(child) : serveInSite(child, order.nats));
  if (!serving.ok) return say({ type: 'refused', reason: serving.reason });
  const { url, operatorToken } = serving.value;
  say({ type: 'serving', url, operatorToken });
  await serving.value.end(await ended);
}

async function serveAlone({ order, log, onRole }: Child): Promise<Result<Serving>> {
  const { directory, isBack, runName } = order;
  const opened = await openDataDirectory(directory);
  if (!opened.ok) return opened;
  const data = opened.value;
  for (const text of data.found) log('warn', text);
  if (!isBack) data.store.setOperatorPaused(runName, false);
  const gatherLimitMs = isBack ? GATHER_LIMIT_MS : null;
  const created = await createServer({ ...order, pages: PAGES_FOLDER, data, log, gatherLimitMs });
  if (!created.ok) return created;
  const server = created.value;
  onRole(server);
  const end = async (how: 'stop' | 'close'): Promise<void> => {
    await server[how]();
    data.close();
  };
  return success({ url: server.url, operatorToken: server.operatorToken(), end });
}

async function serveInSite({ order, log, expectedDonors, onRole }: Child, nats: string): Promise<Result<Serving>> {
  const { directory, port, isBack, ...training } = order;
  const site = await openSite({ urls: [nats], site: SITE, directory, log });
  if (!site.ok) return site;
  const { store } = site.value.data;
  const member = await SiteMember.open({
    ...{ site: site.value, access: {}, host: 'localhost', port, pages: PAGES_FOLDER, log, onRole },
    open: (url, { name, data, runs }) => {
      const shared = { data, log, pages: PAGES_FOLDER, knownAs: url, site: runs };
      if (name !== null) return createServer({ ...shared, runName: name });
      const run = store.run(training.runName);
      if (!isBack && run?.operatorPaused) store.setOperatorPaused(training.runName, false);
      // Whoever leads after another waits for the donors there were, and not for ever.
      const gatherLimitMs = run?.epoch ? GATHER_LIMIT_MS : null;
      return createServer({ ...training, ...shared, expectedDonors: expectedDonors(), gatherLimitMs });
    },
  });
  if (!member.ok) return member;
  const end = async (how: 'stop' | 'close'): Promise<void> => {
    await member.value[how]();
    await site.value.close();
  };
  return success({ url: member.value.url, operatorToken: member.value.operatorToken, end });
}
