/**
 * Bits flipped, files cut and exchanged, rows changed, in the data directory of a run that was really trained: each is
 * found, and what is served then is an earlier state as it was; or nothing that anyone reads has changed.
 */
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { got, invariant, seededRandom } from '../../swarm/base.ts';
import { damage } from '../testing/damage.ts';
import { ScriptedDonor } from '../testing/scriptedDonor.ts';
import { TinyServers, tinyRunFile } from '../testing/tinyServers.ts';
import { type Manifest, manifestHashes, parseManifest, stateProblem } from './checkpointState.ts';
import { loadableProblem } from './checkpoints.ts';
import { COPY_FILES, makeCopy, STORE_FILE } from './copies.ts';
import { addRun, type DataDirectory, openDataDirectory } from './dataDirectory.ts';
import { documentHashes, parseDocument, storedDocument } from './runDocument.ts';

const SEED = 20_261_123;
const CASES = process.env.SHOAL_LONG === '1' ? 2_000 : 80;
/** Each writes to the disk and waits for it. */
const LIMIT_MS = CASES * 2_000;
const RUNS = ['tiny', 'other'];
/** What a run did last stands committed, and in no checkpoint. */
const STEPS = 28;

type Row = Readonly<Record<string, string | number | null>>;
type Tables = ReadonlyMap<string, readonly Row[]>;

/** Every row of a database, by no code of the store. */
function tablesIn(file: string): Tables {
  const database = new DatabaseSync(file);
  try {
    const names = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").all();
    return new Map(names.map(({ name }) => [String(name), database.prepare(`SELECT * FROM ${name}`).all() as Row[]]));
  } finally {
    database.close();
  }
}

const textOf = (row: Row): string => JSON.stringify(row);
const rowsOf = (tables: Tables, table: string): readonly Row[] => got(tables, table);

/** As a server leaves it that is killed, and with all of the database in its own file. */
const LEFT = ['killed', 'merged'] as const;
let servers: TinyServers;
let folder: string;
/** Every row that was ever in the database, or in a copy. */
let everKept: ReadonlyMap<string, ReadonlySet<string>>;

async function train(name: string, steps: number, then: () => void = () => {}): Promise<void> {
  servers.writeRun(tinyRunFile({ steps: 40, name, checkpointEverySteps: 5, evaluationEverySteps: 5 }));
  const server = await servers.serve({ expectedDonors: 1 });
  const donor = new ScriptedDonor(server.url, { key: `the-key-of-the-donor-of-${name}` });
  await server.run.until(({ committedSteps }) => committedSteps >= steps);
  then();
  donor.leave();
  await server.close();
  servers.closeData();
}

beforeAll(async () => {
  servers = new TinyServers({ steps: 40 });
  folder = servers.folder;
  await train('other', 7);
  await train('tiny', 12);
  expect(makeCopy(servers.dataFolder)).toEqual({ isMade: true, found: [] });
  await train('tiny', 22);
  expect(makeCopy(servers.dataFolder)).toEqual({ isMade: true, found: [] });
  await train('tiny', STEPS, () => cpSync(servers.dataFolder, join(folder, 'killed'), { recursive: true }));
  const database = new DatabaseSync(join(servers.dataFolder, STORE_FILE));
  database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  database.close();
  cpSync(servers.dataFolder, join(folder, 'merged'), { recursive: true });
  const all = LEFT.flatMap((left) =>
    [STORE_FILE, ...COPY_FILES].map((file) => tablesIn(aside(join(folder, left, file)))),
  );
  everKept = new Map(
    [...(all[0]?.keys() ?? [])].map((table) => [table, new Set(all.flatMap((one) => rowsOf(one, table).map(textOf)))]),
  );
}, 120_000);
afterAll(() => servers.close());

/** To look at a database changes what lies beside it. */
function aside(file: string): string {
  const place = mkdtempSync(join(folder, 'looked-at-'));
  for (const end of ['', '-wal'])
    if (existsSync(`${file}${end}`)) cpSync(`${file}${end}`, join(place, `${STORE_FILE}${end}`));
  return join(place, STORE_FILE);
}

const opened = async (directory: string): Promise<DataDirectory> => {
  const data = await openDataDirectory(directory);
  invariant(data.ok, data.ok ? '' : data.reason);
  return data.value;
};

const sha256 = (file: string): string | null =>
  existsSync(file) ? createHash('sha256').update(readFileSync(file)).digest('hex') : null;

