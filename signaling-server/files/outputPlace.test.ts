import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { filePlaceFault, folderPlaceFault, roomFault } from './outputPlace.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-place-'));
  writeFileSync(join(folder, 'file'), '');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test('a new file, one that is replaced and one in folders to be made are places', () => {
  expect(['new', 'file', 'some/new/folders/new'].map((name) => filePlaceFault(join(folder, name)))).toEqual([
    null,
    null,
    null,
  ]);
  expect(folderPlaceFault(join(folder, 'some/new'))).toBeNull();
});

test('a folder, what is below a file, and a device, in whose place a file would come, are none', () => {
  expect(filePlaceFault(folder)).toBe(`${folder} is a folder: a file to write was expected`);
  expect(filePlaceFault('/dev/null')).toBe('/dev/null is a device or a pipe: a file to write was expected');
  expect(filePlaceFault(join(folder, 'file', 'new'))).toMatch(/file\/new/);
  expect(folderPlaceFault(join(folder, 'file', 'new', 'deep'))).toMatch(/file\/new\/deep/);
  expect(folderPlaceFault('')).toBe('an empty path: a folder was expected');
});

test('a place has room for what its disk has free, and not for more than any disk', () => {
  expect(roomFault(join(folder, 'some/new'), 1)).toBeNull();
  expect(roomFault(join(folder, 'some/new'), 2 ** 60)).toMatch(/some\/new needs .*, but its disk has .* free$/);
});
