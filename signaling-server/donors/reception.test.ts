/** Donors who come and go without end: what they leave behind is bounded, in the store and on the disk. */
import { DatabaseSync } from '@photostructure/sqlite';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { invariant, type PeerId } from '../../swarm/base.ts';
import { PROTOCOL_VERSION, type ServerMessage } from '../../swarm/messages/messages.ts';
import { Spoken } from '../../swarm/messages/spoken.ts';
import { openBlobs } from '../files/blobs.ts';
import { monotonicMs } from '../monitoring/clock.ts';
import { searchGroupsHere, searchHere } from '../planning/planThread.ts';
import { ActiveRun } from '../run/run.ts';
import { addRun } from '../store/dataDirectory.ts';
import { memberId } from '../store/memberStore.ts';
import { storeOn } from '../store/store.ts';
import { SCRIPTED_ADAPTER, SCRIPTED_PROFILE } from '../testing/scriptedDonor.ts';
import { TinyServers } from '../testing/tinyServers.ts';

/** Of a browser whose person has a name. */
const KEY = 'the-key-of-a-named-browser';
/** Enough that events go, too. */
const JOINS = process.env.SHOAL_LONG === '1' ? 6_000 : 3_000;
const OWN_KEY = 'of this server alone';
const DEVICE_LOST = { type: 'fault', epoch: 0, reason: 'deviceLost', detail: 'it was taken away' } as const;

let servers: TinyServers;
beforeEach(() => {
  servers = new TinyServers({ steps: 1_000, checkpointEverySteps: 2 });
});
afterEach(() => servers.close());

/** A run whose store is in memory, and the database under it. */
async function runInMemory(): Promise<{
  readonly run: ActiveRun;
  readonly database: InstanceType<typeof DatabaseSync>;
}> {
  const database = new DatabaseSync(':memory:');
  const store = storeOn(database);
  const blobs = await openBlobs(servers.dataFolder);
  const data = { directory: servers.dataFolder, store, found: [], blobs, close: () => {} };
  const name = await addRun(data, servers.runPath);
  invariant(name.ok, 'the run is a run');
  store.saveMember({ id: memberId(KEY), name: 'Ahab', team: '' }, 0);
  const options = {
    wishes: {},
    search: searchHere,
    searchGroups: searchGroupsHere,
    store,
    blobs,
    name: name.value,
    ownKey: OWN_KEY,
    log: () => {},
    networkName: (address: string) => address,
    isOneLine: () => false,
    expectedDonors: null,
  };
  const run = servers.closing(new ActiveRun(options));
  return { run, database };
}

/** Joins, is planned for, says that it is ready, and is gone. */
function comeAndGo(run: ActiveRun): void {
  const { peer, received } = welcomed(run);
  run.reception.onMessage(peer, { type: 'measured', profile: SCRIPTED_PROFILE });
  const prepare = received.find(({ type }) => type === 'prepare');
  invariant(prepare?.type === 'prepare', 'it is planned for');
  run.reception.onMessage(peer, { type: 'ready', epoch: prepare.epoch, memoryBytes: 1 });
  invariant(received.at(-1)?.type === 'start', 'it is at work');
  run.reception.gone(peer, 'its connection closed', false);
}

/** It is let in; what it hears from then on. */
function welcomed(
  run: ActiveRun,
  address = '192.0.2.1',
  { isHere = false, own }: { isHere?: boolean; own?: string | undefined } = {},
): { readonly peer: PeerId; readonly received: ServerMessage[] } {
  const received: ServerMessage[] = [];
  const send = (message: ServerMessage) => void received.push(message);
  const link = {
    ...{ address, isHere, send, spoken: new Spoken<Buffer>(), sendNewest: () => {}, sendBytes: () => {} },
    ...{ roundTripMs: null, goOnFrom: () => {}, supersede: () => {}, refuse: () => {}, close: () => {} },
  };
  const hello = { type: 'hello', protocol: PROTOCOL_VERSION, adapter: SCRIPTED_ADAPTER, own, key: KEY } as const;
  const peer = run.reception.admit(hello, link);
  invariant(received[0]?.type === 'welcome' && received[0].peer === peer, 'it is welcome');
  return { peer: received[0].peer, received };
}

function rows(database: InstanceType<typeof DatabaseSync>): Record<string, number> {
  const tables = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all() as { name: string }[];
  const count = (table: string) =>
    Number((database.prepare(`SELECT count(*) AS n FROM "${table}"`).get() as { n: number }).n);
  return Object.fromEntries(tables.map(({ name }) => [name, count(name)]));
}

test(`${JOINS} joins leave no more rows than half as many`, { timeout: 120_000 }, async () => {
  const { run, database } = await runInMemory();
  for (let i = 0; i < JOINS / 2; i++) comeAndGo(run);
  const half = rows(database);
  for (let i = JOINS / 2; i < JOINS; i++) comeAndGo(run);
  const all = rows(database);
  expect(run.epoch).toBe(JOINS);
  expect(Object.keys(all).toSorted()).toContain('epoch');
  const grown = Object.entries(all).filter(([table, count]) => table !== 'event' && count > (half[table] ?? 0));
  expect(grown).toEqual([]);
  expect(all.event).toBeGreaterThan(9_900);
  expect(all.event).toBeLessThanOrEqual(10_100);
  expect(all).toMatchObject({ epoch: 512, member: 1, memberPeer: 0 });
  expect(run.memory.all()).toEqual([]);
});

