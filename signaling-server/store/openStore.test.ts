/** A database that is damaged, and what is put in its place; each fault by itself, then with servers that train on. */
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { invariant, peerId } from '../../swarm/base.ts';
import { ScriptedDonor } from '../testing/scriptedDonor.ts';
import { TinyServers } from '../testing/tinyServers.ts';
import { manifestHashes, parseManifest } from './checkpointState.ts';
import { checksum } from './checksums.ts';
import { COPY_FILES, makeCopy, STORE_FILE } from './copies.ts';
import { lockDataDirectory } from './dataLock.ts';
import { LAST_WRITE_FILE } from './lastWrite.ts';
import { type OpenedStore, openStore } from './openStore.ts';
import { rollBacksSince } from './rollBacks.ts';
import { MIGRATIONS } from './schema.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'shoal-damaged-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const at = (name: string): string => join(directory, name);
function opened(): OpenedStore {
  const store = openStore(directory);
  invariant(store.ok, store.ok ? '' : store.reason);
  return store.value;
}
const record = { loss: 5, gradientNorm: 1, learningRate: 0.1, tokens: 8, seconds: 1, donors: 1, stages: 1 };

/** A run of so many steps, with a checkpoint of this number. */
function filled(steps: number, checkpoint: number): void {
  const { store } = opened();
  if (store.run('a') === null) store.addRun('a', 'hash', '{}', '{"step":0,"shards":[]}', 0);
  store.secret('resumeKey', () => 'first');
  for (let step = store.committedSteps('a'); step < steps; step++)
    store.commitStep('a', { ...record, step, microBatches: 1, plan: 1, bytesDirect: 0, bytesRelayed: 0 }, [
      { peer: peerId('p'), tokens: 8 },
    ]);
  store.saveCheckpoint('a', checkpoint, `{"step":${checkpoint},"shards":[]}`);
  store.close();
  changed(WHOLE_FILE);
}
function changed(sql: string, folder = directory): void {
  const database = new DatabaseSync(join(folder, STORE_FILE));
  database.exec(sql);
  database.close();
}
/** All of it is in the database's own file. */
const WHOLE_FILE = 'PRAGMA wal_checkpoint(TRUNCATE)';
const standing = ({ store }: OpenedStore): unknown => [
  store.committedSteps('a'),
  store.newestCheckpoint('a')?.committedSteps,
  store.ledger('a'),
];

test('a server that was killed while it made its database finds an empty one', () => {
  changed('PRAGMA journal_mode = WAL');
  const journal = Buffer.alloc(512);
  journal.write('d9d505f920a163d7', 'hex'); // SQLite's, of a database that was none before; then sizes of its sectors and pages
  journal.writeUInt32BE(512, 20);
  journal.writeUInt32BE(4_096, 24);
  writeFileSync(at(`${STORE_FILE}-journal`), journal);
  const { store, found } = opened();
  expect([store.runNames(), found]).toEqual([[], []]);
  store.close();
});

