/**
 * Emulated homes: each is a network namespace of its own whose only way out is its modem, another one, whose line to the
 * router (router.ts) is as fast as it says. The modem has the line's queue: one in the home itself would count against the
 * browser's own sockets, which drop what is too much for them. A browser that is started in a home opens the server's page
 * at `address`, and meets the other homes by their true addresses. Needs Linux, root, and iproute2.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Result, refusal, success } from '../../../swarm/base.ts';
import { COMMAND_FILE } from '../../files/projectRoot.ts';
import type { BrowserProgram } from '../../headless/chromium.ts';
import { findBrowser, noBrowser } from '../../headless/findBrowser.mjs';
import type { Line } from './line.ts';
import type { NatKind } from './nat.ts';
import { PORTS, routerArguments, serverSocket } from './router.ts';
import { STUN_PORT } from './stun.ts';
import { startTurnServer, turnProblem, turnServerAt } from './turn.ts';

/** Within the homes, and of the homes that have a network address of their own outside. */
const NETWORK = '10.77';
const OUTSIDE = '10.78';
/** Between modems and routers. */
const LINES = '10.79';
const SERVER_ADDRESS = `${NETWORK}.0.2`;
/** Where a browser asks how the world sees it. */
export const STUN_SERVER = { urls: `stun:${SERVER_ADDRESS}:${STUN_PORT}` };
/** So much a line takes at once, and so long a packet may wait for it. */
const SHAPE = ['burst', '16kb', 'latency', '300ms'];
const READY_LIMIT_MS = 30_000;

/** Why this machine has no homes; null: it has. */
export function homesProblem(): string | null {
  if (process.platform !== 'linux' || process.getuid?.() !== 0)
    return 'emulated home networks need root on Linux, which makes network namespaces';
  for (const program of ['ip', 'tc']) {
    try {
      execFileSync(program, ['-V'], { stdio: 'ignore' });
    } catch {
      return `emulated home networks need the program ${program}: install iproute2`;
    }
  }
  return null;
}

/** The TURN server of so many homes, in one more with a public address. */
export const turnServerOf = (homes: number) => turnServerAt(inside(homes));

/** Homes behind routers of these kinds, that reach the server at `port` of this machine. */
export async function openHomes(
  nats: readonly NatKind[],
  line: Line,
  port: number,
  hasTurn = false,
): Promise<Result<Homes>> {
  const problem = homesProblem() ?? (hasTurn ? turnProblem() : null);
  if (problem !== null) return refusal(problem);
  const browser = await findBrowser();
  if (browser === null) return refusal(noBrowser());
  const homes = new Homes(hasTurn ? [...nats, 'none'] : nats, line, port, browser.path);
  try {
    await homes.open();
    if (hasTurn) await homes.openTurn(nats.length);
    return success(homes);
  } catch (error) {
    await homes.close();
    return refusal(`no home networks: ${error instanceof Error ? error.message.split('\n')[0] : error}`);
  }
}

interface CableEnd {
  /** Of the namespace. */
  readonly name: string;
  readonly device: string;
  readonly address: string;
}

