/** `shoal examples` on chats, completions, preference pairs and text. */
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Captured } from '../testing/captured.ts';
import { goldenFolder } from '../testing/goldenCase.ts';
import { runCommand } from './program.ts';

const captured = new Captured();
beforeEach(() => {
  captured.begin();
  cpSync(goldenFolder('chat-tiny'), captured.folder, { recursive: true });
});
afterEach(() => captured.end());

const file = (name: string): string => join(captured.folder, name);

/** The path of a run file; T = 8. */
function runOn(data: Record<string, unknown>, trained: object = {}): string {
  const optimizer = { type: 'adamw', learningRate: 1, betas: [0.9, 0.9], epsilon: 1e-8 };
  const model = { model_type: 'gpt2', n_layer: 1, n_head: 1, n_embd: 4, n_positions: 128, vocab_size: 268 };
  const train = { steps: 1, globalBatchSize: 1, sequenceLength: 8, optimizer, ...trained };
  writeFileSync(file('run.json'), JSON.stringify({ name: 'examples', model, data, init: { seed: 1 }, train }));
  return file('run.json');
}

const CHAT = { files: ['chats.jsonl'], tokenizer: 'tokenizer.json', format: 'chat', chatTemplate: 'plain.jinja' };

test('chats with their ids and what counts of them', async () => {
  const expected: unknown[] = JSON.parse(readFileSync(file('expected.json'), 'utf8')).plain;
  const path = runOn(CHAT);
  expect(await runCommand(['examples', path, '--json', '--first', '3'])).toBe(0);
  expect(captured.errors).toBe('');
  expect(JSON.parse(captured.out)).toEqual(
    expected.slice(0, 3).map((one, index) => ({ file: 'chats.jsonl', line: index + 1, ...(one as object) })),
  );
});

test('in a terminal the counted part is marked, and what a window has no room for is said', async () => {
  const [bell, fish] = ['\u0007', '🐟'];
  const lines = [
    { prompt: `${fish}: `, completion: `a${bell}${fish}` },
    { prompt: 'long, so long', completion: 'x' },
  ];
  writeFileSync(file('lines.jsonl'), lines.map((line) => JSON.stringify(line)).join('\n'));
  expect(
    await runCommand(['examples', runOn({ ...CHAT, files: ['chats.jsonl', 'lines.jsonl'] }), '--first', '2']),
  ).toBe(0);
  expect(captured.out).toContain(
    'chats.jsonl, line 1: 51 tokens, 7 of them counted; left out: none within its first 9 tokens\n' +
      '<|turn|>user\nHow many legs has a spider?<|end|>\n<|turn|>assistant\n⟦Eight.<|end|>⟧\n',
  );
  captured.clear();
  expect(
    await runCommand(['examples', runOn({ files: ['lines.jsonl'], tokenizer: 'bytes', format: 'completion' })]),
  ).toBe(0);
  expect(captured.out).toBe(
    'lines.jsonl, line 1: 12 tokens, 6 of them counted; cut behind its token 9\n🐟: ⟦a\\u0007🐟⟧\n\n' +
      'lines.jsonl, line 2: 14 tokens, 1 of them counted; left out: none within its first 9 tokens\nlong, so long⟦x⟧\n\n' +
      'The loss counts what stands between ⟦ and ⟧.\n',
  );
});

test('of a preference pair both texts are shown, and what becomes of each', async () => {
  const lines = [
    { prompt: 'a', chosen: 'bcd', rejected: 'e' },
    { prompt: 'abc', chosen: 'd', rejected: 'ef' },
  ];
  writeFileSync(file('lines.jsonl'), lines.map((line) => JSON.stringify(line)).join('\n'));
  const adapter = { type: 'lora', rank: 1, alpha: 1, targets: ['c_attn'] };
  const path = runOn({ files: ['lines.jsonl'], tokenizer: 'bytes', format: 'preference' }, { adapter });
  expect(await runCommand(['examples', path])).toBe(0);
  expect(captured.out).toBe(
    'lines.jsonl, line 1, chosen: 4 tokens, 3 of them counted\na⟦bcd⟧\n\n' +
      'lines.jsonl, line 1, rejected: 2 tokens, 1 of them counted\na⟦e⟧\n\n' +
      'lines.jsonl, line 2, chosen: 4 tokens, 1 of them counted; left out: none within its first 3 tokens\nabc⟦d⟧\n\n' +
      'lines.jsonl, line 2, rejected: 5 tokens, 2 of them counted; left out: none within its first 3 tokens\nabc⟦ef⟧\n\n' +
      'The loss counts what stands between ⟦ and ⟧.\n',
  );
  captured.clear();
  expect(await runCommand(['examples', path, '--json', '--first', '1'])).toBe(0);
  expect(JSON.parse(captured.out)).toEqual([
    {
      ...{ file: 'lines.jsonl', line: 1, text: 'abcd', ids: [97, 98, 99, 100], counted: [1, 2, 3] },
      rejected: { text: 'ae', ids: [97, 101], counted: [1] },
    },
  ]);
});

test('text in windows, over the ends of files', async () => {
  writeFileSync(file('a.txt'), 'abcdefghij');
  writeFileSync(file('b.txt'), '0123456789');
  expect(await runCommand(['examples', runOn({ files: ['a.txt', 'b.txt'], tokenizer: 'bytes' }), '--json'])).toBe(0);
  const window = (name: string, text: string) => ({
    ...{ file: name, line: null, text, ids: [...Buffer.from(text)] },
    counted: [1, 2, 3, 4, 5, 6, 7, 8],
  });
  expect(JSON.parse(captured.out)).toEqual([window('a.txt', 'abcdefghi'), window('a.txt', 'ij0123456')]);
});

test('a line that is no example, and no example at all, are a sentence and exit code 2', async () => {
  writeFileSync(file('lines.jsonl'), '{"prompt": "a", "completion": "b"}\n{"prompt": "a"}\n');
  const path = runOn({ files: ['lines.jsonl'], tokenizer: 'bytes', format: 'completion' });
  expect(await runCommand(['examples', path])).toBe(2);
  expect(captured.out).toBe('');
  expect(captured.errors).toBe(`${path}: data.files[0] lines.jsonl line 2: completion is missing: it must be a text\n`);
  captured.clear();
  // What was asked for is before it.
  expect(await runCommand(['examples', path, '--first', '1'])).toBe(0);
  captured.clear();
  writeFileSync(file('lines.jsonl'), '\n');
  expect(await runCommand(['examples', path])).toBe(2);
  expect(captured.errors).toContain('data.files has no example of which a token counts');
});
