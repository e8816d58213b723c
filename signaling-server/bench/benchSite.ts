/**
 * `shoal bench server --servers N`: the same questions to a site of several servers over a NATS of its own, each a process as
 * `shoal serve --nats` starts it: how many donors they hold together, how fast they let them in, how many words they take,
 * and how long the word of a commit is on its way. Scripted donors compute nothing and share this process; all are on one
 * machine, so that every figure is a lower bound.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Command } from 'commander';
import { arrayOf, at, nearestRank } from '../../swarm/base.ts';
import { HEARTBEAT_MS, type PeerMessage } from '../../swarm/messages/messages.ts';
import { decodeEnvelope, encodeEnvelope, timeContent } from '../../swarm/messages/relay.ts';
import { peers } from '../../swarm/plan/plan.ts';
import { failed, need } from '../commands/failure.ts';
import { refuseWithout, wholeNumber } from '../commands/options.ts';
import { COMMAND_FILE } from '../files/projectRoot.ts';
import { startNatsServer } from '../site/natsServer.ts';
import { ScriptedDonor } from '../testing/scriptedDonor.ts';
import { TinyServers } from '../testing/tinyServers.ts';
import { benchServer, type Client, DONORS, isOpen, knock, printServerBench } from './benchServer.ts';

/** A server in the open lets in no more (http/arrivals.ts). */
const WAVE_EACH = 20;
const WAVE_MS = 350;
const JOIN_LIMIT_MS = 20_000;
const WORDS_EACH = 50;
const WORDS_LIMIT_MS = 120_000;
const COMMITS = 300;
const PINGS = 300;
const PING_LIMIT_MS = 2_000;
const LOOK_MS = 100;
const LEAD_LIMIT_MS = 30_000;

interface Spread {
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
}

interface SiteBench {
  readonly servers: number;
  readonly donors: number;
  /** At once, when the last one had come. */
  readonly donorsHeld: number;
  /** From the first byte of a connection to its welcome. */
  readonly joinMs: Spread;
  /** Dealt with by the server that leads, of donors that are spread over all of them. */
  readonly wordsPerSecond: number;
  /** From the last word that a step needs to its commit at a donor of another server, where there is one. */
  readonly commitMs: Spread;
  /** A relayed word to another donor and back, by the servers at which the two are; null: there are no such two. */
  readonly relayMs: Readonly<Record<'leading' | 'sameGateway' | 'toLeading' | 'across', Spread | null>>;
  /** Of each server's process, with all donors. */
  readonly residentBytes: readonly number[];
}

const spreadOf = (values: readonly number[]): Spread => {
  const share = (part: number): number => nearestRank(values, part) ?? 0;
  return { p50: share(0.5), p95: share(0.95), p99: share(0.99) };
};

interface SiteServer {
  readonly child: ChildProcess;
  readonly url: string;
  readonly token: string;
}

