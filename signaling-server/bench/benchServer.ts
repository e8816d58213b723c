/**
 * `shoal bench server`: how many donors one server holds, how fast it lets them in and how many messages it passes on.
 * The donors are sockets that speak the protocol and compute nothing; they share this process with the server, so that
 * every figure is a lower bound.
 */
import { performance } from 'node:perf_hooks';
import { WebSocket } from 'ws';
import { PROTOCOL_VERSION } from '../../swarm/messages/messages.ts';
import { SCRIPTED_ADAPTER } from '../testing/scriptedDonor.ts';
import { TinyServers } from '../testing/tinyServers.ts';

const DONORS = 1_000;
/** Donors who knock at the same time. */
const WAVE = 20;
const SIGNALS_EACH = 50;

interface ServerBench {
  /** Held at once, of so many who knocked. */
  readonly donorsHeld: number;
  readonly donors: number;
  /** From the first byte of a connection to its welcome, `WAVE` donors at a time. */
  readonly joinMsP50: number;
  readonly joinMsP95: number;
  /** Signals passed on from donor to donor. */
  readonly messagesPerSecond: number;
  readonly residentBytes: number;
}

interface Client {
  readonly socket: WebSocket;
  readonly peer: string;
  readonly joinMs: number;
  onSignal: () => void;
}

export async function benchServer(): Promise<ServerBench> {
  const servers = new TinyServers({ steps: 1 });
  const limits = { expectedDonors: DONORS + 1, donorsPerAddress: DONORS, connectionsPerAddress: 2 * DONORS };
  const server = await servers.serve(limits);
  try {
    const clients: Client[] = [];
    while (clients.length < DONORS) {
      clients.push(...(await Promise.all(Array.from({ length: WAVE }, () => knock(server.url)))));
    }
    const joins = clients.map(({ joinMs }) => joinMs).sort((a, b) => a - b);
    const messagesPerSecond = await signalsPerSecond(clients);
    const donorsHeld = clients.filter(({ socket }) => socket.readyState === WebSocket.OPEN).length;
    const at = (share: number): number => joins[Math.floor(share * (joins.length - 1))] ?? 0;
    return {
      ...{ donorsHeld, donors: DONORS, joinMsP50: at(0.5), joinMsP95: at(0.95), messagesPerSecond },
      residentBytes: process.memoryUsage.rss(),
    };
  } finally {
    await servers.close();
  }
}

function knock(url: string): Promise<Client> {
  const startMs = performance.now();
  const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/api/donor`);
  return new Promise((resolve, reject) => {
    let client: Client | null = null;
    socket.on('error', reject);
    socket.on('close', () => reject(new Error('the server closed a connection')));
    socket.on('open', () =>
      socket.send(JSON.stringify({ type: 'hello', protocol: PROTOCOL_VERSION, adapter: SCRIPTED_ADAPTER })),
    );
    socket.on('message', (bytes) => {
      const start = String(bytes).slice(0, 200);
      if (start.startsWith('{"type":"signal"')) client?.onSignal();
      const peer = /^\{"type":"welcome".*?"peer":"([^"]+)"/.exec(start)?.[1];
      if (peer === undefined) return;
      client = { socket, peer, joinMs: performance.now() - startMs, onSignal: () => {} };
      resolve(client);
    });
  });
}

/** Everyone writes to the next one. */
async function signalsPerSecond(clients: readonly Client[]): Promise<number> {
  const expected = clients.length * SIGNALS_EACH;
  const startMs = performance.now();
  await new Promise<void>((resolve) => {
    let arrived = 0;
    for (const client of clients) {
      client.onSignal = () => {
        arrived++;
        if (arrived === expected) resolve();
      };
    }
    clients.forEach(({ socket }, index) => {
      const to = clients[(index + 1) % clients.length]?.peer ?? '';
      const text = JSON.stringify({ type: 'signal', to, epoch: 0, data: 'candidate'.repeat(20) });
      for (let i = 0; i < SIGNALS_EACH; i++) socket.send(text);
    });
  });
  return expected / ((performance.now() - startMs) / 1_000);
}

export function printServerBench({ donorsHeld, donors, joinMsP50, joinMsP95, ...rest }: ServerBench): void {
  console.log(`${donorsHeld} of ${donors} donors held; ${(rest.residentBytes / 1e6).toFixed(0)} MB resident`);
  console.log(`join: median ${joinMsP50.toFixed(1)} ms, 95 % within ${joinMsP95.toFixed(1)} ms, ${WAVE} at a time`);
  console.log(`${rest.messagesPerSecond.toFixed(0)} messages a second passed on`);
}
