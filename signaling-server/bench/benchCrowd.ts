/**
 * The part of `shoal bench server` that asks what strangers cost: two donors commit steps, alone and then beside a crowd
 * that only says hello, does not read, or floods, and comes back about a second after it was let go, whatever it was told. The crowd has a process of
 * its own; the donors share the server's.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Command } from 'commander';
import { WebSocket } from 'ws';
import { arrayOf, nearestRank, peerId } from '../../swarm/base.ts';
import { type PeerMessage, PROTOCOL_VERSION } from '../../swarm/messages/messages.ts';
import { modelFromConfig } from '../../swarm/model/families.ts';
import { equalSplit } from '../../swarm/planner/equalSplit.ts';
import { failed, need } from '../commands/failure.ts';
import { COMMAND_FILE } from '../files/projectRoot.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import type { Server } from '../server.ts';
import { SCRIPTED_ADAPTER, SCRIPTED_PROFILE, ScriptedDonor } from '../testing/scriptedDonor.ts';
import { TinyServers, tinyRunFile } from '../testing/tinyServers.ts';

/** The hidden command that the crowd runs as. */
const CROWD_COMMAND = 'crowd-process';
const STRANGERS = 1_000;
/** Of a donor's computing, a step. */
const STEP_MS = 20;
const WINDOW_MS = 15_000;
const LOOK_MS = 100;
const COMES_BACK_MS = 1_000;
const FLOOD_MS = 20;
const FLOOD_MESSAGES = 20;
const RUN = { steps: 1_000_000, samples: 4 };

interface Window {
  readonly commitsPerSecond: number;
  /** How long `/healthz` took to answer. */
  readonly healthMsP95: number;
  readonly healthMsMost: number;
  readonly residentBytes: number;
}

export interface CrowdBench {
  readonly strangers: number;
  readonly alone: Window;
  readonly beside: Window;
}

export async function benchCrowd(): Promise<CrowdBench> {
  const servers = new TinyServers(RUN, false);
  const model = need(modelFromConfig(tinyRunFile(RUN).model), failed);
  const plan = equalSplit(model, RUN.samples, ['first', 'second'].map(peerId));
  const server = await servers.serve({ plan, access: { trustProxy: ['loopback'] } });
  let crowd: ChildProcess | null = null;
  try {
    for (const address of ['192.0.2.1', '192.0.2.2']) {
      const donor = await ScriptedDonor.joined(server.url, { address, stepMs: STEP_MS });
      if (address === '192.0.2.2') await donor.hears('committed');
    }
    const alone = await watched(server);
    crowd = fork(COMMAND_FILE, [CROWD_COMMAND, server.url], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
    await once(crowd, 'message');
    const beside = await watched(server);
    return { strangers: STRANGERS, alone, beside };
  } finally {
    crowd?.kill();
    await servers.close();
  }
}

async function watched(server: Server): Promise<Window> {
  const { committedSteps } = server.run;
  const beganMs = monotonicMs();
  const healthMs: number[] = [];
  while (monotonicMs() - beganMs < WINDOW_MS) {
    const askedMs = monotonicMs();
    await (await fetch(`${server.url}/healthz`)).text();
    healthMs.push(monotonicMs() - askedMs);
    await sleep(LOOK_MS);
  }
  return {
    commitsPerSecond: (server.run.committedSteps - committedSteps) / ((monotonicMs() - beganMs) / 1_000),
    healthMsP95: nearestRank(healthMs, 0.95) ?? 0,
    healthMsMost: nearestRank(healthMs, 1) ?? 0,
    residentBytes: process.memoryUsage.rss(),
  };
}

export function printCrowdBench({ strangers, alone, beside }: CrowdBench): void {
  for (const [name, window] of [
    ['alone', alone],
    [`beside ${strangers} strangers`, beside],
  ] as const)
    console.log(
      `two donors ${name}: ${window.commitsPerSecond.toFixed(1)} commits a second; /healthz in ${window.healthMsP95.toFixed(1)} ms for 95 %, ` +
        `${window.healthMsMost.toFixed(0)} ms at most; ${(window.residentBytes / 1e6).toFixed(0)} MB resident`,
    );
}

export function addCrowdCommand(program: Command): void {
  program.command(CROWD_COMMAND, { hidden: true }).argument('<url>').action(crowd);
}

/** Until whoever started it is gone, or ends it. */
async function crowd(url: string): Promise<void> {
  process.on('disconnect', () => process.exit(0));
  const arrived = arrayOf(STRANGERS, (number) => stranger(url, number));
  await Promise.race([Promise.all(arrived), sleep(WINDOW_MS)]);
  process.send?.('here');
  await new Promise(() => {});
}

const KINDS = ['hello', 'deaf', 'flood'] as const;
const hello: PeerMessage = { type: 'hello', protocol: PROTOCOL_VERSION, adapter: SCRIPTED_ADAPTER };
const measured: PeerMessage = { type: 'measured', profile: SCRIPTED_PROFILE };

/** Half of them come from one address, the others from one each. Resolves when it was there once. */
function stranger(url: string, number: number): Promise<void> {
  const kind = KINDS[number % KINDS.length];
  const address = number % 2 === 0 ? '198.51.100.1' : `10.0.${number >> 8}.${number & 255}`;
  const headers = { 'x-forwarded-for': address };
  const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/api/donor`, { headers });
  let flood: NodeJS.Timeout | undefined;
  const say = (message: PeerMessage): void => socket.send(JSON.stringify(message));
  return new Promise((resolve) => {
    socket.on('open', () => {
      resolve();
      say(hello);
      if (kind !== 'hello') say(measured);
      if (kind === 'deaf') socket.pause();
      if (kind === 'flood')
        flood = setInterval(() => {
          for (let i = 0; i < FLOOD_MESSAGES; i++) say({ type: 'heartbeat' });
        }, FLOOD_MS);
    });
    socket.on('error', () => {}); // the close that follows says it
    socket.on('close', () => {
      resolve();
      clearInterval(flood);
      setTimeout(() => void stranger(url, number), COMES_BACK_MS * (0.5 + Math.random()));
    });
  });
}