async function benchSite(servers: number, donors: number): Promise<SiteBench> {
  const folder = mkdtempSync(join(tmpdir(), 'shoal-bench-site-'));
  const tiny = new TinyServers({ steps: 1_000_000 }, false);
  const nats = need(await startNatsServer(join(folder, 'nats')), failed);
  const started: SiteServer[] = [];
  try {
    for (let server = 0; server < servers; server++)
      started.push(await startServer(tiny.runPath, nats.url, join(folder, `server-${server}`)));
    const few = await fewAt(started.map(({ url }) => url));
    const figures = await benchFew(few);
    await pause(at(started, 0));
    // The crowd is as many as may be held, without them.
    for (const donor of few.donors) donor.leave();
    await Promise.all(few.donors.map(({ closed }) => closed));
    return { servers, donors, ...figures, ...(await benchCrowd(started, donors)) };
  } finally {
    for (const { child } of started.reverse()) {
      child.kill('SIGKILL');
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    }
    await nats.stop();
    await tiny.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Once it can reach the one that leads: the first one does. */
async function startServer(runPath: string, nats: string, directory: string): Promise<SiteServer> {
  const options = ['--nats', nats, '--port', '0', '--data-dir', directory];
  const more = ['--trust-proxy', 'loopback', '--schedule', 'gpipe'];
  const child = spawn(process.execPath, [COMMAND_FILE, 'serve', runPath, ...options, ...more], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  let printed = '';
  const address = await new Promise<URL>((resolve, reject) => {
    child.once('exit', () => reject(failed('a server ended before it served')));
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      printed += text;
      const found = /^dashboard:\s+(\S+)$/m.exec(printed)?.[1];
      if (found !== undefined) resolve(new URL(found));
    });
  });
  const url = address.origin;
  for (let waitedMs = 0; !(await fetch(`${url}/readyz`)).ok; waitedMs += LOOK_MS) {
    if (waitedMs > LEAD_LIMIT_MS) throw failed('no server leads');
    await sleep(LOOK_MS);
  }
  return { child, url, token: address.hash.replace('#token=', '') };
}

async function pause({ url, token }: SiteServer): Promise<void> {
  const headers = { 'content-type': 'application/json', origin: url };
  const post = (path: string, body: object, cookie = ''): Promise<Response> =>
    fetch(`${url}/api/operator/${path}`, {
      method: 'POST',
      headers: { ...headers, cookie },
      body: JSON.stringify(body),
    });
  const login = await post('login', { token });
  const answer = await post('command', { command: 'pause' }, login.headers.get('set-cookie')?.split(';')[0] ?? '');
  if (!answer.ok) throw failed(`the run cannot be paused: ${await answer.text()}`);
}

interface Few {
  readonly donors: readonly ScriptedDonor[];
  /** When the newest word of each step was said. */
  readonly saidMs: ReadonlyMap<number, number>;
}

/** Some donors who are all that computes: two at the first server, two at the next, one at the one after that. */
async function fewAt(urls: readonly string[]): Promise<Few> {
  const saidMs = new Map<number, number>();
  const noted = (message: PeerMessage): PeerMessage => {
    if (message.type === 'report') saidMs.set(message.step, performance.now());
    return message;
  };
  const donors: ScriptedDonor[] = [];
  for (const server of [0, 0, 1, 1, 2]) {
    const url = urls[server];
    const address = `192.0.2.${donors.length + 1}`;
    if (url !== undefined) donors.push(await ScriptedDonor.joined(url, { address, lie: noted, uploads: false }));
  }
  return { donors, saidMs };
}

async function benchFew({ donors: few, saidMs }: Few): Promise<Pick<SiteBench, 'commitMs' | 'relayMs'>> {
  const last = at(few, few.length - 1);
  await last.hears('prepare', ({ plan }) => few.every(({ welcome }) => peers(plan).includes(welcome.peer)));
  const commitMs: number[] = [];
  let seen = last.received.length;
  await last.until(() => {
    const nowMs = performance.now();
    for (const message of last.received.slice(seen)) {
      const beganMs = message.type === 'committed' ? saidMs.get(message.step) : undefined;
      if (beganMs !== undefined) commitMs.push(nowMs - beganMs);
    }
    seen = last.received.length;
    return commitMs.length >= COMMITS;
  });
  const [one, two, three, four, five] = few;
  const relayMs = {
    leading: await pings(one, two),
    sameGateway: await pings(three, four),
    toLeading: await pings(one, three),
    across: await pings(three, five),
  };
  return { commitMs: spreadOf(commitMs), relayMs };
}

/** One after the other; null: they are not there, or have nothing to send each other. */
async function pings(one: ScriptedDonor | undefined, other: ScriptedDonor | undefined): Promise<Spread | null> {
  if (one === undefined || other === undefined) return null;
  const hears = async (donor: ScriptedDonor, kind: 'ping' | 'pong'): Promise<boolean> => {
    const came = donor.until(() => {
      const newest = donor.relayed.pop();
      const decoded = newest === undefined ? null : decodeEnvelope(new Uint8Array(newest));
      return decoded?.ok === true && decoded.value.kind === kind;
    });
    return Promise.race([came.then(() => true), sleep(PING_LIMIT_MS, false)]);
  };
  const tookMs: number[] = [];
  while (tookMs.length < PINGS) {
    const beganMs = performance.now();
    const asked = hears(other, 'ping');
    one.sayRaw(encodeEnvelope('ping', other.welcome.peer, timeContent(beganMs)));
    if (!(await asked)) return null;
    const answered = hears(one, 'pong');
    other.sayRaw(encodeEnvelope('pong', one.welcome.peer, timeContent(beganMs)));
    if (!(await answered)) return null;
    tookMs.push(performance.now() - beganMs);
  }
  return spreadOf(tookMs);
}

async function benchCrowd(
  servers: readonly SiteServer[],
  donors: number,
): Promise<Pick<SiteBench, 'donorsHeld' | 'joinMs' | 'wordsPerSecond' | 'residentBytes'>> {
  const clients: Client[] = [];
  let knocked = 0;
  const alive = setInterval(() => {
    for (const client of clients) say(client, HEARTBEAT);
  }, HEARTBEAT_MS);
  try {
    while (knocked < donors) {
      const count = Math.min(WAVE_EACH * servers.length, donors - knocked);
      const wave = arrayOf(count, (index) => knocked + index);
      const came = (client: Client): void => void clients.push(client); // from now on it says that it lives
      await Promise.all(wave.map((number) => tryToJoin(at(servers, number % servers.length).url, number, came)));
      knocked += count;
      await sleep(WAVE_MS);
    }
    const held = clients.filter(isOpen);
    const residentBytes = await Promise.all(servers.map(residentBytesOf));
    const ends = held.map(({ socket }) => new Promise<void>((resolve) => socket.on('close', () => resolve())));
    const beganMs = performance.now();
    for (const client of held) {
      for (let word = 0; word < WORDS_EACH; word++) say(client, HEARTBEAT);
      // The server ends a connection for it: then it has dealt with all that was said before.
      say(client, NONSENSE);
    }
    await Promise.race([Promise.all(ends), sleep(WORDS_LIMIT_MS)]);
    const dealtWith = held.filter((client) => !isOpen(client)).length;
    const wordsPerSecond = (dealtWith * (WORDS_EACH + 1)) / ((performance.now() - beganMs) / 1_000);
    const joins = clients.map(({ joinMs }) => joinMs);
    return { donorsHeld: held.length, joinMs: spreadOf(joins), wordsPerSecond, residentBytes };
  } finally {
    clearInterval(alive);
    for (const { socket } of clients) socket.terminate();
  }
}

const HEARTBEAT = JSON.stringify({ type: 'heartbeat' });
/** No message of any donor. */
const NONSENSE = '{"type":"nonsense"}';

function say(client: Client, text: string): void {
  if (isOpen(client)) client.socket.send(text);
}

/** Each from an address of its own. Resolves when it is let in, or is not, or others need not wait for it any more. */
function tryToJoin(url: string, number: number, came: (client: Client) => void): Promise<void> {
  const joining = knock(url, `10.1.${number >> 8}.${number & 255}`).then(came, () => {});
  return Promise.race([joining, sleep(JOIN_LIMIT_MS)]);
}

async function residentBytesOf({ url }: SiteServer): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(/^(?:shoal|process)_resident_memory_bytes (\S+)$/m.exec(text)?.[1] ?? 0);
}

