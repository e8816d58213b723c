import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { arrayOf } from '../../swarm/base.ts';
import { openBlobs } from './blobs.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-blobs-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const bytes = Uint8Array.from({ length: 1000 }, (_, i) => i);
const HASH = createHash('sha256').update(bytes).digest('hex');

test('what is put is there by its hash, whole and in ranges, once', async () => {
  const blobs = await openBlobs(folder);
  const hash = await blobs.put(bytes);
  expect(hash).toBe(HASH);
  expect(await blobs.put(bytes)).toBe(hash);
  expect(await blobs.has(hash)).toBe(true);
  expect(Uint8Array.from(await blobs.read(hash))).toEqual(bytes);
  expect([...(await blobs.readRange(hash, 250, 260))]).toEqual([250, 251, 252, 253, 254, 255, 0, 1, 2, 3]);
  const empty = await blobs.put(new Uint8Array());
  expect(await blobs.list()).toEqual([hash, empty].sort());
  await blobs.remove(hash);
  await blobs.remove(hash);
  expect(await blobs.has(hash)).toBe(false);
  expect(await (await openBlobs(folder)).list()).toEqual([empty]);
});

test('the same bytes put many times at once are kept once', async () => {
  const blobs = await openBlobs(folder);
  const hashes = await Promise.all(arrayOf(8, () => blobs.put(bytes)));
  expect(new Set(hashes).size).toBe(1);
  expect(await blobs.list()).toEqual([hashes[0]]);
  expect(readdirSync(join(folder, 'unfinished'))).toEqual([]);
});

test('bytes that come in pieces are one blob; a stream that breaks leaves nothing behind', async () => {
  const blobs = await openBlobs(folder);
  async function* pieces(broken: boolean) {
    yield bytes.subarray(0, 700);
    if (broken) throw new Error('the sender is gone');
    yield bytes.subarray(700);
  }
  await expect(blobs.putStream(pieces(true))).rejects.toThrow('the sender is gone');
  expect(await blobs.list()).toEqual([]);
  expect(await blobs.putStream(pieces(false))).toBe(HASH);
  expect(await blobs.putStream(pieces(false))).toBe(await blobs.put(bytes));
  expect(Uint8Array.from(await blobs.read(HASH))).toEqual(bytes);
  expect(readdirSync(join(folder, 'unfinished'))).toEqual([]);
});

test('what somebody reads stays until the last one lets it go, though it is removed; what is put again stays', async () => {
  const blobs = await openBlobs(folder);
  const [one, other] = [await blobs.put(Buffer.from('one')), await blobs.put(Buffer.from('other'))];
  const [first, second] = [blobs.hold([one, other]), blobs.hold([one])];
  await blobs.remove(one);
  await blobs.remove(other);
  await first();
  await first();
  expect(await blobs.list()).toEqual([one]);
  await second();
  expect(await blobs.list()).toEqual([]);

  await blobs.put(Buffer.from('one'));
  const third = blobs.hold([one]);
  await blobs.remove(one);
  await blobs.put(Buffer.from('one'));
  await third();
  expect(await blobs.list()).toEqual([one]);
});

test('damage is found when a blob is read whole, a range past its end is an error', async () => {
  const blobs = await openBlobs(folder);
  const hash = await blobs.put(bytes);
  expect(await blobs.problem(hash)).toBeNull();
  expect(await blobs.problem(hash)).toBeNull();
  // As many bytes, as old as before.
  const { atime, mtime } = statSync(blobs.path(hash));
  writeFileSync(blobs.path(hash), bytes.toReversed());
  utimesSync(blobs.path(hash), atime, mtime);
  expect(await blobs.problem(hash)).toMatch(/is damaged: its bytes have changed$/);
  writeFileSync(blobs.path(hash), 'other bytes');
  await expect(blobs.read(hash)).rejects.toThrow('is damaged');
  expect(await blobs.problem(hash)).toMatch(/is damaged: its bytes have changed$/);
  expect(await blobs.problem('0'.repeat(64))).toMatch(/cannot be read/);
  mkdirSync(blobs.path('1'.repeat(64)), { recursive: true });
  expect(await blobs.problem('1'.repeat(64))).toMatch(/cannot be read: it is no file/);
  await expect(blobs.readRange(hash, 5, 20)).rejects.toThrow('the file ends at 11, 9 bytes early');
});

test('what a crash left half-written goes when the store opens; names that are no hash reach no file', async () => {
  mkdirSync(join(folder, 'unfinished'));
  writeFileSync(join(folder, 'unfinished', 'x'), 'half');
  const blobs = await openBlobs(folder);
  expect(readdirSync(join(folder, 'unfinished'))).toEqual([]);
  expect(() => blobs.path('../../etc/passwd')).toThrow('is no blob');
});
