/**
 * The store: which runs there are and what stands committed in each. Every method is one transaction, so that a server
 * that is killed comes back to a whole state. Large things are blobs beside it, named here by their hash. That of a data
 * directory is embedded: one writer (see dataLock.ts) and a write-ahead log.
 */
import type { DatabaseSyncInstance } from '@photostructure/sqlite';
import { type PeerId, peerId } from '../../swarm/base.ts';
import type { CommitRecord } from '../../swarm/coordinator/events.ts';
import { lookOf } from '../../swarm/messages/publicName.ts';
import type { LedgerEntry } from '../../swarm/plan/ledger.ts';
import { addChecksums, keepSums, SUMMED_SINCE, sumUp } from './checksums.ts';
import { type ContentStore, contentStore } from './content.ts';
import { statementsOf } from './database.ts';
import { type MemberStore, memberStore } from './memberStore.ts';
import { type OperatorStore, operatorStore } from './operatorStore.ts';
import { type ProfileStore, profileStore } from './profileStore.ts';
import type { Queries, Row, Value } from './queries.ts';
import { MIGRATIONS } from './schema.ts';

/** What a store is made on: a database, and when what is written counts as kept. */
interface Engine extends Omit<Queries, 'records'>, Pick<Store, 'version' | 'whenKept' | 'kept' | 'onStall' | 'close'> {}

interface RunRow {
  readonly name: string;
  /** Of everything that makes the run what it is: file, data, initial weights. */
  readonly contentHash: string;
  /** The run document (runDocument.ts), as JSON. */
  readonly document: string;
  readonly active: boolean;
  readonly operatorPaused: boolean;
  readonly generation: number;
  /** The highest epoch that was ever announced. */
  readonly epoch: number;
  /** Where several groups of donors have islands: the steps that stood at their last meeting. */
  readonly metSteps: number;
}

export interface Store extends ContentStore, MemberStore, OperatorStore, ProfileStore {
  /** A secret of this directory, made by `create` the first time it is asked for. */
  secret(key: string, create: () => string): string;
  /** Another one is made when it is asked for. */
  forgetSecret(key: string): void;
  /** A new run with its initial state, checkpoint 0. */
  addRun(name: string, contentHash: string, document: string, manifest: string, nowMs: number): void;
  run(name: string): RunRow | null;
  runNames(): string[];
  activeRun(): RunRow | null;
  setActive(name: string): void;
  setOperatorPaused(name: string, paused: boolean): void;
  saveEpoch(name: string, epoch: number, generation: number, plan: string, reason: string): void;
  commitStep(name: string, record: CommitRecord, ledger: readonly LedgerEntry[], applied?: string): void;
  /** So many steps stand for all groups since they met; what the meeting sent counts with the round's last step. */
  addMeeting(name: string, committedSteps: number, bytesDirect: number, bytesRelayed: number): void;
  /** What this step left, as JSON; null: it is not committed, or an older version of shoal committed it. */
  applied(name: string, step: number): string | null;
  /** Plans of this generation from an epoch on, as JSON, in order. */
  plansFrom(name: string, generation: number, epoch: number): { readonly epoch: number; readonly plan: string }[];
  /**
   * Steps from `toStep` on, and all that was made from them, never were: another generation begins. Checkpoints that are
   * to be kept become former ones.
   */
  rollBack(name: string, toStep: number): void;
  /** Of the steps from `from` on those of this island never were; the others are counted on in their order. */
  endIsland(name: string, island: number, from: number): void;
  saveEvaluation(name: string, committedSteps: number, loss: number): void;
  saveCheckpoint(name: string, committedSteps: number, manifest: string): void;
  /** Nothing happens where there is none. `generation`: the former one of it. */
  deleteCheckpoint(name: string, committedSteps: number, generation?: number): void;
  /** `generation`: the former one of it. */
  checkpoint(name: string, committedSteps: number, generation?: number): string | null;
  newestCheckpoint(name: string): { readonly committedSteps: number; readonly manifest: string } | null;
  /** Every manifest of every run, and those that a copy would go on from: what the blob folder must keep. */
  manifests(): string[];
  committedSteps(name: string): number;
  /** Committed steps from `from` on, in order. */
  steps(name: string, from?: number): CommitRecord[];
  /** Held-out loss by committed steps. */
  evaluations(name: string): Map<number, number>;
  /** The newest so many. */
  newestEvaluations(name: string, count: number): Map<number, number>;
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
  /** What each donor carried in all. */
  ledger(name: string): LedgerEntry[];
  /** Steps of the run that this donor has a part in. */
  stepsOf(name: string, donor: PeerId): number;
  /** What was added of this kind, in order, after the event of the number `after`. */
  events(name: string, kind: string, after: number): string[];
  /** Number of the newest event of any run; 0 where there is none. */
  newestEvent(): number;
  /** Has a copy of it made beside it, where it is time for one: answers with what a person should know. */
  copy(): Promise<readonly string[]>;
  close(): void;
}

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

