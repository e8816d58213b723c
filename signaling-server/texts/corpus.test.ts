import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { refusal, success } from '../../swarm/base.ts';
import { parameters } from '../../swarm/model/model.ts';
import { modelOf } from '../../swarm/run/runFile.ts';
import { openBlobs } from '../files/blobs.ts';
import { readRunFile } from '../files/runFileOnDisk.ts';
import { ADDRESSES, MOBY_DICK } from './books.ts';
import { DEMO_RUN, LONG_RUN, prepareBundledRun, prepareCorpus } from './corpus.ts';
import { filesOfTar } from './tar.ts';
import { prepareTokens } from './tokens.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-corpus-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function tarOf(files: Readonly<Record<string, string>>): Buffer {
  const blocks = Object.entries(files).flatMap(([name, content]) => {
    const data = Buffer.from(content);
    const header = Buffer.alloc(512);
    header.write(name);
    header.write(`${data.length.toString(8).padStart(11, '0')}\0`, 124);
    header.write('0', 156);
    return [header, data, Buffer.alloc((512 - (data.length % 512)) % 512)];
  });
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}

const chapters = Object.fromEntries(
  Array.from({ length: 135 }, (_, i) => {
    const text = `Text of chapter ${i + 1}, with a dash — and more.\n`.repeat(20);
    return [
      `package/data/chapter_${i + 1}.json`,
      JSON.stringify({ chapter: `${i + 1}`, title: `Title ${i + 1}.`, text }),
    ];
  }),
);
const tarball = gzipSync(tarOf({ 'package/data/epilogue.json': '{}', ...chapters }));

test('a tar gives its files, empty ones and whole blocks too', () => {
  const files = { 'a/b': 'x'.repeat(512), empty: '', c: 'é' };
  expect(Object.fromEntries([...filesOfTar(tarOf(files))].map(([name, data]) => [name, data.toString()]))).toEqual(
    files,
  );
});

test('the book is cut at a line into the text to train on and the text held out, and fetched once', async () => {
  let fetched = 0;
  const fetch = async () => {
    fetched++;
    return success(tarball);
  };
  const corpus = await prepareCorpus(MOBY_DICK, folder, fetch);
  if (!corpus.ok) throw new Error(corpus.reason);
  const [train, heldOut] = [readFileSync(corpus.value.train, 'utf8'), readFileSync(corpus.value.heldOut, 'utf8')];
  expect(train).toMatch(/^CHAPTER 1\. Title 1\.\n\nText of chapter 1, with a dash — and more\.\n/);
  expect(train.endsWith('\n')).toBe(true);
  expect(heldOut.length).toBeGreaterThan(7_900);
  expect(heldOut.length).toBeLessThanOrEqual(8_000);
  expect((train + heldOut).match(/^CHAPTER \d+/gm)).toHaveLength(135);
  expect(await prepareCorpus(MOBY_DICK, folder, fetch)).toEqual(corpus);
  expect(fetched).toBe(1);
  expect(readdirSync(folder).sort()).toEqual(['moby-dick-end.txt', 'moby-dick.txt']);
});

test('the demo’s run stands beside its texts and is a run that can start', async () => {
  const path = await prepareBundledRun(DEMO_RUN, folder, async () => success(tarball));
  if (!path.ok) throw new Error(path.reason);
  const run = await readRunFile(path.value);
  if (!run.ok) throw new Error(run.reason);
  expect(parameters(modelOf(run.value))).toBeGreaterThan(50_000);
  expect(run.value.model.n_layer).toBeGreaterThanOrEqual(3);
  const tokens = await prepareTokens(run.value, path.value, await openBlobs(join(folder, 'blobs')), {
    date: new Date(0),
  });
  expect(tokens.ok && tokens.value.evaluation?.tokens).toBeGreaterThan(7_900);
});

test('where the text cannot be fetched, the reason is handed on and nothing is left', async () => {
  expect(await prepareBundledRun(DEMO_RUN, folder, async () => refusal('no registry'))).toEqual(refusal('no registry'));
  expect(readdirSync(folder)).toEqual([]);
});

const addresses = Object.fromEntries(
  [1791, 1790].map((year) => [
    `package/data/${year}_name.json`,
    JSON.stringify({ year, name: 'A Name', party: 'none', text: `Fellow-Citizens of ${year}. `.repeat(4_000) }),
  ]),
);

test('the run of a server that has none is hours of work: a text of many speeches, 160 million tokens', async () => {
  const speeches = gzipSync(tarOf({ 'package/data/1790_name.txt': 'the same', ...addresses }));
  const path = await prepareBundledRun(LONG_RUN, folder, async () => success(speeches));
  if (!path.ok) throw new Error(path.reason);
  const run = await readRunFile(path.value);
  if (!run.ok) throw new Error(run.reason);
  const { steps, globalBatchSize, sequenceLength } = run.value.train;
  const tokens = steps * globalBatchSize * sequenceLength;
  // Six multiplications and additions a parameter and token: hours of a GPU that does 10¹² a second.
  expect((6 * parameters(modelOf(run.value)) * tokens) / 1e12 / 3_600).toBeGreaterThan(1);
  const text = readFileSync(join(folder, 'addresses.txt'), 'utf8');
  expect(text).toMatch(/^A Name, 1790\n\nFellow-Citizens of 1790\./);
  // Its last line is one speech: it is cut between two words.
  const heldOut = readFileSync(join(folder, 'addresses-end.txt'), 'utf8');
  expect(heldOut.length).toBeGreaterThan(ADDRESSES.heldOutCharacters - 100);
  expect(`${text}${heldOut}`.split('\n')).toHaveLength(8);
  expect(text.endsWith(' ')).toBe(true);
});
