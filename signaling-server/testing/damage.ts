/** Seeded damage to a data directory: flipped bits, cut files, files in each other's place, rows that were never written so. */
import {
  closeSync,
  copyFileSync,
  ftruncateSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  statSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { invariant } from '../../swarm/base.ts';

type Random = () => number;

const below = (random: Random, count: number): number => Math.floor(random() * count);
function oneOf<T>(random: Random, all: readonly T[]): T {
  const one = all[below(random, all.length)];
  invariant(one !== undefined, 'there is something to choose from');
  return one;
}

/** Every file below it, by its path there. */
const filesIn = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .sort();

/** The database is large beside the rest in few files: half of all damage is its own. */
function aFile(random: Random, folder: string): string {
  const files = filesIn(folder).filter((name) => statSync(join(folder, name)).size > 0);
  const ofDatabase = files.filter((name) => name.startsWith('shoal.'));
  return oneOf(random, random() < 0.5 ? ofDatabase : files);
}

function flip(random: Random, folder: string): string {
  const name = aFile(random, folder);
  const file = openSync(join(folder, name), 'r+');
  const at = below(random, statSync(join(folder, name)).size);
  const bit = below(random, 8);
  const byte = Buffer.alloc(1);
  readSync(file, byte, 0, 1, at);
  byte.writeUInt8(byte.readUInt8() ^ (1 << bit));
  writeSync(file, byte, 0, 1, at);
  closeSync(file);
  return `bit ${bit} of byte ${at} of ${name}`;
}

function truncate(random: Random, folder: string): string {
  const name = aFile(random, folder);
  const to = below(random, statSync(join(folder, name)).size);
  const file = openSync(join(folder, name), 'r+');
  ftruncateSync(file, to);
  closeSync(file);
  return `${name} cut to ${to} bytes`;
}

function twoFiles(random: Random, folder: string): [string, string] {
  const one = aFile(random, folder);
  return [
    one,
    oneOf(
      random,
      filesIn(folder).filter((name) => name !== one),
    ),
  ];
}

function exchange(random: Random, folder: string): string {
  const [one, other] = twoFiles(random, folder);
  const aside = join(folder, 'aside');
  renameSync(join(folder, one), aside);
  renameSync(join(folder, other), join(folder, one));
  renameSync(aside, join(folder, other));
  return `${one} and ${other} exchanged`;
}

function replace(random: Random, folder: string): string {
  const [one, other] = twoFiles(random, folder);
  copyFileSync(join(folder, other), join(folder, one));
  return `${other} in the place of ${one}`;
}

type Row = Readonly<Record<string, string | number | null>>;

/** As anyone with a shell could, past everything that the store does. */
function changeRows(random: Random, folder: string): string {
  const database = new DatabaseSync(join(folder, 'shoal.sqlite'), { enableForeignKeyConstraints: false });
  try {
    const tables = (
      database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all() as { name: string }[]
    ).flatMap(({ name }) => (name.startsWith('sqlite_') ? [] : name));
    for (;;) {
      const table = oneOf(random, tables);
      const rows = database.prepare(`SELECT * FROM ${table}`).all() as Row[];
      if (rows.length === 0) continue;
      const done = changeOne(random, database, table, rows);
      if (done !== null) return `${table}: ${done}`;
    }
  } finally {
    database.close();
  }
}

const isRow = (row: Row): [string, (string | number | null)[]] => [
  Object.keys(row)
    .map((column) => `${column} IS ?`)
    .join(' AND '),
  Object.values(row),
];

/** Null: it would change nothing, or the schema forbids it. */
function changeOne(
  random: Random,
  database: InstanceType<typeof DatabaseSync>,
  table: string,
  rows: readonly Row[],
): string | null {
  const [row, other] = [oneOf(random, rows), oneOf(random, rows)];
  const column = oneOf(random, Object.keys(row));
  const [where, values] = isRow(row);
  if (random() < 0.3) {
    database.prepare(`DELETE FROM ${table} WHERE ${where}`).run(...values);
    return `lost ${JSON.stringify(row).slice(0, 200)}`;
  }
  const [mine, its] = [row[column] ?? null, other[column] ?? null];
  const isExchanged = random() < 0.5;
  const changed = isExchanged ? its : typeof mine === 'number' ? mine + 1 : `${mine ?? ''} `;
  if (changed === mine) return null;
  try {
    const set = (to: string | number | null, condition: string, of: (string | number | null)[]): unknown =>
      database.prepare(`UPDATE ${table} SET ${column} = ? WHERE ${condition}`).run(to, ...of);
    database.exec('BEGIN');
    const [itsWhere, itsValues] = isRow(other);
    set(changed, where, values);
    if (isExchanged) set(mine, itsWhere, itsValues);
    database.exec('COMMIT');
    return `${column} ${JSON.stringify(mine).slice(0, 80)} is ${JSON.stringify(changed).slice(0, 80)}`;
  } catch {
    database.exec('ROLLBACK');
    return null;
  }
}

const KINDS = [flip, flip, flip, truncate, exchange, replace, changeRows];

/** Does one thing to it; answers with what it did. */
export const damage = (random: Random, folder: string): string => oneOf(random, KINDS)(random, folder);
