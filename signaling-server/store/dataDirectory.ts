/**
 * A data directory: lock, store and blobs together, and how a run gets into it. A run is known by its name; its content
 * (run file, tokens, initial values) has a hash, so that the same name never means two things.
 */
import { createHash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { type Result, refusal, success } from '../../swarm/base.ts';
import type { Model } from '../../swarm/model/model.ts';
import { modelOf, type RunFile, withSeed } from '../../swarm/run/runFile.ts';
import { type BlobStore, openBlobs } from '../files/blobs.ts';
import { readRunFile } from '../files/runFileOnDisk.ts';
import { wallMs } from '../monitoring/clock.ts';
import { hashSources } from '../texts/sources.ts';
import { type FileProgress, prepareTokens } from '../texts/tokens.ts';
import { openWeights, seededWeights, type Weights } from '../weights/weights.ts';
import { storeInitialState } from './checkpointState.ts';
import { lockDataDirectory } from './dataLock.ts';
import { sweepBlobs } from './keptBlobs.ts';
import type { RunDocument } from './runDocument.ts';
import { openStore, type Store } from './store.ts';

export interface DataDirectory {
  readonly directory: string;
  readonly store: Store;
  readonly blobs: BlobStore;
  close(): void;
}

/** Exports on their way to a browser; what a crash left there is taken away. */
export const DOWNLOADS_FOLDER = 'downloads';

/** Opens it alone: a second server on the same directory is refused. */
export async function openDataDirectory(path: string): Promise<Result<DataDirectory>> {
  const directory = resolve(path);
  const lock = lockDataDirectory(directory);
  if (!lock.ok) return lock;
  const store = openStore(directory);
  if (!store.ok) {
    lock.value.release();
    return store;
  }
  const close = (): void => {
    store.value.close();
    lock.value.release();
  };
  try {
    await rm(join(directory, DOWNLOADS_FOLDER), { recursive: true, force: true });
    const blobs = await openBlobs(join(directory, 'blobs'));
    await sweepBlobs(store.value, blobs);
    return success({ directory, store: store.value, blobs, close });
  } catch (error) {
    close();
    const detail = error instanceof Error ? error.message : String(error);
    return refusal(`the data directory ${directory} cannot be used: ${detail}`);
  }
}

interface AddOptions {
  /** In place of `init.seed` and `data.seed`. */
  readonly seed?: number;
  /** In place of the file's name: the same file trained anew beside an earlier run of it. */
  readonly name?: string;
  readonly progress?: FileProgress;
}

/** Puts the run of a file into the directory, or finds it there with the same content. Answers with its name. */
export async function addRun(data: DataDirectory, path: string, options: AddOptions = {}): Promise<Result<string>> {
  const { seed, name, progress = () => {} } = options;
  const read = await readRunFile(path);
  if (!read.ok) return read;
  const seeded = seed === undefined ? read.value : withSeed(read.value, seed);
  const file: RunFile = name === undefined ? seeded : { ...seeded, name };
  const known = data.store.run(file.name);
  if (known === null) return addNewRun(data, file, path, progress);
  const sources = await hashSources(file, path, progress);
  if (!sources.ok) return sources;
  if (known.contentHash === hashOf([file, sources.value])) return success(file.name);
  return refusal(
    `${path}: name "${file.name}" is known in ${data.directory} with another content: ` +
      'expected the same run file, data and initial weights, or a name of its own',
  );
}

async function addNewRun(
  { store, blobs }: DataDirectory,
  file: RunFile,
  path: string,
  progress: FileProgress,
): Promise<Result<string>> {
  const model = modelOf(file);
  const weights = await openInitialWeights(file, path, model);
  if (!weights.ok) return weights;
  try {
    const tokens = await prepareTokens(file, path, blobs, progress);
    if (!tokens.ok) return tokens;
    const manifest = await storeInitialState(blobs, model, weights.value);
    if (!manifest.ok) return refusal(`${path}: init ${manifest.reason}`);
    const sources = await hashSources(file, path, progress);
    if (!sources.ok) return sources;
    const document: RunDocument = { file, ...tokens.value, tensorNames: weights.value.tensorNames };
    const contentHash = hashOf([file, sources.value]);
    store.addRun(file.name, contentHash, JSON.stringify(document), JSON.stringify(manifest.value), wallMs());
    return success(file.name);
  } finally {
    await weights.value.close();
  }
}

async function openInitialWeights({ init }: RunFile, path: string, model: Model): Promise<Result<Weights>> {
  if (typeof init !== 'string') return success(seededWeights(model, init.seed));
  const weights = await openWeights(resolve(dirname(path), init), model);
  return weights.ok ? weights : refusal(`${path}: init ${weights.reason}`);
}

const hashOf = (content: unknown): string => createHash('sha256').update(JSON.stringify(content)).digest('hex');
