/**
 * A data directory: lock, store and blobs together, and how a run gets into it. A run is known by its name; its content
 * (run file, tokens, initial values) has a hash, so that the same name never means two things.
 */
import { createHash } from 'node:crypto';
import { dirname, join, resolve } from 'node:path';
import { type Result, refusal, success } from '../swarm/base.ts';
import type { Model } from '../swarm/model.ts';
import { modelOf, type RunFile, withSeed } from '../swarm/runFile.ts';
import { type BlobStore, openBlobs } from './blobs.ts';
import { manifestHashes, parseManifest, storeInitialState } from './checkpointState.ts';
import { lockDataDirectory } from './dataLock.ts';
import { parseDocument, type RunDocument } from './runDocument.ts';
import { readRunFile } from './runFileOnDisk.ts';
import { openStore, type Store } from './store.ts';
import { prepareTokens } from './tokens.ts';
import { openWeights, seededWeights, type Weights } from './weights.ts';

export interface DataDirectory {
  readonly directory: string;
  readonly store: Store;
  readonly blobs: BlobStore;
  close(): void;
}

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
  const blobs = await openBlobs(join(directory, 'blobs'));
  await sweep(store.value, blobs);
  return success({
    directory,
    store: store.value,
    blobs,
    close: () => {
      store.value.close();
      lock.value.release();
    },
  });
}

/** Uploads of checkpoints that never became whole. */
async function sweep(store: Store, blobs: BlobStore): Promise<void> {
  const needed = new Set(store.manifests().flatMap((manifest) => manifestHashes(parseManifest(manifest))));
  for (const name of store.runNames()) {
    const { data, evaluation } = parseDocument(store.run(name)?.document ?? '{}');
    for (const hash of [...data.shards, ...(evaluation?.shards ?? [])]) needed.add(hash);
  }
  for (const hash of await blobs.list()) if (!needed.has(hash)) await blobs.remove(hash);
}

export interface AddOptions {
  /** In place of `init.seed` and `data.seed`. */
  readonly seed?: number;
  /** In place of the file's name: the same file trained anew beside an earlier run of it. */
  readonly name?: string;
}

/** Puts the run of a file into the directory, or finds it there with the same content. Answers with its name. */
export async function addRun(
  { store, blobs, directory }: DataDirectory,
  path: string,
  { seed, name }: AddOptions = {},
): Promise<Result<string>> {
  const read = await readRunFile(path);
  if (!read.ok) return read;
  const seeded = seed === undefined ? read.value : withSeed(read.value, seed);
  const file: RunFile = name === undefined ? seeded : { ...seeded, name };
  const tokens = await prepareTokens(file, path, blobs);
  if (!tokens.ok) return tokens;
  const model = modelOf(file);
  const weights = await openInitialWeights(file, path, model);
  if (!weights.ok) return weights;
  try {
    const manifest = await storeInitialState(blobs, model, weights.value);
    const document: RunDocument = { file, ...tokens.value, tensorNames: weights.value.tensorNames };
    const contentHash = hashOf([document, manifestHashes(manifest)]);
    const known = store.run(file.name);
    if (known === null) {
      store.addRun(file.name, contentHash, JSON.stringify(document), JSON.stringify(manifest), Date.now());
    } else if (known.contentHash !== contentHash) {
      return refusal(
        `${path}: name "${file.name}" is known in ${directory} with another content: ` +
          'expected the same run file, data and initial weights, or a name of its own',
      );
    }
    return success(file.name);
  } finally {
    await weights.value.close();
  }
}

async function openInitialWeights({ init }: RunFile, path: string, model: Model): Promise<Result<Weights>> {
  if (typeof init !== 'string') return success(seededWeights(model, init.seed));
  return openWeights(resolve(dirname(path), init), model);
}

const hashOf = (content: unknown): string => createHash('sha256').update(JSON.stringify(content)).digest('hex');
