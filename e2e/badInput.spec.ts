/** What a person can get wrong: one sentence on standard error that names the file and the field, and the right exit code. */
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import { atTestEnd, beside, copyOfRun, type Json, shoal, startServer, temporaryFolder } from './product.ts';

const swarm = (runFile: string, ...options: string[]) => shoal('swarm', runFile, '--donors', '1', ...options);

/** One sentence on one line, nothing on standard output; each of `words` is in it. */
async function expectRefusal(ended: ReturnType<typeof shoal>, code: number, ...words: string[]): Promise<void> {
  const { stdout, stderr, ...rest } = await ended;
  expect({ ...rest, stdout, lines: stderr.trimEnd().split('\n').length }, stderr).toEqual({
    code,
    stdout: '',
    lines: 1,
  });
  for (const word of words) expect(stderr).toContain(word);
}

const model = (change: Json) => (run: Json) => ({ ...run, model: { ...(run.model as Json), ...change } });
const train = (change: Json) => (run: Json) => ({ ...run, train: { ...(run.train as Json), ...change } });
const data = (change: Json) => (run: Json) => ({ ...run, data: { ...(run.data as Json), ...change } });

const BAD_RUN_FILES: readonly (readonly [what: string, change: (run: Json) => Json, words: readonly string[]])[] = [
  ['an unknown field', (run) => ({ ...run, colour: 'red' }), ['colour', 'is unknown']],
  ['an unknown field deep inside', train({ step: 3 }), ['train.step', 'is unknown']],
  ['a missing field', ({ data: _, ...run }) => run, ['data', 'is missing']],
  ['a wrong type', train({ globalBatchSize: '8' }), ['train.globalBatchSize', 'a positive integer', '"8"']],
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
  const runFile = copyOfRun('gpt2-tiny', change);
  await expectRefusal(swarm(runFile), 2, beside(runFile, ''), ...words);
});

test('a run file that is no JSON, and one that is not there', async () => {
  const runFile = copyOfRun('gpt2-tiny');
  writeFileSync(runFile, '{"name": ');
  await expectRefusal(swarm(runFile), 2, runFile, 'JSON');
  await expectRefusal(swarm(beside(runFile, 'other.json')), 2, beside(runFile, 'other.json'));
});

test('fewer tokens than one window', async () => {
  const runFile = copyOfRun('gpt2-tiny');
  writeFileSync(beside(runFile, 'corpus.txt'), 'x'.repeat(32));
  await expectRefusal(swarm(runFile), 2, runFile, 'data.files', '33');
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
    'has a tensor that the model has not',
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
  const runFile = copyOfRun('gpt2-tiny');
  rewriteInit(runFile, change);
  await expectRefusal(swarm(runFile), 2, beside(runFile, 'init.safetensors'), ...words);
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
  await expectRefusal(swarm(copyOfRun('gpt2-tiny'), ...options), 2, ...words);
});

test('an option and a command that nobody knows', async () => {
  expect((await swarm(copyOfRun('gpt2-tiny'), '--fast')).code).toBe(2);
  expect((await shoal('swim')).code).toBe(2);
});

test('an export folder that is not empty', async () => {
  const runFile = copyOfRun('gpt2-tiny');
  await expectRefusal(swarm(runFile, '--export', beside(runFile, '')), 2, beside(runFile, ''));
});

test('a run name that the data directory knows with another content', async () => {
  const dataDirectory = temporaryFolder();
  await (await startServer(copyOfRun('gpt2-tiny'), { dataDirectory })).stop();
  const other = copyOfRun('gpt2-tiny', train({ steps: 19 }));
  await expectRefusal(swarm(other, '--data-dir', dataDirectory), 2, other, '"gpt2-tiny"', dataDirectory);
});

test('a port that is taken, and a data directory that is in use', async () => {
  const neighbour = createServer().listen(0, 'localhost');
  atTestEnd(() => neighbour.close());
  await new Promise((resolve) => neighbour.once('listening', resolve));
  const address = neighbour.address();
  const port = String(typeof address === 'object' ? address?.port : '');
  const runFile = copyOfRun('gpt2-tiny');
  const dataDirectory = temporaryFolder();
  await expectRefusal(shoal('serve', runFile, '--data-dir', dataDirectory, '--port', port), 1, port, '--port');
  await startServer(runFile, { dataDirectory });
  await expectRefusal(swarm(runFile, '--data-dir', dataDirectory), 1, dataDirectory, 'in use');
});
