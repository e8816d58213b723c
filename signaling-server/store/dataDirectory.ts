/**
 * A data directory: lock, store and blobs together, and how a run gets into it. A run is known by its name; its content
 * (run file, tokens, initial values) has a hash, so that the same name never means two things.
 */
import { hash } from 'node:crypto';
import { createReadStream, existsSync, readdirSync } from 'node:fs';
import { readdir, readFile, rm, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { type Result, refusal, success } from '../../swarm/base.ts';
import { heldOutOf, TEXT_NAME, textFile } from '../../swarm/run/runDraft.ts';
import { modelOf, type RunFile, withSeed } from '../../swarm/run/runFile.ts';
import { type BlobStore, openBlobs } from '../files/blobs.ts';
import { messageOf } from '../files/errorWords.ts';
import { readRunFile } from '../files/runFileOnDisk.ts';
import { NotKept, storageProblem } from '../files/storageProblem.ts';
import { wallMs } from '../monitoring/clock.ts';
import { GENERATION_CONFIG_FILE } from '../texts/endTokens.ts';
import { hashSources } from '../texts/sources.ts';
import { type FileProgress, prepareTokens, type StoredFile } from '../texts/tokens.ts';
import { openInitialWeights } from '../weights/initialWeights.ts';
import { storeBase } from './baseStore.ts';
import { type Manifest, manifestHashes, parseManifest, storeInitialState } from './checkpointState.ts';
import { IS_ASIDE } from './copies.ts';
import { lockDataDirectory } from './dataLock.ts';
import { sweepBlobs } from './keptBlobs.ts';
import { openStore } from './openStore.ts';
import { documentHashes, parseDocument, type RunDocument } from './runDocument.ts';
import type { Store } from './store.ts';

export interface DataDirectory {
  readonly directory: string;
  readonly store: Store;
  readonly blobs: BlobStore;
  /** What was wrong when it was opened, and what came of it: a sentence each. */
  readonly found: readonly string[];
  close(): void;
}

/** Exports on their way to a browser, and texts on theirs into a run; what a crash left there is taken away. */
export const DOWNLOADS_FOLDER = 'downloads';

/** Of a database, its copies, what was set aside of them, and what lies beside them. */
const OF_STORE = /^shoal\./;

/** Whether a server that is alone has kept something there, in whatever state it is. */
export const holdsStore = (path: string): boolean =>
  existsSync(path) && readdirSync(path).some((name) => OF_STORE.test(name));

/**
 * Opens it alone: a second server on the same directory is refused. `isKept` false: who opens it removes it at the end,
 * and no copies of its database are made, which would be on their way then.
 */
export async function openDataDirectory(path: string, isKept = true): Promise<Result<DataDirectory>> {
  const directory = resolve(path);
  const lock = lockDataDirectory(directory);
  if (!lock.ok) return lock;
  const opened = openStore(directory, isKept);
  if (!opened.ok) {
    lock.value.release();
    return opened;
  }
  const { store, found } = opened.value;
  const close = (): void => {
    store.close();
    lock.value.release();
  };
  try {
    await rm(join(directory, DOWNLOADS_FOLDER), { recursive: true, force: true });
    const blobs = await openBlobs(join(directory, 'blobs'));
    await takeInTexts(directory, store, blobs);
    // What was set aside may name more of them than the store does.
    if (!(await readdir(directory)).some((name) => IS_ASIDE.test(name))) await sweepBlobs(store, blobs);
    return success({ directory, store, blobs, found: [...lock.value.found, ...found], close });
  } catch (error) {
    close();
    const detail = messageOf(error);
    return refusal(`the data directory ${directory} cannot be used: ${detail}`);
  }
}

/** What cannot be written there is a refusal that names it; what a site does not keep is its server's affair. */
export async function whereKept<T>(
  { directory }: Pick<DataDirectory, 'directory'>,
  work: () => Promise<Result<T>>,
): Promise<Result<T>> {
  try {
    return await work();
  } catch (error) {
    const problem = error instanceof NotKept ? null : storageProblem(error);
    if (problem === null) throw error;
    return refusal(`the data directory ${directory} cannot be written: ${problem}`);
  }
}

interface AddOptions {
  /** In place of `init.seed` and `data.seed`. */
  readonly seed?: number;
  /** In place of the file's name: the same file trained anew beside an earlier run of it. */
  readonly name?: string;
  readonly progress?: FileProgress;
  /** Takes what the operator should know of a new run, in a sentence. */
  readonly note?: (sentence: string) => void;
}

/** Puts the run of a file into the directory, or finds it there with the same content. Answers with its name. */
export async function addRun(data: DataDirectory, path: string, options: AddOptions = {}): Promise<Result<string>> {
  const { seed, name, progress = () => {}, note = () => {} } = options;
  const read = await readRunFile(path);
  if (!read.ok) return read;
  const seeded = seed === undefined ? read.value : withSeed(read.value, seed);
  const file: RunFile = name === undefined ? seeded : { ...seeded, name };
  const known = data.store.run(file.name);
  if (known === null) return addNewRun(data, file, path, { progress, note });
  const sources = await hashSources(file, path, progress);
  if (!sources.ok) return sources;
  if (known.contentHash !== hashOf([file, sources.value]))
    return refusal(
      `${path}: name "${file.name}" is known in ${data.directory} with another content: ` +
        'expected the same run file, data and initial weights, or a name of its own',
    );
  const isWhole = await isContentWhole(data, known.document, data.store.checkpoint(file.name, 0));
  const date = new Date(data.store.createdAtMs(file.name));
  const content = isWhole ? null : await storeContent(data, file, path, { date, progress });
  return content === null || content.ok ? success(file.name) : content;
}

async function addNewRun(
  data: DataDirectory,
  file: RunFile,
  path: string,
  { progress, note }: Required<Pick<AddOptions, 'progress' | 'note'>>,
): Promise<Result<string>> {
  const madeAtMs = wallMs(); // its own date, which a chat template may ask for
  const content = await storeContent(data, file, path, { date: new Date(madeAtMs), progress });
  if (!content.ok) return content;
  const sources = await hashSources(file, path, progress);
  if (!sources.ok) return sources;
  const { document, manifest } = content.value;
  if (modelOf(document.file).tied !== modelOf(file).tied)
    note(
      `${path}: init has an lm_head.weight that differs from the embedding: the head is trained and exported untied`,
    );
  const contentHash = hashOf([file, sources.value]);
  data.store.addRun(file.name, contentHash, JSON.stringify(document), JSON.stringify(manifest), madeAtMs);
  return success(file.name);
}

/** Whether the files that a run was made of are as they were. */
async function isContentWhole({ blobs }: DataDirectory, document: string, manifest: string | null): Promise<boolean> {
  const ofState = manifest === null ? [] : manifestHashes(parseManifest(manifest));
  for (const hash of [...documentHashes(parseDocument(document)), ...ofState])
    if ((await blobs.problem(hash)) !== null) return false;
  return true;
}

/** What a run is made of. */
export interface RunContent {
  readonly document: RunDocument;
  readonly manifest: Manifest;
}

/** Its tokens, tokenizer and initial state, among the blobs. */
export async function storeContent(
  { blobs }: DataDirectory,
  file: RunFile,
  path: string,
  options: { readonly date: Date; readonly progress: FileProgress },
): Promise<Result<RunContent>> {
  const weights = await openInitialWeights(file, path);
  if (!weights.ok) return weights;
  const { file: own, trained, base } = weights.value;
  try {
    const tokens = await prepareTokens(file, path, blobs, options);
    if (!tokens.ok) return tokens;
    const manifest = await storeInitialState(blobs, trained.model, trained);
    if (!manifest.ok) return refusal(`${path}: ${base === null ? 'init' : 'train.adapter.init'} ${manifest.reason}`);
    const standing = base && (await storeBase(blobs, own, base));
    if (standing?.ok === false) return refusal(`${path}: init ${standing.reason}`);
    const folder = typeof file.init === 'string' ? await folderOf(resolve(dirname(path), file.init)) : null;
    const tokenizer = [...tokens.value.tokenizer, ...(folder === null ? [] : await storedBeside(folder, blobs))];
    const licence = folder === null ? [] : await licenceIn(folder);
    const { tensorNames } = base ?? trained;
    const document: RunDocument = { file: own, ...tokens.value, tokenizer, tensorNames, licence };
    const whole = standing === null ? document : { ...document, base: standing.value };
    return success({ document: whole, manifest: manifest.value });
  } finally {
    await weights.value.close();
  }
}

const folderOf = async (path: string): Promise<string> => ((await stat(path)).isDirectory() ? path : dirname(path));

/** What lies beside the first weights, for an export: which tokens end a text, and the terms that the weights come under. */
async function storedBeside(folder: string, blobs: BlobStore): Promise<StoredFile[]> {
  const files: StoredFile[] = [];
  for (const name of (await readdir(folder)).toSorted()) {
    if (name !== GENERATION_CONFIG_FILE && !IS_TERMS.test(name)) continue;
    const bytes = await readFile(join(folder, name)).catch(() => null); // a folder
    if (bytes !== null && bytes.length <= LARGEST_TERMS_BYTES)
      files.push({ name, hash: await blobs.put(new Uint8Array(bytes)) });
  }
  return files;
}

/** Values that YAML reads as they stand, in quotes or without. */
const LICENCE_LINE = /^license(_name|_link)?: (["']?)[\w./+]([\w./:+-]{0,198}[\w./+-])?\2$/;

/** What the README.md beside the first weights, a card of the Hub, says of their licence: these lines of its front. */
async function licenceIn(folder: string): Promise<string[]> {
  const readme = await readFile(join(folder, 'README.md'), 'utf8').catch(() => ''); // there is none
  const front = /^---\r?\n([\s\S]*?)\r?\n---/.exec(readme)?.[1] ?? '';
  return front.split(/\r?\n/).filter((line) => LICENCE_LINE.test(line));
}

/** A model's licence and what belongs to it, as the Hub's folders name them. */
export const IS_TERMS = /^(licen[cs]e|notice|use_policy|copying)/i;
const LARGEST_TERMS_BYTES = 2 ** 20;

const hashOf = (content: unknown): string => hash('sha256', JSON.stringify(content));

/**
 * Texts as earlier versions kept those that operators brought along: files in a folder of the data directory. They are
 * taken into the blobs and the store, where a copy of a data directory has them too, and the files go.
 */
const FOLDER = 'texts';

async function takeInTexts(directory: string, store: Store, blobs: BlobStore): Promise<void> {
  const folder = join(directory, FOLDER);
  const files: readonly string[] = await readdir(folder).catch(() => []); // there is none
  for (const file of files) {
    const name = file.slice(0, -textFile('', 'text').length);
    const heldOut = heldOutOf(name);
    // What was written first is the end; without both it never was a text.
    if (textFile(name, 'text') !== file || !TEXT_NAME.test(name) || !files.includes(heldOut)) continue;
    if (!store.texts().some((text) => text.name === name)) {
      const { size: bytes } = await stat(join(folder, file));
      const hash = await blobs.putStream(createReadStream(join(folder, file)));
      const heldOutHash = await blobs.putStream(createReadStream(join(folder, heldOut)));
      store.saveText({ name, format: 'text', bytes, hash, heldOutHash });
      await store.kept();
    }
    for (const done of [file, heldOut]) await rm(join(folder, done));
  }
}
