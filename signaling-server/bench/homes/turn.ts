/**
 * A STUN and TURN server among the homes: coturn, in a home of its own that has a public address. By it donors meet whose
 * routers let nobody in.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { PORTS } from './router.ts';

const PROGRAM = 'turnserver';
const SECRET = { username: 'shoal', credential: 'herring' };
const READY_LIMIT_MS = 20_000;

/** Why there is none; null: there is. */
export const turnProblem = (): string | null =>
  spawnSync(PROGRAM, ['--help']).error === undefined
    ? null
    : `there is no program ${PROGRAM}: install coturn (Debian: apt-get install coturn)`;

/** As donors are told of it. */
export const turnServerAt = (address: string) => ({ urls: `turn:${address}:${PORTS.first}`, ...SECRET });

/** Resolves when it listens; ends when it is killed. */
export async function startTurnServer(namespace: string, address: string, folder: string): Promise<ChildProcess> {
  const identity = [`--user=${SECRET.username}:${SECRET.credential}`, '--realm=shoal', '--lt-cred-mech'];
  const place = [`--listening-ip=${address}`, `--relay-ip=${address}`, `--listening-port=${PORTS.first}`];
  const last = PORTS.first + PORTS.count - 1;
  const ports = [`--min-port=${PORTS.first + 1}`, `--max-port=${last}`];
  const quiet = ['--no-tls', '--no-dtls', '--no-cli', '--no-multicast-peers', '--log-file=stdout', '--verbose'];
  const files = [`--pidfile=${join(folder, 'turn.pid')}`, `--userdb=${join(folder, 'turn-users')}`];
  const words = ['-n', ...identity, ...place, ...ports, ...quiet, ...files];
  const turn = spawn('ip', ['netns', 'exec', namespace, PROGRAM, ...words], { stdio: ['ignore', 'pipe', 'inherit'] });
  const signal = AbortSignal.timeout(READY_LIMIT_MS);
  const listens = new Promise<void>((resolve) => {
    let log = '';
    turn.stdout.setEncoding('utf8').on('data', (text: string) => {
      log = (log + text).slice(-10_000);
      if (/UDP listener opened on/.test(log)) resolve();
    });
  });
  await Promise.race([
    listens,
    once(turn, 'exit', { signal }).then(() => Promise.reject(new Error(`${PROGRAM} ended`))),
  ]);
  return turn;
}
