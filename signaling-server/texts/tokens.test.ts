import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { at } from '../../swarm/base.ts';
import { decodeShard, windowCount, windowRows } from '../../swarm/run/data.ts';
import { parseRunFile, type RunFile } from '../../swarm/run/runFile.ts';
import { openBlobs } from '../files/blobs.ts';
import { readRunFile } from '../files/runFileOnDisk.ts';
import { prepareTokens } from './tokens.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-tokens-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function run(files: readonly string[], options: { vocabulary?: number; evaluation?: readonly string[] } = {}): RunFile {
  const parsed = parseRunFile(
    {
      name: 'tokens',
      model: {
        model_type: 'gpt2',
        n_layer: 1,
        n_head: 1,
        n_embd: 4,
        n_positions: 64,
        vocab_size: options.vocabulary ?? 256,
      },
      data: { files, tokenizer: 'bytes' },
      init: { seed: 1 },
      evaluation: options.evaluation ? { files: options.evaluation } : null,
      train: {
        steps: 1,
        globalBatchSize: 1,
        sequenceLength: 10,
        optimizer: { type: 'adamw', learningRate: 1, betas: [0.9, 0.9], epsilon: 1e-8 },
      },
    },
    'run.json',
  );
  if (!parsed.ok) throw new Error(parsed.reason);
  return parsed.value;
}

const write = (name: string, bytes: Uint8Array | string) => writeFileSync(join(folder, name), bytes);
const prepare = async (file: RunFile) =>
  prepareTokens(file, join(folder, 'run.json'), await openBlobs(join(folder, 'blobs')), { date: new Date(0) });
const refused = async (file: RunFile): Promise<string> => {
  const prepared = await prepare(file);
  return prepared.ok ? 'accepted' : prepared.reason.replaceAll(folder, 'DIR');
};

test('[DA1] [DA8] all files are one token list, in shards that hold every window', async () => {
  const first = Uint8Array.from({ length: 100_000 }, (_, i) => i % 251);
  const second = Uint8Array.from({ length: 50_003 }, (_, i) => i % 13);
  const text = new Uint8Array([...first, ...second]);
  write('a', first);
  write('b', second);
  write('held', 'a text that is held out');
  for (const vocabulary of [256, 70_000]) {
    const prepared = await prepare(run(['a', 'b'], { vocabulary, evaluation: ['held'] }));
    if (!prepared.ok) throw new Error(prepared.reason);
    const { data, evaluation } = prepared.value;
    expect(data).toMatchObject({ tokens: 150_003, shardTokens: 65_536, bytesPerToken: vocabulary === 256 ? 1 : 4 });
    expect(evaluation).toMatchObject({ tokens: 23 });
    const blobs = await openBlobs(join(folder, 'blobs'));
    const shards = await Promise.all(data.shards.map((hash) => blobs.read(hash)));
    expect(shards.map(({ length }) => length / data.bytesPerToken)).toEqual([65_536, 65_536, 18_931]);
    const read = shards.map(({ buffer }) => decodeShard(buffer, data.bytesPerToken));
    for (const window of [0, 6553, 6554, 9999, 10_000, windowCount(data, 10) - 1]) {
      const rows = windowRows((index) => at(read, index), data, window, { sequenceLength: 10, vocabulary });
      expect([...rows.ids, rows.targets.at(-1)]).toEqual([...text.subarray(window * 10, window * 10 + 11)]);
    }
  }
});

test('what cannot be trained on is refused with the file and the field', async () => {
  write('short', '0123456789');
  write('enough', '01234567890');
  write(
    'high',
    Uint8Array.from([...'0123456789012'].map(Number), (digit) => digit + 120),
  );
  expect(await refused(run(['enough']))).toBe('accepted');
  expect(await refused(run(['short']))).toBe(
    'DIR/run.json: data.files has 10 tokens, but one window of train.sequenceLength needs at least 11',
  );
  expect(await refused(run(['enough', 'gone']))).toBe('DIR/run.json: data.files[1] DIR/gone: there is no such file');
  expect(await refused(run(['.']))).toBe('DIR/run.json: data.files[0] DIR: this is a folder, not a file');
  // One that has no end would fill the disk.
  expect(await refused(run(['/dev/zero']))).toBe(
    'DIR/run.json: data.files[0] /dev/zero: this is a device or a pipe, not a file',
  );
  expect(await refused(run(['enough'], { evaluation: ['short'] }))).toContain('evaluation.files has 10 tokens');
  expect(await refused(run(['enough', 'high'], { vocabulary: 128 }))).toBe(
    'DIR/run.json: data.files[1] high has the token 128 (its byte 8), but model.vocab_size is 128',
  );
  expect(await refused(run(['high'], { vocabulary: 130 }))).toBe('accepted');
});

test('a run file that is no JSON, or none at all, is refused', async () => {
  write('bad.json', '{"name": ');
  const reason = async (name: string) => {
    const read = await readRunFile(join(folder, name));
    return read.ok ? 'accepted' : read.reason.replaceAll(folder, 'DIR');
  };
  expect(await reason('bad.json')).toMatch(/^DIR\/bad\.json is not valid JSON: /);
  expect(await reason('gone.json')).toBe('DIR/gone.json: there is no such file: a run file was expected');
  write('run.json', JSON.stringify({ ...run(['a']), surprise: 1 }));
  expect(await reason('run.json')).toMatch(/^DIR\/run\.json: surprise is unknown/);
});
