/**
 * Opens the store of a data directory. All of the database is read before it is used: one that is damaged, or lacks what
 * was written last, gives its place to the newest copy that is whole, and its runs go on from their newest checkpoints.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync, type DatabaseSyncInstance } from '@photostructure/sqlite';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { messageOf } from '../files/errorWords.ts';
import { makeFolder } from '../files/makeFolder.ts';
import { storageProblem } from '../files/storageProblem.ts';
import { wallMs } from '../monitoring/clock.ts';
import { manifestHashes, parseManifest } from './checkpointState.ts';
import { SUMMED_SINCE, writesOf } from './checksums.ts';
import { asideSentence, COPY_FILES, examine, restore, STORE_FILE, setFileAside } from './copies.ts';
import { Copies } from './copyThread.ts';
import { LAST_WRITE_FILE, LastWrite, readLastWrite } from './lastWrite.ts';
import { addRollBack } from './rollBacks.ts';
import { SCHEMA_VERSION } from './schema.ts';
import { RESUME_SECRET, type Store, storeOn } from './store.ts';

export interface OpenedStore {
  readonly store: Store;
  /** What is wrong in the directory, and what came of it: a sentence each. */
  readonly found: readonly string[];
}

/** Where it is of an older version, it is migrated. `isCopied`: copies of it are made beside it. */
export function openStore(directory: string, isCopied = true): Result<OpenedStore> {
  const file = join(directory, STORE_FILE);
  let database: DatabaseSyncInstance | undefined;
  try {
    makeFolder(directory);
    const whole = wholeDatabase(directory);
    if (!whole.ok) return whole;
    const { found, lost } = whole.value;
    database = new DatabaseSync(file);
    database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL');
    const opened = database;
    let last: LastWrite | null = null;
    const store = storeOn(opened, () => last?.note(writesOf(opened)));
    const gone = lost === null ? [] : giveUpUnsaved(store, lost);
    // Not before: where this ends here, the next start finds the same.
    last = new LastWrite(directory);
    last.note(writesOf(opened));
    return success({ store: withCopies(store, directory, last, isCopied), found: [...found, ...gone] });
  } catch (error) {
    database?.close();
    return refusal(`${file} cannot be opened: ${storageProblem(error) ?? messageOf(error)}`);
  }
}

interface Whole {
  readonly found: readonly string[];
  /** Why the runs are not as they were; null: they are. */
  readonly lost: string | null;
}

/** Sees to it that what lies in the database's place is the newest that is whole. */
function wholeDatabase(directory: string): Result<Whole> {
  const file = join(directory, STORE_FILE);
  const copies = COPY_FILES.map((name) => join(directory, name));
  const noted = readLastWrite(directory);
  // Before version 9 there was neither; where there is one the database is of that version.
  const isOlder = noted === null && !copies.some((path) => existsSync(path));
  if (isOlder && !existsSync(file)) return success({ found: [], lost: null });
  const own = examine(file);
  if (own.ok && own.value.version > SCHEMA_VERSION)
    return refusal(
      `${file} was written by a newer version of shoal (store version ${own.value.version}, this one reads ${SCHEMA_VERSION})`,
    );
  const writes = typeof noted === 'number' ? noted : 0;
  const isCounted = typeof noted === 'number' || (isOlder && own.ok && own.value.version < SUMMED_SINCE);
  if (own.ok && own.value.writes >= writes && isCounted) return success({ found: [], lost: null });
  const lacks = isCounted
    ? `it lacks the last ${writes - (own.ok ? own.value.writes : 0)} of ${writes} writes`
    : UNCOUNTED;
  const fault = own.ok ? lacks : own.reason;
  const best = [file, ...copies]
    .map((path) => ({ path, examined: path === file ? own : examine(path) }))
    .flatMap(({ path, examined }) => (examined.ok ? { path, ...examined.value } : []))
    .filter(({ version }) => version >= SUMMED_SINCE)
    .sort((a, b) => b.writes - a.writes)[0];
  if (best === undefined) return refusal(`${file} cannot be used: ${fault}. No copy of it is whole: use a backup`);
  const counted = noted === 'damaged' ? [countSentence(directory)] : [];
  if (best.path === file)
    return success({
      found: [...counted, `The database ${file} cannot be trusted: ${fault}.`],
      lost: `${STORE_FILE}: ${fault}`,
    });
  const said = existsSync(file) ? asideSentence(file, fault, setFileAside(file)) : `${file} is missing.`;
  restore(directory, best.path);
  const since = writes > best.writes ? `, from before the last ${writes - best.writes} writes` : '';
  return success({
    found: [...counted, `${said} The copy ${best.path}${since} is in its place.`],
    lost: `${STORE_FILE} was damaged, and a copy of it is in its place`,
  });
}

const UNCOUNTED = `${LAST_WRITE_FILE} is missing or damaged, so that nobody can tell whether it has its newest writes`;

function countSentence(directory: string): string {
  const file = join(directory, LAST_WRITE_FILE);
  return asideSentence(file, 'its bytes have changed', setFileAside(file));
}

/** What was done since is not there, whatever donors still have: each run goes on from its newest checkpoint. */
function giveUpUnsaved(store: Store, reason: string): string[] {
  // Nobody can prove any more which donor it was: what a donor kept of lost steps is none of this run's.
  store.forgetSecret(RESUME_SECRET);
  return store.runNames().flatMap((name) => {
    const toStep = store.newestCheckpoint(name)?.committedSteps;
    if (toStep === undefined) return [];
    const atStep = store.committedSteps(name);
    store.rollBack(name, toStep);
    addRollBack(store, name, { atStep, toStep, reason }, wallMs());
    return `Run ${name} goes on from checkpoint ${toStep}; later steps, and the credit for them, are lost.`;
  });
}

function withCopies(store: Store, directory: string, last: LastWrite, isCopied: boolean): Store {
  const newest = (): string[] => store.runNames().flatMap((name) => store.newestCheckpoint(name)?.manifest ?? []);
  const copies = new Copies(
    directory,
    COPY_FILES.map((name) => manifestsIn(join(directory, name))),
  );
  return {
    ...store,
    manifests: () => [...store.manifests(), ...copies.manifests],
    copy: () => (isCopied ? copies.make(newest()) : Promise.resolve([])),
    close: () => {
      copies.close();
      store.close();
      last.close();
    },
  };
}

/** Of the newest checkpoint of each run in a copy; of one that cannot be read, none. */
function manifestsIn(path: string): string[] {
  if (!existsSync(path)) return [];
  let database: DatabaseSyncInstance | undefined;
  try {
    database = new DatabaseSync(path, { readOnly: true });
    const rows = database.prepare('SELECT manifest, max(committedSteps) FROM checkpoint GROUP BY run').all();
    const manifests = rows.map((row) => String(row.manifest));
    return manifests.filter((text) => manifestHashes(parseManifest(text)));
  } catch {
    return []; // what it would be good for shows when it is needed, or when the next copy is made
  } finally {
    database?.close();
  }
}
