/** What a person can get wrong with a run: one sentence on standard error that names the file and the field, exit code 2. */
import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Captured } from '../testing/captured.ts';
import { goldenFolder } from '../testing/goldenCase.ts';
import { runCommand } from './program.ts';

type Json = Record<string, unknown>;

const captured = new Captured();
beforeEach(() => captured.begin());
afterEach(() => captured.end());

/** A copy of gpt2-tiny to change: the path of its run file. */
function copyOfRun(change: (run: Json) => Json = (run) => run): string {
  cpSync(goldenFolder('gpt2-tiny'), captured.folder, { recursive: true });
  const path = join(captured.folder, 'run.json');
  writeFileSync(path, JSON.stringify(change(JSON.parse(readFileSync(path, 'utf8')))));
  return path;
}
const beside = (runFile: string, name: string): string => join(dirname(runFile), name);

/** `shoal swarm` says one sentence on one line, with each of these words in it, and nothing on standard output. */
async function expectRefusal(runFile: string, words: readonly string[], ...options: string[]): Promise<void> {
  const code = await runCommand(['swarm', runFile, '--donors', '1', ...options]);
  const { out, errors } = captured;
  expect({ code, out, lines: errors.trimEnd().split('\n').length }, errors).toEqual({ code: 2, out: '', lines: 1 });
  for (const word of words) expect(errors).toContain(word);
}

const model = (change: Json) => (run: Json) => ({ ...run, model: { ...(run.model as Json), ...change } });
const train = (change: Json) => (run: Json) => ({ ...run, train: { ...(run.train as Json), ...change } });
const data = (change: Json) => (run: Json) => ({ ...run, data: { ...(run.data as Json), ...change } });

const BAD_RUN_FILES: readonly (readonly [what: string, change: (run: Json) => Json, words: readonly string[]])[] = [
  ['an unknown field', (run) => ({ ...run, colour: 'red' }), ['colour', 'is unknown']],
  ['an unknown field deep inside', train({ step: 3 }), ['train.step', 'is unknown']],
  ['a missing field', ({ data: _, ...run }) => run, ['data', 'is missing']],
  ['a wrong type', train({ globalBatchSize: '8' }), ['train.globalBatchSize', 'a positive integer', '"8"']],
  [
    'more samples than can be had',
    train({ globalBatchSize: 9e15 }),
    ['train.globalBatchSize', 'up to 65536', '9000000'],
  ],
  ['a type of model that nobody knows', model({ model_type: 'bert' }), ['model.model_type', 'bert']],
  ['dropout', model({ resid_pdrop: 0.1 }), ['model.resid_pdrop', '0.1']],
  ['another activation', model({ activation_function: 'relu' }), ['model.activation_function', 'relu']],
  ['samples longer than the positions', train({ sequenceLength: 65 }), ['train.sequenceLength', '64', '65']],
  // From a seed: the shapes of an init file are judged before the tokens.
  [
    'a vocabulary smaller than the tokens',
    (run) => ({ ...model({ vocab_size: 100 })(run), init: { seed: 1 } }),
    ['vocab_size', '100'],
  ],
  ['a data file that is not there', data({ files: ['nowhere.txt'] }), ['nowhere.txt']],
  ['an init file that is not there', (run) => ({ ...run, init: 'nowhere.safetensors' }), ['nowhere.safetensors']],
];

test.each(BAD_RUN_FILES)('a run file with %s', async (_, change, words) => {
  const runFile = copyOfRun(change);
  await expectRefusal(runFile, [beside(runFile, ''), ...words]);
});

test('a run file that is no JSON, and one that is not there', async () => {
  const runFile = copyOfRun();
  writeFileSync(runFile, '{"name": ');
  await expectRefusal(runFile, [runFile, 'JSON']);
  captured.clear();
  const other = beside(runFile, 'other.json');
  await expectRefusal(other, [other]);
});