describe('what is not as it was written', () => {
  const CHANGES = [
    'UPDATE step SET loss = loss + 1e-12 WHERE step = 3',
    'UPDATE step SET step = 100 WHERE step = 8',
    'DELETE FROM ledger WHERE step = 8',
    "INSERT INTO ledger VALUES ('a', 8, 'q', 1)",
    "UPDATE checkpoint SET manifest = '{}' WHERE committedSteps = 5",
    'UPDATE run SET generation = generation + 1',
    "UPDATE tally SET changes = changes + 1 WHERE name = 'step'",
    "DELETE FROM tally WHERE name = 'member'",
    'CREATE TABLE another (one TEXT)',
    'DROP INDEX eventOfRun',
    'PRAGMA user_version = 8',
  ];
  test.each(CHANGES)('%s', (sql) => {
    filled(9, 5);
    expect(makeCopy(directory)).toEqual({ isMade: true, found: [] });
    changed(sql);
    const after = opened();
    expect(after.found).toEqual([
      expect.stringContaining(`${STORE_FILE} cannot be used: `),
      'Run a goes on from checkpoint 5; later steps, and the credit for them, are lost.',
    ]);
    expect(standing(after)).toEqual([5, 5, [{ peer: 'p', tokens: 40 }]]);
    after.store.close();
    expect(existsSync(at(`${STORE_FILE}.damaged-1`))).toBe(true);
    const again = opened();
    expect([again.found, standing(again)]).toEqual([[], [5, 5, [{ peer: 'p', tokens: 40 }]]]);
    again.store.close();
  });

  test('writes that are gone: the newest of database and copies is taken, and no tab comes back with more', () => {
    filled(4, 4);
    copyFileSync(at(STORE_FILE), at('older'));
    filled(9, 5);
    copyFileSync(at('older'), at(STORE_FILE));
    const after = opened();
    expect(after.found[0]).toMatch(/cannot be trusted: it lacks the last 16 of \d+ writes/); // 5 steps, 5 shares, 5 sums, a checkpoint
    expect(standing(after)).toEqual([4, 4, [{ peer: 'p', tokens: 32 }]]);
    expect(after.store.secret('resumeKey', () => 'second')).toBe('second');
    expect(rollBacksSince(after.store, 'a', 0)).toEqual([
      { atStep: 4, toStep: 4, reason: expect.stringContaining('it lacks the last 16') },
    ]);
    expect(after.store.run('a')?.generation).toBe(1);
    after.store.close();
  });

  test('a count of writes that is damaged or gone is taken for a loss of writes', () => {
    filled(9, 5);
    writeFileSync(at(LAST_WRITE_FILE), readFileSync(at(LAST_WRITE_FILE), 'utf8').replace('1', '2'));
    for (const aside of [['shoal.writes.damaged-1'], []]) {
      const after = opened();
      expect(after.found).toEqual([
        ...aside.map((name) => expect.stringContaining(`It is set aside as ${name}.`)),
        expect.stringContaining('cannot be trusted: shoal.writes is missing or damaged'),
        expect.stringContaining('Run a goes on from checkpoint 5; '),
      ]);
      expect(standing(after)).toEqual([5, 5, [{ peer: 'p', tokens: 40 }]]);
      after.store.close();
      rmSync(at(LAST_WRITE_FILE));
    }
  });

  test('a store of the version before is summed up as it stands', () => {
    const old = new DatabaseSync(at(STORE_FILE));
    old.exec(`${MIGRATIONS.slice(0, 8).join(';')}; PRAGMA user_version = 8`);
    old.exec("INSERT INTO run (name, contentHash, document, createdAtMs) VALUES ('a', 'hash', '{}', 7)");
    old.close();
    for (const _ of [1, 2]) {
      const after = opened();
      expect([after.found, after.store.runNames()]).toEqual([[], ['a']]);
      after.store.close();
    }
  });

  test('checksums of rows that differ in a bit, a length or an order differ', () => {
    const rows = [[], [0], [null], [''], ['0'], [1], [5e-324], [1, 2], [2, 1], ['ab', 'c'], ['a', 'bc'], ['abc', '']];
    expect(new Set(rows.map(checksum)).size).toBe(rows.length);
    expect(rows.map(checksum).every((sum) => Number.isSafeInteger(sum) && sum >= 0 && sum < 2 ** 50)).toBe(true);
  });
});

