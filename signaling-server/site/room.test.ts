/** One run at two processes over a real NATS, of which one cannot open it. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { invariant, type Result } from '../../swarm/base.ts';
import type { Server } from '../server.ts';
import { Exchange } from './exchange.ts';
import { FIRST_KEY, openLeases } from './lease.ts';
import { connectNats } from './natsConnection.ts';
import { hasNatsServer, type NatsServer, NO_NATS_SERVER, startNatsServer } from './natsServer.ts';
import { Patience } from './patience.ts';
import { Room, type RoomOptions } from './room.ts';

let folder: string;
let nats: NatsServer;
const toClose: (() => Promise<unknown>)[] = [];

function contentOf<T>(result: Result<T>): T {
  invariant(result.ok, result.ok ? '' : result.reason);
  return result.value;
}

beforeEach(async () => {
  if (!hasNatsServer()) return;
  folder = mkdtempSync(join(tmpdir(), 'shoal-room-'));
  nats = contentOf(await startNatsServer(folder));
});

afterEach(async () => {
  if (!hasNatsServer()) return;
  for (const close of toClose.splice(0).reverse()) await close();
  await nats.stop();
  rmSync(folder, { recursive: true, force: true });
});

const SERVER = { run: { name: 'r' }, want: () => null, close: async () => {} } as unknown as Server;

async function roomAt(open: RoomOptions['open'], log: (text: string) => void): Promise<Room> {
  const connection = contentOf(await connectNats({ urls: [nats.url] }, new Patience(0, () => {})));
  const exchange = new Exchange({ nats: connection, site: 's', log: () => {} });
  exchange.accept(() => true);
  const room = new Room({
    ...{ id: null, key: FIRST_KEY, exchange, open, leases: await openLeases(connection, 's', 1) },
    site: {
      ...{ lead: async () => ({ ok: true, value: undefined }) as const, keepLast: async () => {} },
      ...{ onFenced: () => {}, cutOff: () => {} },
    },
    ...{ log: (_level, text) => log(text), onRole: () => {}, onLook: () => {}, restraintMs: () => 0 },
  });
  toClose.push(async () => {
    await room.close();
    await exchange.close();
    await connection.close();
  });
  return room;
}

describe.skipIf(!hasNatsServer())(hasNatsServer() ? 'a run of a site' : `skipped: ${NO_NATS_SERVER}`, () => {
  test('a process whose opening of a run fails says so and leaves it to another at once', {
    timeout: 60_000,
  }, async () => {
    const said: string[] = [];
    let heard: () => void = () => {};
    const log = (text: string): void => {
      said.push(text);
      heard();
    };
    const failing = await roomAt(() => Promise.reject(new Error('NATS went away')), log);
    const refused = new Promise<void>((resolve) => {
      heard = resolve;
    });
    failing.begin();
    await refused;
    expect(said).toEqual(['this process cannot lead: NATS went away']);
    const other = await roomAt(
      async () => ({ ok: true, value: SERVER }),
      () => {},
    );
    other.begin();
    await expect.poll(() => other.server, { timeout: 40_000 }).toBe(SERVER);
    expect([failing.server, failing.isHeld]).toEqual([null, false]);
  });

  test('a feed from the process that leads ends where NATS stays away, another call waits for it', {
    timeout: 60_000,
  }, async () => {
    const open: RoomOptions['open'] = async () => ({ ok: true, value: SERVER });
    const leading = await roomAt(open, () => {});
    leading.begin();
    await expect.poll(() => leading.isLed, { timeout: 40_000 }).toBe(true);
    const gateway = await roomAt(open, () => {});
    gateway.begin();
    await expect.poll(() => gateway.isLed, { timeout: 40_000 }).toBe(true);
    const client = { remoteAddress: '192.0.2.1', encrypted: false };
    const [feed, call] = [gateway.tunnel(client, true), gateway.tunnel(client)];
    invariant(feed && call, 'there is a way to the one that leads');
    const ended = new Promise<Error>((resolve) => feed.on('error', resolve));
    call.on('error', () => {});
    expect(gateway.isCutOff).toBe(false);
    await nats.stop();
    expect((await ended).message).toBe('NATS does not answer');
    expect([gateway.isCutOff, call.destroyed]).toEqual([true, false]);
    contentOf(await nats.start());
    await expect.poll(() => gateway.isCutOff, { timeout: 40_000 }).toBe(false);
  });
});