test('a run file that is larger than any, and one without an end', async () => {
  const runFile = copyOfRun();
  writeFileSync(runFile, Buffer.alloc(16 * 2 ** 20 + 1, ' '));
  const sentence = 'has more than 16777216 bytes: a run file of at most as many was expected';
  await expectRefusal(runFile, [`${runFile} ${sentence}`]);
  captured.clear();
  await expectRefusal('/dev/zero', [sentence]);
});

test('fewer tokens than one window', async () => {
  const runFile = copyOfRun();
  writeFileSync(beside(runFile, 'corpus.txt'), 'x'.repeat(32));
  await expectRefusal(runFile, [runFile, 'data.files', '33']);
});

interface Header {
  [tensor: string]: { dtype: string; shape: number[]; data_offsets: [number, number] };
}

/** Rewrites the safetensors file of a copied run: its header, and the bytes that follow it. */
function rewriteInit(runFile: string, change: (header: Header, bytes: Buffer) => Buffer): void {
  const path = beside(runFile, 'init.safetensors');
  const whole = readFileSync(path);
  const start = 8 + Number(whole.readBigUInt64LE());
  const header = JSON.parse(whole.toString('utf8', 8, start));
  const bytes = change(header, whole.subarray(start));
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  writeFileSync(path, Buffer.concat([length, json, bytes]));
}

const FLOAT = Buffer.alloc(4);
const BAD_INITS: readonly (readonly [
  what: string,
  change: (header: Header, bytes: Buffer) => Buffer,
  words: readonly string[],
])[] = [
  [
    'lacks a tensor',
    (header, bytes) => {
      const [last, entry] =
        Object.entries(header).find(([, tensor]) => tensor.data_offsets?.[1] === bytes.length) ?? [];
      delete header[last ?? ''];
      return bytes.subarray(0, entry?.data_offsets[0]);
    },
    ['lacks'],
  ],
  [
    'has a tensor that the model does not have',
    (header, bytes) => {
      header.stranger = { dtype: 'F32', shape: [1], data_offsets: [bytes.length, bytes.length + FLOAT.length] };
      return Buffer.concat([bytes, FLOAT]);
    },
    ['stranger'],
  ],
  [
    'has a tensor of another shape',
    (header, bytes) => {
      const [, entry] = Object.entries(header).find(([name]) => name.endsWith('wte.weight')) ?? [];
      entry?.shape.reverse();
      return bytes;
    },
    ['wte.weight', '[64, 256]', '[256, 64]'],
  ],
  ['is truncated', (_, bytes) => bytes.subarray(0, bytes.length - 100), ['truncated']],
];

test.each(BAD_INITS)('an init file that %s', async (_, change, words) => {
  const runFile = copyOfRun();
  rewriteInit(runFile, change);
  await expectRefusal(runFile, [beside(runFile, 'init.safetensors'), ...words]);
});

const BAD_OPTIONS: readonly (readonly [what: string, options: readonly string[], words: readonly string[]])[] = [
  ['an unknown schedule', ['--schedule', 'fastest'], ['--schedule', '"fastest"', 'gpipe']],
  ['more stages than donors', ['--stages', '2'], ['--stages', '--donors', '2']],
  ['more stages than layers', ['--donors', '5', '--stages', '5'], ['--stages', '4 layers', '5']],
  ['more donors than can compute', ['--donors', '40'], ['--donors', '16', '4 layers', '40']],
  ['no donor', ['--donors', '0'], ['--donors', '"0"']],
  ['more micro-batches than samples', ['--micro-batches', '9'], ['--micro-batches', '8']],
  ['more steps than the run has', ['--steps', '21'], ['--steps', '20']],
  ['no number', ['--steps', 'many'], ['--steps', '"many"']],
];

test.each(BAD_OPTIONS)('options: %s', async (_, options, words) => {
  await expectRefusal(copyOfRun(), words, ...options);
});

test('what the options ask for that the run cannot have is said before a data directory is made', async () => {
  const run = copyOfRun();
  const data = beside(run, 'data');
  await expectRefusal(
    run,
    ['interleaved', '--chunks'],
    '--schedule',
    'interleaved',
    '--chunks',
    '1000',
    '--data-dir',
    data,
  );
  expect(existsSync(data)).toBe(false);
});
