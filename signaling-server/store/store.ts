/**
 * The store: which runs there are and what stands committed in each. Every method is one transaction, so that a server
 * that is killed comes back to a whole state. Large things are blobs beside it, named here by their hash. That of a data
 * directory is embedded: one writer (see dataLock.ts) and a write-ahead log.
 */
import type { DatabaseSyncInstance } from '@photostructure/sqlite';
import { lookOf } from '../../swarm/messages/publicName.ts';
import { checkpointStore } from './checkpointStore.ts';
import { addChecksums, keepSums, SUMMED_SINCE, sumUp } from './checksums.ts';
import { contentStore } from './content.ts';
import { statementsOf } from './database.ts';
import { historyStore } from './historyStore.ts';
import { memberStore } from './memberStore.ts';
import { profileStore } from './profileStore.ts';
import type { Queries, Value } from './queries.ts';
import { MIGRATIONS } from './schema.ts';
import { settingStore } from './settingStore.ts';
import { stayStore } from './stayStore.ts';
import { stepStore } from './stepStore.ts';

/** What a store is made on: a database, and when what is written counts as kept. */
interface Engine extends Queries {
  /** Another one after every write. */
  version(): number;
  /**
   * Does this as soon as all that was written up to now is kept: at once, where this machine's disk is what keeps it. In
   * order; what is never kept is never said.
   */
  whenKept(say: () => void): void;
  /** Resolves then; rejects with what `storageProblem` knows where it is never kept. */
  kept(): Promise<void>;
  /** Told, with the reason, where nothing was kept for a while. Answers with what ends that. */
  onStall(listener: (problem: string) => void): () => void;
  close(): void;
}

export type Store = ReturnType<typeof storeOf>;

/**
 * The store in this database, which is migrated where it is of an older version; whatever version it is of, this one can
 * read it. `written` is called after each transaction.
 */
export function storeOn(database: DatabaseSyncInstance, written: () => void = () => {}): Store {
  prepareConnection(database);
  migrate(database);
  keepSums(database);
  const { one, many, run, atomically, changes } = statementsOf(database);
  return storeOf({
    ...{ one, many },
    run: (sql, ...values) => {
      run(sql, ...values);
      if (!database.isTransaction) written();
    },
    atomically: (work) => {
      const result = atomically(work);
      written();
      return result;
    },
    version: changes,
    whenKept: (say) => say(),
    kept: () => Promise.resolve(),
    onStall: () => () => {},
    close: () => database.close(),
  });
}

/** For whoever opens a database, before anything else. */
export function prepareConnection(database: DatabaseSyncInstance): void {
  addChecksums(database);
  database.function('lookOf', { deterministic: true }, (name: unknown) => lookOf(String(name)));
  database.exec('PRAGMA foreign_keys = ON');
}

/** Brings it to this version, where it is of an older one. Nobody keeps sums of it yet. */
export function migrate(database: DatabaseSyncInstance, newest = MIGRATIONS.length): void {
  const version = Number(database.prepare('PRAGMA user_version').get()?.user_version ?? 0);
  MIGRATIONS.slice(version, newest).forEach((statements, index) => {
    const reached = version + index + 1;
    database.exec(`BEGIN IMMEDIATE; ${statements}; PRAGMA user_version = ${reached}`);
    if (reached >= SUMMED_SINCE) sumUp(database, reached);
    database.exec('COMMIT');
  });
}

/** From which the words of donors' names are drawn. */
export const NAME_SECRET = 'nameKey';
/** By which a tab proves which donor it was: a secret. */
export const RESUME_SECRET = 'resumeKey';
/** By which addresses are known again, and nobody reads them. */
export const ADDRESS_SECRET = 'addressKey';

interface RunRow {
  readonly name: string;
  /** Of everything that makes the run what it is: file, data, initial weights. */
  readonly contentHash: string;
  /** The run document (runDocument.ts), as JSON. */
  readonly document: string;
  readonly active: number;
  readonly operatorPaused: number;
  readonly generation: number;
  /** The highest epoch that was ever announced. */
  readonly epoch: number;
  /** Where several groups of donors have islands: the steps that stood at their last meeting. */
  readonly metSteps: number;
}

const runStore = ({ one, many, run, atomically }: Queries) => {
  const runWhere = (condition: string, ...values: Value[]) => {
    const columns = 'name, contentHash, document, active, operatorPaused, generation, epoch, metSteps';
    const row = one<RunRow>(`SELECT ${columns} FROM run WHERE ${condition}`, ...values);
    return row && { ...row, active: row.active === 1, operatorPaused: row.operatorPaused === 1 };
  };
  return {
    /** A new run with its initial state, checkpoint 0. */
    addRun: (name: string, contentHash: string, document: string, manifest: string, nowMs: number) =>
      atomically(() => {
        const columns = 'name, contentHash, document, createdAtMs';
        run(`INSERT INTO run (${columns}) VALUES (?, ?, ?, ?)`, name, contentHash, document, nowMs);
        run('INSERT INTO checkpoint (run, committedSteps, manifest) VALUES (?, 0, ?)', name, manifest);
      }),
    run: (name: string) => runWhere('name = ?', name),
    runNames: () => many<RunRow>('SELECT name FROM run ORDER BY createdAtMs, name').map(({ name }) => name),
    activeRun: () => runWhere('active = 1'),
    createdAtMs: (name: string) =>
      one<{ createdAtMs: number }>('SELECT createdAtMs FROM run WHERE name = ?', name)?.createdAtMs ?? 0,
    // A server that goes on with its run writes nothing: a full disk is for its donors to hear of.
    setActive: (name: string) => run('UPDATE run SET active = (name = ?) WHERE active <> (name = ?)', name, name),
    setOperatorPaused: (name: string, paused: boolean) =>
      run('UPDATE run SET operatorPaused = ? WHERE name = ?', paused ? 1 : 0, name),
  };
};

/** The store that asks and writes by these. */
export function storeOf({ version, whenKept, kept, onStall, close, ...queries }: Engine) {
  return {
    ...contentStore(queries),
    ...runStore(queries),
    ...stepStore(queries),
    ...checkpointStore(queries),
    ...settingStore(queries),
    ...historyStore(queries),
    ...memberStore(queries),
    ...profileStore(queries),
    ...stayStore(queries),
    ...{ version, whenKept, kept, onStall, close },
    /** Has a copy of it made beside it, where it is time for one: answers with what a person should know. */
    copy: async (): Promise<readonly string[]> => [],
  };
}
