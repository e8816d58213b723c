/**
 * `shoal bench server`: how many donors one server holds, how fast it lets them in and how many messages it takes.
 * The donors are sockets that speak the protocol and compute nothing; they share this process with the server, so that
 * every figure is a lower bound.
 */

import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { arrayOf, nearestRank } from '../../swarm/base.ts';
import { PROTOCOL_VERSION } from '../../swarm/messages/messages.ts';
import { SCRIPTED_ADAPTER, SCRIPTED_PROFILE } from '../testing/scriptedDonor.ts';
import { TinyServers } from '../testing/tinyServers.ts';
import { benchCrowd, type CrowdBench, printCrowdBench } from './benchCrowd.ts';

export const DONORS = 1_000;
/** Donors who knock at the same time. */
const WAVE = 20;
/** A server in the open lets in no more (http/arrivals.ts). */
const WAVE_MS = 600;
const MESSAGES_EACH = 50;
const HEARTBEAT = JSON.stringify({ type: 'heartbeat' });

interface ServerBench {
  /** Held at once, of so many who knocked. */
  readonly donorsHeld: number;
  readonly donors: number;
  /** From the first byte of a connection to its welcome, `WAVE` donors at a time. */
  readonly joinMsP50: number;
  readonly joinMsP95: number;
  /** Of donors that are admitted. */
  readonly messagesPerSecond: number;
  readonly residentBytes: number;
  readonly crowd: CrowdBench;
}

export interface Client {
  readonly socket: WebSocket;
  readonly joinMs: number;
}

export async function benchServer(): Promise<ServerBench> {
  return { ...(await benchDonors()), crowd: await benchCrowd() };
}

async function benchDonors(): Promise<Omit<ServerBench, 'crowd'>> {
  const servers = new TinyServers({ steps: 1 }, false);
  const limits = { expectedDonors: DONORS + 1, donorsPerAddress: DONORS, connectionsPerAddress: 2 * DONORS };
  const server = await servers.serve(limits);
  try {
    const clients: Client[] = [];
    while (clients.length < DONORS) {
      clients.push(...(await Promise.all(arrayOf(WAVE, () => knock(server.url)))));
      for (const { socket } of clients) socket.send(HEARTBEAT);
      await sleep(WAVE_MS);
    }
    const joins = clients.map(({ joinMs }) => joinMs);
    const messagesPerSecond = await wordsPerSecond(clients);
    const donorsHeld = clients.filter(isOpen).length;
    const at = (share: number): number => nearestRank(joins, share) ?? 0;
    return {
      ...{ donorsHeld, donors: DONORS, joinMsP50: at(0.5), joinMsP95: at(0.95), messagesPerSecond },
      residentBytes: process.memoryUsage.rss(),
    };
  } finally {
    await servers.close();
  }
}

export const isOpen = ({ socket }: Client): boolean => socket.readyState === WebSocket.OPEN;

/** `address`: from which it seems to come, to a server that trusts this machine as a proxy. Rejects where it is not let in. */
export function knock(url: string, address?: string): Promise<Client> {
  const startMs = performance.now();
  const headers = address === undefined ? {} : { 'x-forwarded-for': address };
  const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/api/donor`, { headers });
  return new Promise((resolve, reject) => {
    socket.on('error', reject);
    socket.on('close', () => reject(new Error('the server closed a connection')));
    socket.on('open', () =>
      socket.send(JSON.stringify({ type: 'hello', protocol: PROTOCOL_VERSION, adapter: SCRIPTED_ADAPTER })),
    );
    socket.on('message', (bytes) => {
      if (!String(bytes).startsWith('{"type":"welcome"')) return;
      socket.send(JSON.stringify({ type: 'measured', profile: SCRIPTED_PROFILE }));
      resolve({ socket, joinMs: performance.now() - startMs });
    });
  });
}

/** Everyone says so much; its pong comes after all of it was dealt with. */
async function wordsPerSecond(clients: readonly Client[]): Promise<number> {
  const startMs = performance.now();
  await Promise.all(
    clients.map(({ socket }) => {
      const answered = new Promise<void>((resolve) => {
        socket.once('pong', resolve);
        socket.on('close', () => resolve());
      });
      for (let i = 0; i < MESSAGES_EACH; i++) socket.send(HEARTBEAT);
      socket.ping();
      return answered;
    }),
  );
  return (clients.length * MESSAGES_EACH) / ((performance.now() - startMs) / 1_000);
}

export function printServerBench({ donorsHeld, donors, joinMsP50, joinMsP95, ...rest }: ServerBench): void {
  console.log(`${donorsHeld} of ${donors} donors held; ${(rest.residentBytes / 1e6).toFixed(0)} MB resident`);
  console.log(`join: median ${joinMsP50.toFixed(1)} ms, 95 % within ${joinMsP95.toFixed(1)} ms, ${WAVE} at a time`);
  console.log(`${rest.messagesPerSecond.toFixed(0)} messages a second taken`);
  printCrowdBench(rest.crowd);
}