const shown = (spread: Spread | null): string =>
  spread === null ? 'not measured' : `median ${spread.p50.toFixed(1)} ms, 99 % within ${spread.p99.toFixed(1)} ms`;

function printSiteBench({ servers, donors, donorsHeld, joinMs, wordsPerSecond, ...rest }: SiteBench): void {
  const { commitMs, relayMs, residentBytes } = rest;
  const megabytes = residentBytes.map((bytes) => (bytes / 1e6).toFixed(0)).join(', ');
  console.log(`${donorsHeld} of ${donors} donors held by ${servers} servers; ${megabytes} MB resident`);
  console.log(`join: ${shown(joinMs)}, ${WAVE_EACH * servers} at a time`);
  console.log(`${wordsPerSecond.toFixed(0)} messages a second taken`);
  console.log(`commit: ${shown(commitMs)}`);
  console.log(`relayed word and back, both donors at the server that leads: ${shown(relayMs.leading)}`);
  if (servers < 2) return;
  console.log(`both at another server: ${shown(relayMs.sameGateway)}`);
  console.log(`one at the server that leads, one at another: ${shown(relayMs.toLeading)}`);
  if (servers > 2) console.log(`at two servers of which neither leads: ${shown(relayMs.across)}`);
}

interface ServerBenchOptions {
  readonly servers?: number;
  readonly donors?: number;
  readonly json?: boolean;
}

export function addServerBench(bench: Command): void {
  bench
    .command('server')
    .description(
      'donors that a server holds, how fast they join, messages it takes, and what a crowd of strangers costs; or the same of a site',
    )
    .option('--servers <n>', 'so many servers of a site, over a NATS of its own', wholeNumber('--servers', 1))
    .option('--donors <n>', 'with --servers: held by all of them together', wholeNumber('--donors', 1))
    .option('--json', 'one JSON document on standard output')
    .action(async ({ servers, donors = DONORS, json }: ServerBenchOptions, command: Command) => {
      refuseWithout('--servers', ['--donors'], command);
      if (servers === undefined) return print(await benchServer(), printServerBench, json);
      print(await benchSite(servers, donors), printSiteBench, json);
    });
}

function print<Figures>(figures: Figures, shown: (figures: Figures) => void, json = false): void {
  if (json) console.log(JSON.stringify(figures));
  else shown(figures);
}
