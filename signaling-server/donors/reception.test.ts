/** Donors who come and go without end: what they leave behind is bounded, in the store and on the disk. */
import { DatabaseSync } from '@photostructure/sqlite';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { invariant, type PeerId, peerId } from '../../swarm/base.ts';
import { PROTOCOL_VERSION, type ServerMessage } from '../../swarm/messages/messages.ts';
import { openBlobs } from '../files/blobs.ts';
import { searchHere } from '../planning/planThread.ts';
import { ActiveRun } from '../run/run.ts';
import { addRun } from '../store/dataDirectory.ts';
import { memberId } from '../store/memberStore.ts';
import { storeOn } from '../store/store.ts';
import { SCRIPTED_ADAPTER, SCRIPTED_PROFILE } from '../testing/scriptedDonor.ts';
import { TinyServers } from '../testing/tinyServers.ts';
import { Uploads } from './uploads.ts';

/** Of a browser whose person has a name. */
const KEY = 'the-key-of-a-named-browser';
const JOINS = 6_000;

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
  invariant(store.ok, 'the store is new');
  const blobs = await openBlobs(servers.dataFolder);
  const data = { directory: servers.dataFolder, store: store.value, blobs, close: () => {} };
  const name = await addRun(data, servers.runPath);
  invariant(name.ok, 'the run is a run');
  store.value.saveMember({ id: memberId(KEY), name: 'Ahab', team: '' }, 0);
  const options = {
    wishes: {},
    search: searchHere,
    store: store.value,
    blobs,
    name: name.value,
    log: () => {},
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
  run.reception.gone(peer, 'its connection closed');
}

/** It is let in; what it hears from then on. */
function welcomed(
  run: ActiveRun,
  address = '192.0.2.1',
): { readonly peer: PeerId; readonly received: ServerMessage[] } {
  const received: ServerMessage[] = [];
  const send = (message: ServerMessage) => void received.push(message);
  const link = { address, send, sendBytes: () => {}, refuse: () => {}, close: () => {} };
  const hello = { type: 'hello', protocol: PROTOCOL_VERSION, adapter: SCRIPTED_ADAPTER, key: KEY } as const;
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

test('[SV7] 6,000 joins leave no more rows than half as many', { timeout: 120_000 }, async () => {
  const { run, database } = await runInMemory();
  for (let i = 0; i < JOINS / 2; i++) comeAndGo(run);
  const half = rows(database);
  for (let i = JOINS / 2; i < JOINS; i++) comeAndGo(run);
  const all = rows(database);
  expect(run.epoch).toBe(JOINS);
  expect(Object.keys(all).toSorted()).toContain('epoch');
  const grown = Object.entries(all).filter(([table, count]) => table !== 'event' && count > (half[table] ?? 0));
  expect(grown).toEqual([]);
  expect(all.event).toBeLessThanOrEqual(10_100);
  expect(all).toMatchObject({ epoch: 512, member: 1, memberPeer: 0 });
  expect(run.memory.all()).toEqual([]);
});

test('[SV13] uploads that came into no checkpoint are taken off the disk; what a run or a checkpoint names stays', async () => {
  const blobs = await openBlobs(servers.dataFolder);
  const store = storeOn(new DatabaseSync(':memory:'));
  invariant(store.ok, 'the store is new');
  const uploads = new Uploads(store.value, blobs, 1);
  const named: string[] = [];
  for (let step = 2; step <= 100; step += 2) {
    for (const peer of ['a', 'b']) await uploads.asked(peerId(peer), { epoch: 1, step });
    for (let copy = 0; copy < 4; copy++) uploads.kept(await blobs.put(new Uint8Array([step, copy])));
    if (step !== 40) continue;
    const [state = '', tokens = ''] = await blobs.list();
    named.push(state, tokens);
    const document = { data: { shards: [tokens] }, evaluation: null };
    const manifest = { step: 0, shards: [{ hash: state }] };
    store.value.addRun('tiny', 'hash', JSON.stringify(document), JSON.stringify(manifest), 0);
  }
  const kept = await blobs.list();
  expect(kept).toEqual(expect.arrayContaining(named));
  expect(kept).toHaveLength(3 * 4 + named.length);
});

test('[SV9] an address whose donors vanish from the plan again and again has the next one wait', async () => {
  const { run } = await runInMemory();
  const honest = welcomed(run, '198.51.100.7');
  run.reception.onMessage(honest.peer, { type: 'measured', profile: SCRIPTED_PROFILE });
  // It is still getting ready: whoever comes is planned for at once.
  vi.useFakeTimers({ toFake: ['performance'] });
  try {
    const planned: boolean[] = [];
    for (let i = 0; i < 8; i++) {
      const { peer, received } = welcomed(run);
      run.reception.onMessage(peer, { type: 'measured', profile: SCRIPTED_PROFILE });
      planned.push(received.some(({ type }) => type === 'prepare'));
      run.reception.gone(peer, 'its connection closed');
      vi.advanceTimersByTime(11_000);
    }
    expect(planned).toEqual([true, true, true, true, true, true, false, false]);
  } finally {
    vi.useRealTimers();
  }
});