/** By which a tab proves which donor it was: a secret. */
export const RESUME_SECRET = 'resumeKey';
/** By which addresses are known again, and nobody reads them. */
export const ADDRESS_SECRET = 'addressKey';

/** How many plans are kept: more than the newest steps have, whose spans are shown beside their plans. */
const EPOCHS_KEPT = 512;

const RUN_COLUMNS = 'name, contentHash, document, active, operatorPaused, generation, epoch, metSteps';
const STEP_COLUMNS = [
  'step',
  'loss',
  'gradientNorm',
  'learningRate',
  'tokens',
  'seconds',
  'donors',
  'stages',
  'microBatches',
  'plan',
  'bytesDirect',
  'bytesRelayed',
] as const satisfies readonly (keyof CommitRecord)[];
/** Null where rounds follow from the run file, and wait for their meetings. */
const TURN_COLUMNS = [
  'number',
  'island',
  'round',
  'innerStep',
  'tookIn',
] as const satisfies readonly (keyof CommitRecord)[];
const RECORD_COLUMNS = [...STEP_COLUMNS, ...TURN_COLUMNS];

function recordOf(row: Row): CommitRecord {
  const said = RECORD_COLUMNS.filter((column) => row[column] !== null);
  return Object.fromEntries(said.map((column) => [column, Number(row[column])])) as unknown as CommitRecord;
}

const placeOf = (generation: number | undefined): string =>
  generation === undefined
    ? 'checkpoint WHERE run = ? AND committedSteps = ?'
    : 'formerCheckpoint WHERE run = ? AND committedSteps = ? AND generation = ?';
const numbersOf = (generation: number | undefined): number[] => (generation === undefined ? [] : [generation]);

const runRow = (row: Row): RunRow => ({
  name: String(row.name),
  contentHash: String(row.contentHash),
  document: String(row.document),
  active: row.active === 1,
  operatorPaused: row.operatorPaused === 1,
  generation: Number(row.generation),
  epoch: Number(row.epoch),
  metSteps: Number(row.metSteps),
});

