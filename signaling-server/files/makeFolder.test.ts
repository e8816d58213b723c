import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openDataDirectory } from '../store/dataDirectory.ts';
import { makeFolder } from './makeFolder.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-folder-'));
  writeFileSync(join(folder, 'file'), '');
  mkdirSync(join(folder, 'real'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test('a folder is made with those above it, also behind a link, and one that is there stays', () => {
  symlinkSync('real', join(folder, 'link'));
  for (const name of ['a/b/c', 'a/b/c', 'a/b/d', 'link/e', 'real']) {
    makeFolder(join(folder, name));
    expect(statSync(join(folder, name)).isDirectory(), name).toBe(true);
  }
});

/** What a place is like, as someone made it wrong. */
const PLACES: readonly (readonly [what: string, name: string, make: (place: string) => void])[] = [
  ['a file', 'file', () => {}],
  ['below a file', 'file/data', () => {}],
  ['a link to nowhere', 'dangling', (place) => symlinkSync('nowhere', place)],
  ['below a link to nowhere', 'dangling/data', () => symlinkSync('nowhere', join(folder, 'dangling'))],
  ['a link to itself', 'loop', (place) => symlinkSync('loop', place)],
  ['a pipe', 'pipe', (place) => makePipe(place)],
  ['with a pipe for its lock', 'locked', (place) => within(place, (inside) => makePipe(join(inside, 'lock.sqlite')))],
  ['with a pipe for its store', 'piped', (place) => within(place, (inside) => makePipe(join(inside, 'shoal.sqlite')))],
  ['with a folder for its store', 'odd', (place) => within(place, (inside) => mkdirSync(join(inside, 'shoal.sqlite')))],
  ['with a file for its blobs', 'flat', (place) => within(place, (inside) => writeFileSync(join(inside, 'blobs'), ''))],
  ['with a pipe for its blobs', 'tube', (place) => within(place, (inside) => makePipe(join(inside, 'blobs')))],
];

function within(place: string, make: (inside: string) => void): void {
  mkdirSync(place);
  make(place);
}

function makePipe(path: string): void {
  expect(spawnSync('mkfifo', [path]).status).toBe(0);
}

async function expectOneSentence(place: string): Promise<void> {
  const opened = await openDataDirectory(place);
  expect(opened).toEqual({ ok: false, reason: expect.stringContaining(place) });
  expect(opened.ok ? '' : opened.reason).not.toContain('\n');
}

const noPipes = process.platform === 'win32' ? ' (needs mkfifo)' : '';
test.skipIf(noPipes).each(PLACES)(`a data directory that is no place for one: %s${noPipes}`, async (_, name, make) => {
  make(join(folder, name));
  await expectOneSentence(join(folder, name));
});

const noProc = process.platform === 'linux' ? '' : ' (needs /proc)';
test.skipIf(noProc)(`a data directory where the system lets nothing be made${noProc}`, async () => {
  await expectOneSentence('/proc/nowhere');
  await expectOneSentence('/proc/nowhere/deep');
});

const mayAll =
  process.platform === 'win32' || process.getuid?.() === 0 ? ' (needs a user who may not write everywhere)' : '';
test.skipIf(mayAll)(`a data directory in a folder that may only be read${mayAll}`, async () => {
  chmodSync(join(folder, 'real'), 0o500);
  await expectOneSentence(join(folder, 'real'));
  await expectOneSentence(join(folder, 'real', 'data'));
});