describe('copies', () => {
  test('nothing is whole: refused in a sentence, and nothing is changed', () => {
    filled(9, 5);
    makeCopy(directory);
    for (const name of [STORE_FILE, COPY_FILES[0]]) truncateSync(at(name), 5_000);
    const left = (): string[][] =>
      readdirSync(directory).flatMap((name) =>
        /-(shm|wal)$/.test(name) ? [] : [[name, readFileSync(at(name), 'hex')]],
      );
    const before = left();
    expect(openStore(directory)).toEqual({
      ok: false,
      reason: expect.stringMatching(/^[^\n]* cannot be used: [^\n]*\. No copy of it is whole: use a backup$/),
    });
    expect(left()).toEqual(before);
  });

  test('an empty file is no database that lost its writes', () => {
    filled(9, 5);
    rmSync(at(`${STORE_FILE}-wal`));
    truncateSync(at(STORE_FILE), 0);
    for (const _ of [1, 2])
      expect(openStore(directory)).toEqual({ ok: false, reason: expect.stringContaining('No copy of it is whole') });
  });

  test('the database is gone: a copy is in its place', () => {
    filled(9, 5);
    makeCopy(directory);
    rmSync(at(STORE_FILE));
    const after = opened();
    expect(after.found[0]).toContain(`${STORE_FILE} is missing. The copy `);
    expect(standing(after)).toEqual([5, 5, [{ peer: 'p', tokens: 40 }]]);
    after.store.close();
  });

  test('of a damaged database none is made, and a damaged copy takes no good one’s place', () => {
    filled(4, 4);
    makeCopy(directory);
    filled(9, 5);
    makeCopy(directory);
    const older = readFileSync(at(COPY_FILES[1]), 'hex');
    truncateSync(at(COPY_FILES[0]), 8_192);
    filled(12, 10);
    expect(makeCopy(directory)).toEqual({
      isMade: true,
      found: [
        expect.stringMatching(
          /copy-1\.sqlite cannot be used: .* It is set aside as shoal\.copy-1\.sqlite\.damaged-1\./,
        ),
      ],
    });
    expect(readFileSync(at(COPY_FILES[1]), 'hex')).toBe(older);
    const newest = readFileSync(at(COPY_FILES[0]), 'hex');
    changed('UPDATE step SET loss = 1 WHERE step = 0');
    expect(makeCopy(directory)).toEqual({
      isMade: false,
      found: [
        'No copy of the database could be made: what its table step has is not what was written. The copies before it stay.',
      ],
    });
    expect(COPY_FILES.map((name) => readFileSync(at(name), 'hex'))).toEqual([newest, older]);
  });

  test('a lock that is no database is made anew', () => {
    writeFileSync(at('lock.sqlite'), 'x'.repeat(5_000));
    const lock = lockDataDirectory(directory);
    invariant(lock.ok, 'it is taken');
    expect(lock.value.found).toEqual([expect.stringContaining('It is set aside as lock.sqlite.damaged-1.')]);
    expect(lockDataDirectory(directory)).toEqual({ ok: false, reason: expect.stringContaining('in use by another') });
    lock.value.release();
  });
});

describe('servers on a damaged directory train on', () => {
  let servers: TinyServers;
  beforeEach(() => {
    servers = new TinyServers({ steps: 16, checkpointEverySteps: 5 });
  });
  afterEach(() => servers.close());

  async function train(
    steps: number,
  ): Promise<{ readonly found: readonly string[]; readonly said: readonly string[] }> {
    const { found, store } = await servers.data();
    const said: string[] = [];
    const server = await servers.serve({
      expectedDonors: 1,
      steps,
      log: (level, text) => level === 'warn' && said.push(text),
    });
    const donor = new ScriptedDonor(server.url);
    await server.run.until(({ phase }) => phase === 'finished');
    expect(store.committedSteps('tiny')).toBe(steps);
    expect(store.ledger('tiny').reduce((sum, { tokens }) => sum + tokens, 0)).toBe(steps * 4 * 8);
    donor.leave();
    await server.close();
    servers.closeData();
    return { found, said };
  }
  const inData = (name: string): string => join(servers.dataFolder, name);

  test('whose database is cut', async () => {
    await train(10);
    expect(makeCopy(servers.dataFolder).isMade).toBe(true);
    await train(13);
    changed(WHOLE_FILE, servers.dataFolder);
    truncateSync(inData(STORE_FILE), 20_000);
    const { found } = await train(16);
    expect(found[1]).toBe('Run tiny goes on from checkpoint 10; later steps, and the credit for them, are lost.');
  });

  test('whose newest checkpoint and whose texts are damaged', async () => {
    await train(10);
    const { store, blobs } = await servers.data();
    const hashesAt = (step: number): string[] => manifestHashes(parseManifest(store.checkpoint('tiny', step) ?? ''));
    const [newest] = hashesAt(10).filter((hash) => !hashesAt(5).includes(hash));
    const document = JSON.parse(store.run('tiny')?.document ?? '') as { data: { shards: string[] } };
    for (const hash of [newest, document.data.shards[0]]) {
      const bytes = readFileSync(blobs.path(hash ?? ''));
      bytes.writeUInt8(bytes.readUInt8(1) ^ 4, 1);
      writeFileSync(blobs.path(hash ?? ''), bytes);
    }
    servers.closeData();
    const { said } = await train(16);
    expect(said[0]).toMatch(/the checkpoint after step 10 cannot be used: .* is damaged: its bytes have changed/);
  });
});