/** The store that asks and writes by these. */
export function storeOf({ one, many, run, atomically, version, whenKept, kept, onStall, close }: Engine): Store {
  const records = (condition: string, ...values: Value[]): CommitRecord[] =>
    many(`SELECT ${RECORD_COLUMNS.join(', ')} FROM step WHERE ${condition} ORDER BY step`, ...values).map(recordOf);

  const evaluationsIn = (sql: string, ...values: Value[]): Map<number, number> =>
    new Map(many(sql, ...values).map((row) => [Number(row.committedSteps), Number(row.loss)]));

  /** They never were, nor what they earned. */
  const undoSteps = (name: string, which: 'step = ?' | 'step >= ?', step: number): void => {
    const undone = `SELECT donor, sum(tokens) AS tokens, count(*) AS steps FROM ledger WHERE run = ? AND ${which} GROUP BY donor`;
    run(
      `UPDATE credit SET tokens = credit.tokens - undone.tokens, steps = credit.steps - undone.steps FROM (${undone}) AS undone WHERE credit.run = ? AND credit.donor = undone.donor`,
      ...[name, step, name],
    );
    run('DELETE FROM credit WHERE run = ? AND steps = 0', name);
    for (const table of ['step', 'ledger', 'trace']) run(`DELETE FROM ${table} WHERE run = ? AND ${which}`, name, step);
  };

  const queries: Queries = { one, many, run, atomically, records };
  return {
    ...contentStore(queries),
    ...memberStore(queries),
    ...operatorStore(queries),
    ...profileStore(queries),
    secret: (key, create) => {
      const known = one('SELECT value FROM setting WHERE key = ?', key);
      if (known !== null) return String(known.value);
      const value = create();
      run('INSERT INTO setting (key, value) VALUES (?, ?)', key, value);
      return value;
    },
    forgetSecret: (key) => run('DELETE FROM setting WHERE key = ?', key),

    addRun: (name, contentHash, document, manifest, nowMs) =>
      atomically(() => {
        const columns = 'name, contentHash, document, createdAtMs';
        run(`INSERT INTO run (${columns}) VALUES (?, ?, ?, ?)`, name, contentHash, document, nowMs);
        run('INSERT INTO checkpoint (run, committedSteps, manifest) VALUES (?, 0, ?)', name, manifest);
      }),
    run: (name) => {
      const row = one(`SELECT ${RUN_COLUMNS} FROM run WHERE name = ?`, name);
      return row && runRow(row);
    },
    runNames: () => many('SELECT name FROM run ORDER BY createdAtMs, name').map((row) => String(row.name)),
    activeRun: () => {
      const row = one(`SELECT ${RUN_COLUMNS} FROM run WHERE active = 1`);
      return row && runRow(row);
    },
    // A server that goes on with its run writes nothing: a full disk is for its donors to hear of.
    setActive: (name) => run('UPDATE run SET active = (name = ?) WHERE active <> (name = ?)', name, name),
    setOperatorPaused: (name, paused) => run('UPDATE run SET operatorPaused = ? WHERE name = ?', paused ? 1 : 0, name),

    saveEpoch: (name, epoch, generation, plan, reason) =>
      atomically(() => {
        run('INSERT OR REPLACE INTO epoch VALUES (?, ?, ?, ?, ?)', name, epoch, generation, plan, reason);
        run('DELETE FROM epoch WHERE run = ? AND epoch <= ?', name, epoch - EPOCHS_KEPT);
        run('UPDATE run SET epoch = max(epoch, ?), generation = ? WHERE name = ?', epoch, generation, name);
      }),

    commitStep: (name, record, ledger, applied) =>
      atomically(() => {
        const places = RECORD_COLUMNS.map(() => '?').join(', ');
        const values = RECORD_COLUMNS.map((column) => record[column] ?? null);
        run(
          `INSERT INTO step (run, ${RECORD_COLUMNS.join(', ')}, applied) VALUES (?, ${places}, ?)`,
          ...[name, ...values, applied ?? null],
        );
        for (const { peer, tokens } of ledger) {
          run('INSERT INTO ledger VALUES (?, ?, ?, ?)', name, record.step, peer, tokens);
          const added = 'ON CONFLICT DO UPDATE SET tokens = tokens + excluded.tokens, steps = steps + 1';
          run(`INSERT INTO credit VALUES (?, ?, ?, 1) ${added}`, name, peer, tokens);
        }
      }),
    addMeeting: (name, committedSteps, bytesDirect, bytesRelayed) =>
      atomically(() => {
        run(
          'UPDATE step SET bytesDirect = bytesDirect + ?, bytesRelayed = bytesRelayed + ? WHERE run = ? AND step = ?',
          ...[bytesDirect, bytesRelayed, name, committedSteps - 1],
        );
        run('UPDATE run SET metSteps = ? WHERE name = ?', committedSteps, name);
      }),
    applied: (name, step) => {
      const row = one('SELECT applied FROM step WHERE run = ? AND step = ?', name, step);
      return row === null || row.applied === null ? null : String(row.applied);
    },
    plansFrom: (name, generation, epoch) =>
      many(
        'SELECT epoch, plan FROM epoch WHERE run = ? AND generation = ? AND epoch >= ? ORDER BY epoch',
        ...[name, generation, epoch],
      ).map((row) => ({ epoch: Number(row.epoch), plan: String(row.plan) })),
    endIsland: (name, island, from) =>
      atomically(() => {
        let next = from;
        for (const { step, island: own } of records('run = ? AND step >= ?', name, from)) {
          if (own === island) undoSteps(name, 'step = ?', step);
          else if (step > next)
            for (const table of ['step', 'ledger', 'trace'])
              run(`UPDATE ${table} SET step = ? WHERE run = ? AND step = ?`, next, name, step);
          if (own !== island) next++;
        }
      }),
    rollBack: (name, toStep) =>
      atomically(() => {
        run(
          'INSERT INTO formerCheckpoint SELECT run, generation, committedSteps, manifest FROM checkpoint JOIN run ON name = run WHERE run = ? AND committedSteps > ? AND kept = 1',
          ...[name, toStep],
        );
        run('UPDATE run SET generation = generation + 1, metSteps = min(metSteps, ?) WHERE name = ?', toStep, name);
        undoSteps(name, 'step >= ?', toStep);
        run('DELETE FROM evaluation WHERE run = ? AND committedSteps > ?', name, toStep);
        run('DELETE FROM checkpoint WHERE run = ? AND committedSteps > ?', name, toStep);
        run('DELETE FROM sample WHERE run = ? AND committedSteps > ?', name, toStep);
      }),
    saveEvaluation: (name, committedSteps, loss) =>
      run('INSERT OR REPLACE INTO evaluation VALUES (?, ?, ?)', name, committedSteps, loss),

    saveCheckpoint: (name, committedSteps, manifest) => {
      const columns = 'run, committedSteps, manifest';
      run(`INSERT OR REPLACE INTO checkpoint (${columns}) VALUES (?, ?, ?)`, name, committedSteps, manifest);
    },
    deleteCheckpoint: (name, committedSteps, generation) =>
      run(`DELETE FROM ${placeOf(generation)}`, name, committedSteps, ...numbersOf(generation)),
    checkpoint: (name, committedSteps, generation) => {
      const row = one(
        `SELECT manifest FROM ${placeOf(generation)}`,
        ...[name, committedSteps, ...numbersOf(generation)],
      );
      return row && String(row.manifest);
    },
    newestCheckpoint: (name) => {
      const row = one(
        'SELECT committedSteps, manifest FROM checkpoint WHERE run = ? ORDER BY committedSteps DESC LIMIT 1',
        name,
      );
      return row && { committedSteps: Number(row.committedSteps), manifest: String(row.manifest) };
    },
    manifests: () =>
      many('SELECT manifest FROM checkpoint UNION ALL SELECT manifest FROM formerCheckpoint').map((row) =>
        String(row.manifest),
      ),

    // To the newest checkpoint they are numbered without a gap: to count them all takes longer, the longer the run.
    committedSteps: (name) => {
      const saved = '(SELECT coalesce(max(committedSteps), 0) FROM checkpoint WHERE run = ?)';
      const beyond = `(SELECT count(*) FROM step WHERE run = ? AND step >= ${saved})`;
      return Number(one(`SELECT ${saved} + ${beyond} AS steps`, name, name, name)?.steps);
    },
    steps: (name, from = 0) => records('run = ? AND step >= ?', name, from),
    evaluations: (name) =>
      evaluationsIn('SELECT committedSteps, loss FROM evaluation WHERE run = ? ORDER BY committedSteps', name),
    newestEvaluations: (name, count) => {
      const newest = 'SELECT committedSteps, loss FROM evaluation WHERE run = ? ORDER BY committedSteps DESC LIMIT ?';
      return evaluationsIn(`SELECT * FROM (${newest}) ORDER BY committedSteps`, name, count);
    },
    ledger: (name) =>
      many('SELECT donor, tokens FROM credit WHERE run = ? ORDER BY donor', name).map((row) => ({
        peer: peerId(String(row.donor)),
        tokens: Number(row.tokens),
      })),
    stepsOf: (name, donor) =>
      Number(one('SELECT steps FROM credit WHERE run = ? AND donor = ?', name, donor)?.steps ?? 0),
    version,
    whenKept,
    kept,
    onStall,

    events: (name, kind, after) =>
      many('SELECT detail FROM event WHERE run = ? AND kind = ? AND id > ? ORDER BY id', name, kind, after).map((row) =>
        String(row.detail),
      ),
    newestEvent: () => Number(one('SELECT coalesce(max(id), 0) AS id FROM event')?.id),
    copy: async () => [],
    close,
  };
}