/** An honest donor of elsewhere is getting ready, so that whoever comes is planned for at once. */
async function gettingReady(): Promise<{ readonly run: ActiveRun; readonly honest: ReturnType<typeof welcomed> }> {
  const { run } = await runInMemory();
  const honest = welcomed(run, '198.51.100.7');
  run.reception.onMessage(honest.peer, { type: 'measured', profile: SCRIPTED_PROFILE });
  return { run, honest };
}

/** They are warm for the plan that they were last asked to get ready for. */
function warmUp(run: ActiveRun, ...donors: ReturnType<typeof welcomed>[]): void {
  for (const { peer, received } of donors) {
    const asked = received.findLast(({ type }) => type === 'warm');
    if (asked?.type === 'warm') run.reception.onMessage(peer, { type: 'warmed', number: asked.number });
  }
}

/** Visits of one address, some seconds apart; whether each was planned for. */
async function visits(leave: (run: ActiveRun, peer: PeerId) => void): Promise<boolean[]> {
  const { run, honest } = await gettingReady();
  vi.useFakeTimers({ toFake: ['performance'] });
  try {
    return Array.from({ length: 5 }, () => {
      const visitor = welcomed(run);
      const { peer, received } = visitor;
      run.reception.onMessage(peer, { type: 'measured', profile: SCRIPTED_PROFILE });
      warmUp(run, honest, visitor);
      const isPlanned = received.some(({ type }) => type === 'prepare');
      const waits = received.some((message) => message.type === 'standby' && message.why === 'mustWait');
      expect(isPlanned).toBe(!waits);
      vi.advanceTimersByTime(3_000);
      leave(run, peer);
      vi.advanceTimersByTime(3_000);
      return isPlanned;
    });
  } finally {
    vi.useRealTimers();
  }
}

describe('after two visits that cost the others something, an address has the next one wait', () => {
  const [twice, always] = [
    [true, true, false, false, false],
    [true, true, true, true, true],
  ];
  test('vanished', async () =>
    expect(await visits((run, peer) => run.reception.gone(peer, 'its connection closed', false))).toEqual(twice));
  test('said that its GPU is lost', async () =>
    expect(await visits((run, peer) => run.reception.onMessage(peer, DEVICE_LOST))).toEqual(twice));
  test('asked to rest, and went', async () =>
    expect(
      await visits((run, peer) => {
        run.reception.onMessage(peer, { type: 'pause' });
        run.reception.gone(peer, 'its connection closed', false);
      }),
    ).toEqual(twice));
  test('thrown out or refused', async () =>
    expect(await visits((run, peer) => run.reception.gone(peer, 'it was refused: malformed', true))).toEqual(twice));
  test('left by its button as soon as it had come', async () =>
    expect(
      await visits((run, peer) => {
        run.reception.onMessage(peer, { type: 'leave' });
        run.reception.gone(peer, 'its connection closed', false);
      }),
    ).toEqual(twice));
  test('a stranger that broke a rule before it was welcome', async () =>
    expect(
      await visits((run, peer) => {
        run.reception.onMessage(peer, { type: 'leave' });
        run.reception.gone(peer, 'its connection closed', false);
        run.reception.strangerFailed('198.51.100.99', 0);
      }),
    ).toEqual(twice));
  test('not where it stood by, and nobody needed it', async () =>
    expect(
      await visits((run, peer) => {
        run.reception.onMessage(peer, { type: 'pause' });
        vi.advanceTimersByTime(3_600_000);
        run.reception.onMessage(peer, { type: 'leave' });
        run.reception.gone(peer, 'its connection closed', false);
      }),
    ).toEqual(always));
});

test('a GPU that is lost to nobody else, however often, and one that is lost now and then, is taken back at once', async () => {
  const { run } = await runInMemory();
  vi.useFakeTimers({ toFake: ['performance'] });
  const comes = (): PeerId => {
    const { peer, received } = welcomed(run);
    run.reception.onMessage(peer, { type: 'measured', profile: SCRIPTED_PROFILE });
    expect(received.map(({ type }) => type)).not.toContain('standby');
    return peer;
  };
  try {
    for (let visit = 0; visit < 5; visit++) run.reception.onMessage(comes(), DEVICE_LOST);
    const honest = welcomed(run, '198.51.100.7');
    run.reception.onMessage(honest.peer, { type: 'measured', profile: SCRIPTED_PROFILE });
    for (let visit = 0; visit < 5; visit++) {
      const peer = comes();
      vi.advanceTimersByTime(1_200_000);
      run.reception.onMessage(peer, DEVICE_LOST);
    }
  } finally {
    vi.useRealTimers();
  }
});

describe('who never waits', () => {
  const waits = async (link: { isHere?: boolean; own?: string }): Promise<boolean> => {
    const { run } = await runInMemory();
    for (let loss = 0; loss < 5; loss++) run.reception.strangerFailed('192.0.2.1', monotonicMs());
    const { peer, received } = welcomed(run, '192.0.2.1', link);
    run.reception.onMessage(peer, { type: 'measured', profile: SCRIPTED_PROFILE });
    return received.some((message) => message.type === 'standby' && message.why === 'mustWait');
  };
  test('a donor that the server opened itself, and one of this machine past no proxy', async () => {
    expect(await waits({})).toBe(true);
    expect(await waits({ own: 'another key' })).toBe(true);
    expect(await waits({ own: OWN_KEY })).toBe(false);
    expect(await waits({ isHere: true })).toBe(false);
  });
});
