/**
 * This process's copy of a site's store: a database that has all transactions up to one, whose number stands in its header
 * (application_id), written with it. It is worth nothing by itself: where there is any doubt another one is made of the
 * newest snapshot and the entries after it.
 */
import { readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync, type DatabaseSyncInstance } from '@photostructure/sqlite';
import { forgetSums, keepSums } from '../store/checksums.ts';
import { type Statements, statementsOf } from '../store/database.ts';
import type { Queries } from '../store/queries.ts';
import { SCHEMA_VERSION } from '../store/schema.ts';
import { migrate, prepareConnection } from '../store/store.ts';
import type { Entry } from './entries.ts';

const IS_REPLICA = /^replica-\d+\.sqlite/;

/** A number in the header of a database. */
function headerOf(database: DatabaseSyncInstance, name: 'user_version' | 'application_id'): number {
  return Number(database.prepare(`PRAGMA ${name}`).get()?.[name]);
}

/** The newest version of the store was written by a newer version of shoal. */
export class NewerStore extends Error {}

/** An entry follows on one that this replica has not. */
export class MissingTransaction extends Error {}

interface OpenReplica {
  readonly path: string;
  readonly database: DatabaseSyncInstance;
  readonly statements: Statements;
  /** Nobody has led yet: its tables are this version's own. */
  readonly isBlank: boolean;
}

export class Replica implements Pick<Queries, 'one' | 'many'> {
  readonly #directory: string;
  #files = 0;
  #open: OpenReplica;
  #applied = 0;
  #isClosed = false;
  /** Changes of those before this one. */
  #changesBefore = 0;

  /** What an earlier process left there is taken away. */
  constructor(directory: string) {
    this.#directory = directory;
    for (const name of readdirSync(directory)) if (IS_REPLICA.test(name)) rmSync(join(directory, name));
    this.#open = this.#opened(null);
  }

  /** The database's file: another one after `replaceBy`. */
  get path(): string {
    return this.#open.path;
  }

  /** The last transaction that it has. */
  get applied(): number {
    return this.#applied;
  }

  get version(): number {
    return this.#changesBefore + this.#open.statements.changes();
  }

  readonly one: Queries['one'] = (sql, ...values) => this.#open.statements.one(sql, ...values);
  readonly many: Queries['many'] = (sql, ...values) => this.#open.statements.many(sql, ...values);
  /** Within `write` alone. */
  readonly run: Queries['run'] = (sql, ...values) => this.#open.statements.run(sql, ...values);

  /** Does all of `work` or nothing. Answers with the number of what was changed; null: nothing was. */
  write<T>(work: () => T): { readonly result: T; readonly number: number | null } {
    const { database, statements } = this.#open;
    const before = statements.changes();
    const number = this.#applied + 1;
    const done = statements.atomically(() => {
      const result = work();
      const isChanged = statements.changes() !== before;
      if (isChanged) database.exec(`PRAGMA application_id = ${number}`);
      return { result, number: isChanged ? number : null };
    });
    this.#applied = done.number ?? this.#applied;
    return done;
  }

  /** Does what an entry says, but for transactions that it has. */
  apply(entry: Entry): void {
    if (entry.type === 'leads') {
      this.#reach(entry.version);
      return;
    }
    for (const { number, writes } of entry.transactions) {
      if (number <= this.#applied) continue;
      if (number !== this.#applied + 1) throw new MissingTransaction(`transaction ${this.#applied + 1} is missing`);
      const done = this.write(() => {
        for (const [sql, ...values] of writes) this.run(sql, ...values);
      });
      if (done.number !== number) throw new Error(`transaction ${number} is done as ${done.number}`);
    }
  }

  /** In its place the database of this file, which becomes its own; null: one that has nothing. */
  replaceBy(path: string | null): void {
    // Its folder may be another process's by now.
    if (this.#isClosed) throw new Error('the replica is closed');
    const before = this.#open;
    this.#changesBefore += before.statements.changes() + 1;
    this.#open = this.#opened(path);
    this.#applied = headerOf(this.#open.database, 'application_id');
    before.database.close();
    for (const end of ['', '-wal', '-shm']) rmSync(`${before.path}${end}`, { force: true });
  }

  close(): void {
    this.#isClosed = true;
    this.#open.database.close();
  }

  #reach(version: number): void {
    if (version > SCHEMA_VERSION) throw new NewerStore(newerSentence(version));
    const { isBlank, database } = this.#open;
    const current = headerOf(database, 'user_version');
    if (isBlank) {
      // Its tables are made anew, as they were made by who led first.
      this.#changesBefore += this.#open.statements.changes() + 1;
      database.close();
      for (const end of ['', '-wal', '-shm']) rmSync(`${this.#open.path}${end}`, { force: true });
      this.#open = this.#opened(null, version);
    } else if (version > current) {
      forgetSums(database);
      migrate(database, version);
      keepSums(database);
    }
  }

  #opened(from: string | null, version: number | null = null): OpenReplica {
    this.#files += 1;
    const path = join(this.#directory, `replica-${this.#files}.sqlite`);
    if (from !== null) renameSync(from, path);
    const database = new DatabaseSync(path);
    try {
      // Whatever the machine loses is made anew: it need not be waited for.
      database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF');
      prepareConnection(database);
      const found = headerOf(database, 'user_version');
      if (found > SCHEMA_VERSION) throw new NewerStore(newerSentence(found));
      if (from === null) migrate(database, version ?? SCHEMA_VERSION);
      keepSums(database);
      return { path, database, statements: statementsOf(database), isBlank: from === null && version === null };
    } catch (error) {
      database.close();
      throw error;
    }
  }
}

const newerSentence = (version: number): string =>
  `the site was written by a newer version of shoal (store version ${version}, this one reads ${SCHEMA_VERSION})`;
