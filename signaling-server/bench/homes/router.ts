/**
 * A home's router, a process of its own in a network namespace of its own. It has the addresses of all the other homes
 * and of the server, so that all that its home sends comes to it: packets go on to the other home's router, connections
 * to the server, each after its time on the way. The home at the other end sees the true addresses and ports.
 */
import { createSocket, type Socket as DatagramSocket } from 'node:dgram';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { setPriority } from 'node:os';
import { join } from 'node:path';
import type { Command } from 'commander';
import { z } from 'zod';
import { at, invariant } from '../../../swarm/base.ts';
import { monotonicMs } from '../../monitoring/clock.ts';
import { Delay } from './delay.ts';
import { NAT_KINDS, Nat } from './nat.ts';
import { frameOf, PacketReader } from './packets.ts';
import { STUN_PORT, stunAnswer } from './stun.ts';

const COMMAND = 'home-router';
/** Of each home's sockets; as many are kept here for each other home. */
export const PORTS = { first: 50_000, count: 64 };
/** How long one router waits for another to be there. */
const PATIENCE_MS = 10_000;
const RETRY_MS = 20;
/** Before whatever computes: a packet that waits for a core is late by more than its line says, or lost. */
const NICE = -19;

const ordersSchema = z.object({
  /** Of all homes, as the others see them. */
  addresses: z.array(z.string()),
  /** Of this home, in its own network. */
  inside: z.string(),
  nat: z.enum(NAT_KINDS),
  /** Which of them this router's is. */
  home: z.int(),
  server: z.object({ address: z.string(), port: z.int() }),
  /** Sockets of the routers, and the server's, lie there. */
  folder: z.string(),
  /** One way between two homes, one way to the server, and what is added by chance. */
  delayMs: z.number(),
  serverDelayMs: z.number(),
  jitterMs: z.number(),
  loss: z.number(),
});
type RouterOrders = z.infer<typeof ordersSchema>;

export const routerArguments = (orders: RouterOrders): string[] => [COMMAND, JSON.stringify(orders)];
const routerSocket = (folder: string, home: number): string => join(folder, `${home}.sock`);
export const serverSocket = (folder: string): string => join(folder, 'server.sock');

export function addHomeRouterCommand(program: Command): void {
  program
    .command(COMMAND, { hidden: true })
    .argument('<orders>')
    .action((text: string) => route(ordersSchema.parse(JSON.parse(text))));
}

/** Says `ready` when every way is open, and ends with the process that began it. */
async function route(orders: RouterOrders): Promise<never> {
  setPriority(NICE);
  const { addresses, home, folder } = orders;
  const others = addresses.map((_, index) => index).filter((index) => index !== home);
  const nat = new Nat(orders.nat, PORTS);
  const homes = new Map<number, DatagramSocket[]>();
  for (const other of others) homes.set(other, await socketsAt(at(addresses, other)));
  const arrivals = createServer((socket) => arrive(socket, orders, homes, nat)).listen(routerSocket(folder, home));
  await once(arrivals, 'listening');
  const ways = new Map<number, Socket>();
  for (const other of others) ways.set(other, await opened(routerSocket(folder, other)));
  for (const [other, sockets] of homes) depart(sockets, way(ways, other), { other, nat, loss: orders.loss });
  for (const socket of ways.values()) socket.write(Uint8Array.of(home));
  await answerStun(orders, nat);
  const { address, port } = orders.server;
  await once(
    createServer({ allowHalfOpen: true }, (socket) => serve(socket, orders)).listen(port, address),
    'listening',
  );
  process.stdout.write('ready\n');
  process.stdin.resume();
  await once(process.stdin, 'end');
  process.exit(0);
}

function way(ways: ReadonlyMap<number, Socket>, other: number): Socket {
  const found = ways.get(other);
  invariant(found, `there is a way to home ${other}`);
  return found;
}

async function socketsAt(address: string): Promise<DatagramSocket[]> {
  const sockets: DatagramSocket[] = [];
  for (let index = 0; index < PORTS.count; index++) {
    const socket = createSocket({ type: 'udp4', recvBufferSize: 1 << 20 });
    socket.bind(PORTS.first + index, address);
    await once(socket, 'listening');
    socket.on('error', () => undefined); // a port of the home that nobody listens at any more
    sockets.push(socket);
  }
  return sockets;
}

async function opened(path: string): Promise<Socket> {
  const until = monotonicMs() + PATIENCE_MS;
  for (;;) {
    const socket = connect(path);
    const isOpen = await new Promise<boolean>((resolve) => {
      socket.on('connect', () => resolve(true));
      socket.on('error', () => resolve(false));
    });
    if (isOpen) return socket;
    invariant(monotonicMs() < until, `no router answers at ${path}`);
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

interface Departure {
  readonly other: number;
  readonly nat: Nat;
  readonly loss: number;
}

/** What this home sends to another. What is lost is lost here. */
function depart(sockets: readonly DatagramSocket[], to: Socket, { other, nat, loss }: Departure): void {
  for (const [index, socket] of sockets.entries())
    socket.on('message', (data, { port }) => {
      const toPort = PORTS.first + index;
      const fromPort = nat.out(port, { home: other, port: toPort });
      if (fromPort === null || (loss > 0 && Math.random() < loss)) return;
      to.write(frameOf({ fromPort, toPort, data }));
    });
}

/** By the server's address the home learns how the others see it. */
async function answerStun({ addresses, home, inside, server, serverDelayMs }: RouterOrders, nat: Nat): Promise<void> {
  const socket = createSocket('udp4');
  const delay = new Delay();
  socket.on('message', (request, { port }) => {
    const publicPort = nat.out(port, { home: 'server', port: STUN_PORT });
    const answer = publicPort === null ? null : stunAnswer(request, at(addresses, home), publicPort);
    if (answer !== null) delay.add(2 * serverDelayMs, () => socket.send(answer, port, inside));
  });
  socket.on('error', () => undefined); // a port that nobody listens at any more
  socket.bind(STUN_PORT, server.address);
  await once(socket, 'listening');
}

/** What other homes send to this one: the first byte says which it is that sends. */
function arrive(
  socket: Socket,
  { inside, delayMs, jitterMs }: RouterOrders,
  homes: ReadonlyMap<number, readonly DatagramSocket[]>,
  nat: Nat,
): void {
  const reader = new PacketReader();
  const delay = new Delay();
  let home: number | undefined;
  socket.on('data', (bytes) => {
    const rest = home === undefined ? bytes.subarray(1) : bytes;
    home ??= at([...bytes], 0);
    for (const { fromPort, toPort, data } of reader.read(rest)) {
      const sender = homes.get(home)?.[fromPort - PORTS.first];
      const port = nat.in(toPort, { home, port: fromPort });
      // Another port than those that a home was given is none that anybody could answer.
      if (!sender || port === null) continue;
      delay.add(delayMs + jitterMs * Math.random(), () => sender.send(data, port, inside));
    }
  });
}

/** A connection of this home's to the server: bytes arrive late, and in order. */
function serve(socket: Socket, { folder, serverDelayMs }: RouterOrders): void {
  const server = connect({ path: serverSocket(folder), allowHalfOpen: true });
  for (const [from, to] of [
    [socket, server],
    [server, socket],
  ] as const) {
    const delay = new Delay();
    from.on('data', (bytes) => delay.add(serverDelayMs, () => void to.write(bytes)));
    from.on('end', () => delay.add(serverDelayMs, () => void to.end()));
    from.on('error', () => to.destroy());
    from.on('close', () => delay.add(serverDelayMs, () => void to.destroySoon()));
  }
}
