/**
 * What a database holds, summed up: of each table a checksum over its rows, in whatever order, that triggers keep in the
 * very transaction that changes them. What anything else changed, lost, doubled or exchanged shows when it is summed up
 * again. The triggers are a connection's own: none is in the file.
 */
import type { DatabaseSyncInstance } from '@photostructure/sqlite';
import { type Result, refusal, success } from '../../swarm/base.ts';

/** A sum of two, and of two that are taken away, is a whole number that a double has exactly. */
const MODULUS = 2 ** 50;
const HIGH_BITS = 2 ** 18;
/** Tables that no trigger can stand on: those of the schema, and the sums themselves. */
const SCHEMA = 'sqlite_schema';
const SCHEMA_COLUMNS = ['type', 'name', 'tbl_name', 'sql'];
/** In place of a table: the version whose tables were summed up. */
const VERSION = 'version';
/** The first version with sums. */
export const SUMMED_SINCE = 9;

const double = new Float64Array(1);
const words = new Uint32Array(double.buffer);

/** Of one row: of two that differ in one bit, or in the order of their values, it differs. */
export function checksum(row: readonly unknown[]): number {
  let low = 0x2545f491;
  let high = 0x1b873593;
  const add = (word: number): void => {
    low = Math.imul(low ^ word, 0x9e3779b1);
    low = (low << 15) | (low >>> 17);
    high = Math.imul(high ^ word, 0x85ebca77) + low;
    high = (high << 13) | (high >>> 19);
  };
  for (const value of row) {
    if (typeof value === 'string') {
      for (let at = 0; at < value.length; at++) add(value.charCodeAt(at));
      add(value.length);
    } else if (typeof value === 'number') {
      double[0] = value;
      add(words[0] ?? 0);
      add(words[1] ?? 0);
    } else add(value === null ? 1 : 2);
  }
  add(row.length);
  return ((high >>> 0) % HIGH_BITS) * 2 ** 32 + (low >>> 0);
}

/** What the sums are worked out with: for whoever opens a database, before anything else. */
export function addChecksums(database: DatabaseSyncInstance): void {
  const step = (sum: unknown, ...row: unknown[]): number => (Number(sum) + checksum(row)) % MODULUS;
  database.function('rowSum', { deterministic: true, varargs: true }, (...row: unknown[]) => checksum(row));
  database.aggregate('tableSum', { start: 0, varargs: true, step });
}

const namesIn = (database: DatabaseSyncInstance, sql: string): string[] =>
  database
    .prepare(sql)
    .all()
    .map((row) => String((row as { name: unknown }).name));

/** Of every table that is summed up, its columns. */
function tablesOf(database: DatabaseSyncInstance): ReadonlyMap<string, readonly string[]> {
  const tables = namesIn(
    database,
    "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'tally'",
  );
  const columns = (table: string): string[] =>
    namesIn(database, `SELECT name FROM pragma_table_info('${table}', 'main') ORDER BY cid`);
  return new Map(tables.map((table) => [table, columns(table)]));
}

const sumOf = (database: DatabaseSyncInstance, table: string, columns: readonly string[]): number =>
  Number(database.prepare(`SELECT tableSum(${columns.join(', ')}) AS sum FROM main.${table}`).get()?.sum ?? 0);

/** Within the transaction that brought the tables to this version. Each change counts in its sum too, so that no count is changed unseen. */
export function sumUp(database: DatabaseSyncInstance, version: number): void {
  const set = database.prepare(
    `INSERT INTO tally VALUES (?1, ?2, 0) ON CONFLICT DO UPDATE SET sum = (?2 + changes) % ${MODULUS}`,
  );
  set.run(VERSION, version);
  set.run(SCHEMA, sumOf(database, SCHEMA, SCHEMA_COLUMNS));
  for (const [table, columns] of tablesOf(database)) set.run(table, sumOf(database, table, columns));
}

/** From now on this connection's writes are summed up. */
export function keepSums(database: DatabaseSyncInstance): void {
  // Else a row that another one replaces goes unseen.
  database.exec('PRAGMA recursive_triggers = ON');
  for (const [table, columns] of tablesOf(database)) {
    const row = (which: string): string => `rowSum(${columns.map((column) => `${which}.${column}`).join(', ')})`;
    const changes = {
      INSERT: row('NEW'),
      DELETE: `${MODULUS} - ${row('OLD')}`,
      UPDATE: `${row('NEW')} + ${MODULUS} - ${row('OLD')}`,
    };
    for (const [change, difference] of Object.entries(changes))
      database.exec(
        `CREATE TEMP TRIGGER ${table}${change} AFTER ${change} ON main.${table} BEGIN
           UPDATE tally SET sum = (sum + ${difference} + 1) % ${MODULUS}, changes = changes + 1 WHERE name = '${table}';
         END`,
      );
  }
}

/** And now they are not, until `keepSums`: a migration sums up by itself. */
export function forgetSums(database: DatabaseSyncInstance): void {
  for (const trigger of namesIn(database, "SELECT name FROM temp.sqlite_schema WHERE type = 'trigger'"))
    database.exec(`DROP TRIGGER temp.${trigger}`);
}

/** Changed rows since the database was made. */
export const writesOf = (database: DatabaseSyncInstance): number =>
  Number(database.prepare('SELECT sum(changes) AS writes FROM tally').get()?.writes);

export interface Checked {
  readonly version: number;
  /** Changed rows since it was made. */
  readonly writes: number;
}

/** Reads all of it: what SQLite finds wrong, or a table that is not what was written. */
export function check(database: DatabaseSyncInstance, newest: number): Result<Checked> {
  const version = Number(database.prepare('PRAGMA user_version').get()?.user_version);
  const found = String(database.prepare('PRAGMA integrity_check(1)').get()?.integrity_check);
  if (found !== 'ok') return refusal(`SQLite finds "${found.replace(/\s+/g, ' ')}"`);
  const isSummed = namesIn(database, "SELECT name FROM sqlite_schema WHERE name = 'tally'").length > 0;
  if (!isSummed)
    return version < SUMMED_SINCE || version > newest
      ? success({ version, writes: 0 })
      : refusal('its checksums are missing');
  const kept = new Map(
    database
      .prepare('SELECT name, sum, changes FROM tally')
      .all()
      .map((row) => [String(row.name), { sum: Number(row.sum), changes: Number(row.changes) }]),
  );
  if (kept.get(VERSION)?.sum !== version) return refusal(`it says that it is of version ${version}, which it is not`);
  const writes = writesOf(database);
  // How a newer version sums up is its own affair.
  if (version > newest) return success({ version, writes });
  const tables = [[SCHEMA, SCHEMA_COLUMNS] as const, ...tablesOf(database)];
  for (const [table, columns] of tables) {
    const { sum, changes } = kept.get(table) ?? { sum: -1, changes: 0 };
    if ((sumOf(database, table, columns) + changes) % MODULUS !== sum)
      return refusal(`what its table ${table} has is not what was written`);
  }
  return kept.size === tables.length + 1 ? success({ version, writes }) : refusal('a table of it is missing');
}
