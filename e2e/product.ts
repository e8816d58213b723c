/**
 * The product as a person runs it: the built command in a process of its own. Whatever a test starts is on one list,
 * and ends with the test, also when that fails; what is ended is ended by its own process id. The lane `servers` runs the same
 * specs with several servers in place of each one (twoServers.ts).
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, expect } from 'vitest';
import { invariant } from '../swarm/base.ts';
import type { CommitRecord } from '../swarm/coordinator/events.ts';
import { parseRunFile, type RunFile } from '../swarm/run/runFile.ts';
import { isOverServers, overServers, startTwoServers } from './twoServers.ts';

const COMMAND = join(import.meta.dirname, '..', 'dist', 'server', 'cli.js');
const GOLDEN = join(import.meta.dirname, 'golden');
/** An orderly stop finishes its step and saves it; past this it is no stop any more. */
const STOP_LIMIT_MS = 60_000;
/** Of each command's log, where a test fails. */
const SHOWN_LINES = 200;

/** `npm test -- --long`. */
export const IS_LONG = process.env.SHOAL_LONG === '1';
/** What the lanes without browsers show at every change on a smaller scale: in the long lane, and over several servers. */
export const isSeldomDue = IS_LONG || isOverServers;

type Release = () => unknown;
const releases: Release[] = [];
const living = new Set<ChildProcess>();
/** By the test that runs. */
const started = new Set<RunningCommand>();

/** Done when the test ends, last one first. */
export function atTestEnd(release: Release): void {
  releases.push(release);
}

afterEach(async ({ task }) => {
  if (task.result?.state === 'fail') for (const command of started) process.stderr.write(command.lastWords());
  started.clear();
  for (let release = releases.pop(); release; release = releases.pop()) await release();
});

// Only when the tests themselves are broken off: nothing orderly is possible any more.
process.on('exit', () => {
  for (const child of living) child.kill('SIGKILL');
});