/** Steps without a gap, each with its credit, as they were done; whatever else is there was there once. */
function expectEarlierState(served: Tables, left: Tables, when: string): void {
  for (const [table, rows] of served) {
    if (['tally', 'run', 'credit', 'setting', 'sqlite_stat1'].includes(table)) continue;
    const known = got(everKept, table);
    const anew = rows.filter((row) => !known.has(textOf(row)) && !['rollBack', 'setAside'].includes(String(row.kind)));
    expect(anew, `${when}: ${table}`).toEqual([]);
  }
  const known = rowsOf(left, 'run').map(({ name, document, contentHash }) => ({ name, document, contentHash }));
  expect(
    rowsOf(served, 'run').map(({ name, document, contentHash }) => ({ name, document, contentHash })),
    when,
  ).toEqual(known);
  for (const run of RUNS) {
    const of = (tables: Tables, table: string): readonly Row[] =>
      rowsOf(tables, table).filter((row) => row.run === run);
    const steps = of(served, 'step').length;
    expect(of(served, 'step'), when).toEqual(of(left, 'step').slice(0, steps));
    const ledger = of(left, 'ledger').filter(({ step }) => Number(step) < steps);
    expect(of(served, 'ledger'), when).toEqual(ledger);
    const credit = new Map<string, number>();
    for (const { donor, tokens } of ledger)
      credit.set(String(donor), (credit.get(String(donor)) ?? 0) + Number(tokens));
    expect(new Map(of(served, 'credit').map(({ donor, tokens }) => [String(donor), tokens])), when).toEqual(credit);
    const newest = Math.max(...of(served, 'checkpoint').map(({ committedSteps }) => Number(committedSteps)));
    expect(steps, `${when}: ${run} stands at its newest checkpoint`).toBe(newest);
  }
}

/** Whoever reads a damaged file is told so, and the newest checkpoint that is left is whole. */
async function expectReadable(data: DataDirectory, when: string): Promise<string[]> {
  const said: string[] = [];
  for (const run of RUNS) {
    let problem = await loadableProblem(data, run, (text) => said.push(text));
    if (problem !== null) {
      said.push(problem);
      // Of what the run was made of: given again it is put right.
      servers.writeRun(parseDocument(data.store.run(run)?.document ?? '').file);
      expect(await addRun(data, servers.runPath), `${when}: ${problem}`).toEqual({ ok: true, value: run });
      problem = await loadableProblem(data, run, (text) => said.push(text));
    }
    expect(problem, when).toBeNull();
    const newest = data.store.newestCheckpoint(run);
    for (const hash of manifestHashes(parseManifest(newest?.manifest ?? '')))
      expect(sha256(data.blobs.path(hash)), `${when}: checkpoint ${newest?.committedSteps} of ${run}`).toBe(hash);
    const manifests = data.store.checkpoints(run).map(({ committedSteps }) => manifestAt(data, run, committedSteps));
    for (const manifest of manifests)
      if (manifestHashes(manifest).some((hash) => sha256(data.blobs.path(hash)) !== hash))
        said.push(
          (await stateProblem(data.blobs, manifest)) ??
            expect.fail(`${when}: checkpoint ${manifest.step} reads as if it were whole`),
        );
    for (const hash of documentHashes(storedDocument(data.store, run)))
      expect(sha256(data.blobs.path(hash)), when).toBe(hash);
  }
  return said;
}

const manifestAt = (data: DataDirectory, run: string, step: number): Manifest =>
  parseManifest(data.store.checkpoint(run, step) ?? '');

/** Whether anything was found. */
async function tryOne(place: string, left: Tables, when: string): Promise<boolean> {
  const data = await opened(place);
  try {
    const served = tablesIn(join(place, STORE_FILE));
    const isChanged = data.found.some((text) => !text.includes('lock.sqlite'));
    if (isChanged) expectEarlierState(served, left, when);
    else expect(served, when).toEqual(left);
    const said = [...data.found, ...(await expectReadable(data, when))];
    for (const sentence of said) expect(sentence, when).not.toContain('\n');
    return said.length > 0;
  } finally {
    data.close();
  }
}

describe('a damaged data directory', () => {
  test(`${CASES} times something else is wrong: it is found, or nobody reads it`, { timeout: LIMIT_MS }, async () => {
    const left = new Map(LEFT.map((one) => [one, tablesIn(aside(join(folder, one, STORE_FILE)))]));
    const place = join(folder, 'case');
    let found = 0;
    for (let seed = SEED; seed < SEED + CASES; seed++) {
      const one = LEFT[seed % LEFT.length] ?? 'killed';
      cpSync(join(folder, one), place, { recursive: true });
      const when = `seed ${seed}, ${one}: ${damage(seededRandom(seed), place)}`;
      const isFound = await tryOne(place, got(left, one), when).catch((cause: unknown) => {
        throw new Error(when, { cause });
      });
      if (isFound) found++;
      rmSync(place, { recursive: true });
    }
    // The others are bits that nobody reads: between the rows, in the index of the log, in copies, in what is kept beside.
    expect(found).toBeGreaterThan(CASES / 2);
  });
});