class Homes {
  /** The server, as a home sees it. */
  readonly origin: string;
  readonly #nats: readonly NatKind[];
  readonly #line: Line;
  readonly #port: number;
  readonly #browser: string;
  readonly #folder = mkdtempSync(join(tmpdir(), 'shoal-homes-'));
  readonly #namespaces: string[] = [];
  readonly #routers: ChildProcess[] = [];
  #turn: ChildProcess | null = null;
  /** Also where this process is broken off: namespaces outlive the process that made them. */
  readonly #removeAll = (): void => {
    for (const name of this.#namespaces.splice(0)) ip('netns', 'del', name);
    rmSync(this.#folder, { recursive: true, force: true });
  };
  #server: Server | null = null;

  constructor(nats: readonly NatKind[], line: Line, port: number, browser: string) {
    this.#nats = nats;
    this.#line = line;
    this.#port = port;
    this.#browser = browser;
    process.on('exit', this.#removeAll);
    this.origin = `http://${SERVER_ADDRESS}:${port}`;
  }

  /** How a browser is started in a home: WebGPU needs an origin that counts as secure. */
  browserIn(home: number): BrowserProgram {
    return {
      path: join(this.#folder, `browser-${home}`),
      switches: [
        `--unsafely-treat-insecure-origin-as-secure=${this.origin}`,
        '--disable-features=WebRtcHideLocalIpsWithMdns',
      ],
    };
  }

  async open(): Promise<void> {
    for (const home of this.#nats.keys()) this.#addHome(home);
    this.#server = createServer({ allowHalfOpen: true }, (socket) => {
      const server = connect({ host: '127.0.0.1', port: this.#port, allowHalfOpen: true });
      socket.on('error', () => server.destroy());
      server.on('error', () => socket.destroy());
      socket.pipe(server).pipe(socket);
    }).listen(serverSocket(this.#folder));
    await once(this.#server, 'listening');
    await Promise.all(this.#nats.map((nat, home) => this.#startRouter(home, nat)));
  }

  async openTurn(home: number): Promise<void> {
    this.#turn = await startTurnServer(this.#namespace('home', home), inside(home), this.#folder);
  }

  async close(): Promise<void> {
    if (this.#turn !== null) await killed(this.#turn);
    await Promise.all(this.#routers.map(ended));
    this.#server?.close();
    process.off('exit', this.#removeAll);
    this.#removeAll();
  }

  #addHome(home: number): void {
    const [own, modem, router] = [
      this.#namespace('home', home),
      this.#namespace('modem', home),
      this.#namespace('router', home),
    ];
    for (const name of [own, modem, router]) {
      ip('netns', 'add', name);
      this.#namespaces.push(name);
      within(name, 'sh', '-c', 'echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6');
      ip('-n', name, 'link', 'set', 'lo', 'up');
    }
    const [network, line] = [`${NETWORK}.${home + 1}`, `${LINES}.${home + 1}`];
    this.#join(
      { name: own, device: 'modem', address: inside(home) },
      { name: modem, device: 'home', address: `${network}.1` },
    );
    this.#join(
      { name: modem, device: 'line', address: `${line}.1` },
      { name: router, device: 'line', address: `${line}.2` },
    );
    within(modem, 'sh', '-c', 'echo 1 > /proc/sys/net/ipv4/ip_forward');
    ip('-n', own, 'route', 'add', 'default', 'via', `${network}.1`);
    ip('-n', modem, 'route', 'add', 'default', 'via', `${line}.2`);
    ip('-n', router, 'route', 'add', `${network}.0/24`, 'via', `${line}.1`);
    for (const [device, rate] of [
      ['line', this.#line.uploadBitsPerSecond],
      ['home', this.#line.downloadBitsPerSecond],
    ] as const)
      execFileSync('tc', ['-n', modem, 'qdisc', 'add', 'dev', device, 'root', 'tbf', 'rate', `${rate}bit`, ...SHAPE]);
    const range = `${PORTS.first} ${PORTS.first + PORTS.count - 1}`;
    within(own, 'sh', '-c', `echo "${range}" > /proc/sys/net/ipv4/ip_local_port_range`);
    const elsewhere = this.#addresses().filter((_, other) => other !== home);
    for (const address of [...elsewhere, SERVER_ADDRESS]) ip('-n', router, 'addr', 'add', `${address}/32`, 'dev', 'lo');
    const { path } = this.browserIn(home);
    writeFileSync(path, `#!/bin/sh\nexec ip netns exec ${own} '${this.#browser.replaceAll("'", "'\\''")}' "$@"\n`);
    chmodSync(path, 0o755);
  }

  /** Two namespaces by a cable. */
  #join(one: CableEnd, other: CableEnd): void {
    const end = ({ name, device }: CableEnd): string[] => ['name', device, 'netns', name];
    ip('link', 'add', ...end(one), 'type', 'veth', 'peer', ...end(other));
    for (const { name, device, address } of [one, other]) {
      ip('-n', name, 'addr', 'add', `${address}/24`, 'dev', device);
      ip('-n', name, 'link', 'set', device, 'up');
    }
  }

  async #startRouter(home: number, nat: NatKind): Promise<void> {
    const { roundTripMs, jitterMs, loss } = this.#line;
    const orders = routerArguments({
      ...{ addresses: this.#addresses(), home, inside: inside(home), nat, folder: this.#folder, jitterMs, loss },
      server: { address: SERVER_ADDRESS, port: this.#port },
      ...{ delayMs: roundTripMs / 2, serverDelayMs: roundTripMs / 4 },
    });
    const command = ['netns', 'exec', this.#namespace('router', home), process.execPath, COMMAND_FILE, ...orders];
    const router = spawn('ip', command, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#routers.push(router);
    const signal = AbortSignal.timeout(READY_LIMIT_MS);
    await Promise.race([
      once(router.stdout, 'data', { signal }),
      once(router, 'exit', { signal }).then(() => Promise.reject(new Error(`the router of home ${home} ended`))),
    ]);
  }

  /** By which the others see each home. */
  #addresses(): string[] {
    return this.#nats.map((nat, home) => (nat === 'none' ? inside(home) : `${OUTSIDE}.${home + 1}.2`));
  }

  /** Of this process: others may have homes too. */
  #namespace(kind: 'home' | 'modem' | 'router', home: number): string {
    return `shoal-${process.pid}-${kind}-${home}`;
  }
}

const inside = (home: number): string => `${NETWORK}.${home + 1}.2`;

const ip = (...words: string[]): void => void execFileSync('ip', words, { stdio: ['ignore', 'ignore', 'pipe'] });
const within = (name: string, ...command: string[]): void => ip('netns', 'exec', name, ...command);

async function killed(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const over = once(child, 'exit');
  child.kill('SIGKILL');
  await over;
}

/** A router ends when nobody speaks to it any more. */
async function ended(router: ChildProcess): Promise<void> {
  if (router.exitCode !== null || router.signalCode !== null) return;
  const over = once(router, 'exit');
  router.stdin?.end();
  await over;
}