/** An empty folder that is removed when the test ends. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'shoal-e2e-'));
  atTestEnd(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export class RunningCommand {
  readonly ended: Promise<Ended>;
  readonly #child: ChildProcess;
  readonly #words: readonly string[];
  #stdout = '';
  #stderr = '';

  /** `wrapper`: a program that runs the command it is given. */
  constructor(commandArguments: readonly string[], wrapper: readonly string[] = []) {
    invariant(existsSync(COMMAND), `${COMMAND} is missing: build it first (npm run build)`);
    this.#words = overServers(commandArguments);
    const [program = '', ...rest] = [...wrapper, process.execPath, COMMAND, ...this.#words];
    const child = spawn(program, rest, { stdio: ['ignore', 'pipe', 'pipe'] });
    this.#child = child;
    started.add(this);
    living.add(child);
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.#stdout += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text;
    });
    this.ended = new Promise((resolve) => {
      child.on('close', (code) => {
        living.delete(child);
        resolve({ code, stdout: this.#stdout, stderr: this.#stderr });
      });
    });
    atTestEnd(() => this.stop());
  }

  /** The first match in what it has printed or will print; its log goes to the standard error stream. */
  async printed(pattern: RegExp, stream: 'stdout' | 'stderr' = 'stdout'): Promise<string> {
    const found = new Promise<string>((resolve) => {
      const look = (): void => {
        const match = pattern.exec(stream === 'stdout' ? this.#stdout : this.#stderr)?.[1];
        if (match === undefined) return;
        this.#child[stream]?.off('data', look);
        resolve(match);
      };
      this.#child[stream]?.on('data', look);
      look();
    });
    const tooLate = this.ended.then(({ code, stderr }) => {
      throw new Error(`the command ended with ${code} before it printed ${pattern}: ${stderr}`);
    });
    return Promise.race([found, tooLate]);
  }

  /** What a failed test shows of it: what it was, and the end of its log. */
  lastWords(): string {
    const { pid, exitCode, signalCode } = this.#child;
    const how = living.has(this.#child) ? 'lives' : `ended with ${exitCode ?? signalCode}`;
    const log = this.#stderr.trimEnd().split('\n').slice(-SHOWN_LINES);
    return `\n[${pid}, ${how}] shoal ${this.#words.join(' ')}\n${log.join('\n')}\n`;
  }

  /** As Ctrl-C does; one that does not listen is killed. */
  async stop(): Promise<Ended> {
    if (living.has(this.#child)) this.#child.kill('SIGINT');
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), STOP_LIMIT_MS);
    const ended = await this.ended;
    clearTimeout(timer);
    return ended;
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.ended;
  }
}

export const shoal = (...commandArguments: string[]): Promise<Ended> => new RunningCommand(commandArguments).ended;

/** The recording of a server, its kills and restarts included, comes out of the decisions as it went in. */
export async function expectReplayed(recording: string): Promise<void> {
  const { code, stdout, stderr } = await shoal('replay', recording);
  expect([code, stdout], stderr).toEqual([0, expect.stringMatching(/^\d+ events, \d+ effects, equal\n$/)]);
}

export interface Swarm extends Ended {
  readonly metrics: readonly CommitRecord[];
}

/** `shoal swarm`, with its metrics read; the test fails where it does. */
export async function runSwarm(runFile: string, ...options: string[]): Promise<Swarm> {
  const file = join(temporaryFolder(), 'metrics.jsonl');
  const ended = await shoal('swarm', runFile, '--metrics', file, ...options);
  expect(ended.code, ended.stderr).toBe(0);
  return { ...ended, metrics: jsonLines(file) as CommitRecord[] };
}

export interface ProductServer {
  readonly url: string;
  readonly port: number;
  /** The dashboard's address with the one-time token in it. */
  readonly operatorUrl: string;
  readonly dataDirectory: string;
  stop(): Promise<Ended>;
  kill(): Promise<void>;
  signal(name: NodeJS.Signals): void;
  /** The first match in its log, come or to come. */
  logged(pattern: RegExp): Promise<string>;
}

interface ServeOptions {
  readonly dataDirectory?: string;
  readonly port?: number;
  readonly host?: string;
  readonly iceServers?: string;
  /** gpipe: every donor takes part, in equal parts. Else whoever makes a step shorter, as a person's server has it. */
  readonly schedule?: 'gpipe';
  /** So many pipeline stages, over which every donor is shared out. */
  readonly stages?: number;
  /** Whose word about the addresses of others is believed. */
  readonly trustProxy?: string;
  /** The site that may show `/embed` in a frame. */
  readonly embedOn?: string;
  /** The Hub that its dashboard pushes to, and the OAuth application by which people sign in there. */
  readonly hub?: { readonly url: string; readonly clientId: string };
  /** The file of a recording. */
  readonly record?: string;
  /** So many headless donors of its own. */
  readonly donors?: number;
  /** Only links that carry this token are let in. */
  readonly invite?: string;
  /** Of which it is one process. */
  readonly nats?: string;
}

/** `shoal serve`, once it listens; in the lane `servers` two of them, of one site. */
export async function startServer(runFile: string, options: ServeOptions = {}): Promise<ProductServer> {
  const dataDirectory = options.dataDirectory ?? temporaryFolder();
  if (!isOverServers || options.nats !== undefined) return startProcess(runFile, { ...options, dataDirectory });
  const start = (more: Pick<ServeOptions, 'nats' | 'dataDirectory' | 'port'>) =>
    startProcess(runFile, { ...options, ...more });
  return startTwoServers(dataDirectory, { start, shoal, temporaryFolder, atTestEnd });
}

async function startProcess(runFile: string, { dataDirectory = '', ...options }: ServeOptions): Promise<ProductServer> {
  const command = new RunningCommand([
    'serve',
    runFile,
    ...['--data-dir', dataDirectory, '--port', String(options.port ?? 0)],
    ...(options.host === undefined ? [] : ['--host', options.host]),
    ...(options.schedule === undefined ? [] : ['--schedule', options.schedule]),
    ...(options.stages === undefined ? [] : ['--stages', String(options.stages)]),
    ...(options.trustProxy === undefined ? [] : ['--trust-proxy', options.trustProxy]),
    ...(options.embedOn === undefined ? [] : ['--embed-on', options.embedOn]),
    ...(options.hub === undefined ? [] : ['--hub-url', options.hub.url, '--hub-client-id', options.hub.clientId]),
    ...(options.record === undefined ? [] : ['--record', options.record]),
    ...(options.nats === undefined ? [] : ['--nats', options.nats]),
    ...(options.donors === undefined ? [] : ['--donors', String(options.donors)]),
    ...(options.invite === undefined ? [] : ['--invite', options.invite]),
    ...(options.iceServers === undefined ? [] : ['--ice-servers', options.iceServers]),
  ]);
  const operatorUrl = await command.printed(/^dashboard:\s+(\S+)$/m);
  const { origin, port } = new URL(operatorUrl);
  return {
    url: origin,
    port: Number(port),
    operatorUrl,
    dataDirectory,
    stop: () => command.stop(),
    kill: () => command.kill(),
    signal: (name) => command.signal(name),
    logged: (pattern) => command.printed(pattern, 'stderr'),
  };
}

export const goldenFile = (path: string): string => join(GOLDEN, path);
export function runFileAt(path: string): RunFile {
  const parsed = parseRunFile(JSON.parse(readFileSync(path, 'utf8')), path);
  if (!parsed.ok) throw new Error(parsed.reason);
  return parsed.value;
}
export const jsonLines = (path: string): unknown[] =>
  readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));

export type Json = Record<string, unknown>;

/** A copy of a golden run to change: the path of its run file. Golden runs may share files. */
export function copyOfRun(name: string, change: (run: Json) => Json = (run) => run): string {
  const folder = temporaryFolder();
  cpSync(GOLDEN, folder, { recursive: true });
  const path = join(folder, name, 'run.json');
  writeFileSync(path, JSON.stringify(change(JSON.parse(readFileSync(path, 'utf8')))));
  return path;
}

/** A file beside a copied run file. */
export const beside = (runFile: string, name: string): string => join(dirname(runFile), name);

export const withSteps =
  (steps: number) =>
  (run: Json): Json => ({ ...run, train: { ...(run.train as Json), steps } });
