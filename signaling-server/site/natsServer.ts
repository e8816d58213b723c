/** A nats-server of this process's own, with JetStream: for `swarm --servers`, for benchmarks and tests. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { pause } from '../monitoring/clock.ts';

const PROGRAM = 'nats-server';
const START_LIMIT_MS = 20_000;
const LOOK_MS = 50;
const OWN_PORTS = [20_000, 32_000] as const;

export const NO_NATS_SERVER =
  'there is no program nats-server: install it (Debian and Ubuntu: apt-get install nats-server; else https://nats.io/download), or name a NATS with --nats';

export interface NatsServer {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** Ends at once, as a machine that dies; what it had kept is in its folder. */
  kill(): Promise<void>;
  /** Starts again on the same folder and port. */
  start(): Promise<Result<void>>;
  stop(): Promise<void>;
}

/** Whether the program is there. */
export function hasNatsServer(): boolean {
  try {
    execFileSync(PROGRAM, ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

/** Keeps what it is given in `folder`, and listens on this machine alone; 0: on any free port. `more`: options of the program. */
export async function startNatsServer(
  folder: string,
  port = 0,
  more: readonly string[] = [],
): Promise<Result<NatsServer>> {
  if (!hasNatsServer()) return refusal(NO_NATS_SERVER);
  const own = port === 0 ? await freePort() : port;
  let child: ChildProcess | null = null;
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    const ended = child;
    child = null;
    if (ended === null || ended.exitCode !== null || ended.signalCode !== null) return;
    const exit = once(ended, 'exit');
    ended.kill(signal);
    await exit;
  };
  const start = async (): Promise<Result<void>> => {
    const args = ['-js', '-sd', folder, '-a', '127.0.0.1', '-p', String(own), ...more];
    const started = spawn(PROGRAM, args, { stdio: 'ignore' });
    child = started;
    for (let waitedMs = 0; waitedMs < START_LIMIT_MS; waitedMs += LOOK_MS) {
      if (started.exitCode !== null) break;
      if (await answers(own)) return success(undefined);
      await pause(LOOK_MS);
    }
    await end('SIGKILL');
    return refusal(`nats-server does not start on port ${own} with its folder ${folder}`);
  };
  const begun = await start();
  if (!begun.ok) return begun;
  return success({
    ...{ url: `nats://127.0.0.1:${own}`, port: own },
    get pid() {
      return child?.pid ?? 0;
    },
    kill: () => end('SIGKILL'),
    start,
    stop: () => end('SIGTERM'),
  });
}

/**
 * One that nobody listens on, below those that systems give to connections that go out (Linux: from 32,768): so nobody's
 * connection takes it while the server is away, not even a client's that tries to reach the server again.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(...OWN_PORTS);
    const server = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false));
      server.listen(port, '127.0.0.1', () => resolve(true));
    });
    if (!isFree) continue;
    server.close();
    await once(server, 'close');
    return port;
  }
}

/** It greets whoever connects. */
function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    const say = (isThere: boolean): void => {
      socket.destroy();
      resolve(isThere);
    };
    socket.once('data', () => say(true));
    socket.once('error', () => say(false));
    socket.setTimeout(1_000, () => say(false));
  });
}
