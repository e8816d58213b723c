/** Examples of chats and of completions, against what independent programs made of the same lines; and lines that are none. */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Result, success } from '../../swarm/base.ts';
import { parseRunFile, type RunFile } from '../../swarm/run/runFile.ts';
import { openBlobs } from '../files/blobs.ts';
import { goldenFolder } from '../testing/goldenCase.ts';
import type { LineExample } from './examples.ts';
import { prepareTokens, withTokenizer } from './tokens.ts';

type Json = Record<string, unknown>;
interface Expected {
  readonly text: string;
  readonly ids: readonly number[];
  readonly counted: readonly number[];
}

const golden = (path: string): string => readFileSync(fileURLToPath(new URL(path, goldenFolder('chat-tiny'))), 'utf8');
const CHATS: Record<string, Expected[]> = JSON.parse(golden('expected.json'));

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-examples-'));
  cpSync(goldenFolder('chat-tiny'), folder, { recursive: true });
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const write = (name: string, content: string): void => writeFileSync(join(folder, name), content);

interface Options {
  readonly sequence?: number;
  readonly config?: Json;
  readonly adapter?: Json;
}

function run(data: Json, { sequence = 64, config = {}, adapter }: Options = {}): RunFile {
  const optimizer = { type: 'adamw', learningRate: 1, betas: [0.9, 0.9], epsilon: 1e-8 };
  const model = { model_type: 'gpt2', n_layer: 1, n_head: 1, n_embd: 4, n_positions: 128, vocab_size: 268, ...config };
  const train = { steps: 1, globalBatchSize: 1, sequenceLength: sequence, optimizer, ...(adapter && { adapter }) };
  const parsed = parseRunFile({ name: 'examples', model, data, init: { seed: 1 }, train }, 'run.json');
  if (!parsed.ok) throw new Error(parsed.reason);
  return parsed.value;
}

async function examplesOf(of: RunFile): Promise<Expected[]> {
  const all = await withTokenizer(of, join(folder, 'run.json'), new Date('2026-03-04'), async ({ examples }) => {
    const found: LineExample[] = [];
    for (const file of of.data.files)
      for await (const one of examples?.(join(folder, file), () => {}) ?? []) found.push(one);
    return success(found);
  });
  if (!all.ok) throw new Error(all.reason);
  return all.value.map(({ text, ids, counted }) => ({ text, ids: [...ids], counted }));
}

const prepared = async (of: RunFile) =>
  prepareTokens(of, join(folder, 'run.json'), await openBlobs(join(folder, 'blobs')), { date: new Date(0) });
const refused = (made: Result<unknown>): string => (made.ok ? 'accepted' : made.reason.replaceAll(folder, 'DIR'));

const CHAT = { files: ['chats.jsonl'], tokenizer: 'tokenizer.json', format: 'chat' };
const BYTES = { files: ['lines.jsonl'], tokenizer: 'bytes' };
const COMPLETION = { files: ['lines.jsonl'], tokenizer: 'tokenizer.json', format: 'completion' };

test.each(['plain', 'thinking', 'folded'])('chats by the template %s', async (name) => {
  expect(await examplesOf(run({ ...CHAT, chatTemplate: `${name}.jinja` }))).toEqual(CHATS[name]);
  write('chat_template.jinja', golden(`${name}.jinja`));
  expect(await examplesOf(run(CHAT))).toEqual(CHATS[name]);
});

test('spaces at the ends of tokens are theirs, whatever the post-processor says of places', async () => {
  const post_processor = { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true };
  write('tokenizer.json', JSON.stringify({ ...JSON.parse(golden('tokenizer.json')), post_processor }));
  expect(await examplesOf(run({ ...CHAT, chatTemplate: 'plain.jinja' }))).toEqual(CHATS.plain);
});

test.each<[name: string, sequence: number, packing: boolean | undefined]>([
  ['40 packed', 40, undefined],
  ['40 apart', 40, false],
  ['23 packed', 23, true],
  ['23 apart', 23, false],
])('[DA9] windows of completions: %s', async (name, sequence, packing) => {
  cpSync(new URL('sums.jsonl', goldenFolder('completion-tiny')), join(folder, 'sums.jsonl'));
  const expected = JSON.parse(readFileSync(new URL('windows.json', goldenFolder('completion-tiny')), 'utf8'))[name];
  const data = {
    files: ['sums.jsonl'],
    tokenizer: 'bytes',
    format: 'completion',
    ...(packing === undefined ? {} : { packing }),
  };
  const made = await prepared(run(data, { sequence, config: { vocab_size: 256 } }));
  if (!made.ok) throw new Error(made.reason);
  const { counted = '', ...list } = made.value.data;
  // A shard is named by the hash of its bytes.
  expect(list).toEqual({
    ...{ kind: 'rows', tokens: expected.windows * 3 * sequence, shardTokens: 65_536, bytesPerToken: 2 },
    shards: [expected.sha256],
    countedRows: expected.counted.reduce((sum: number, rows: number) => sum + rows, 0),
  });
  const counts = await (await openBlobs(join(folder, 'blobs'))).read(counted);
  expect([...new Uint32Array(counts.buffer)]).toEqual(expected.counted);
});

const LORA = { type: 'lora', rank: 1, alpha: 1, targets: ['c_attn'] };
const PAIRS = { ...BYTES, format: 'preference' };
const pair = (prompt: string, chosen: string, rejected: string) => JSON.stringify({ prompt, chosen, rejected });

test('[DA11] windows of preference pairs: each half has both texts, the longer of which is cut first', async () => {
  const lines = [
    pair('ab', 'c', 'de'),
    pair('a', 'bcdefghi', 'j'),
    pair('a', 'bcdefg', 'hijklm'),
    pair('a', '', 'b'), // nothing of its chosen counts
    pair('abcd', 'efgh', 'ijkl'), // nothing counts within three rows
  ];
  write('lines.jsonl', lines.join('\n'));
  const made = await prepared(run(PAIRS, { sequence: 14, config: { vocab_size: 256 }, adapter: LORA }));
  if (!made.ok) throw new Error(made.reason);
  const { counted = '', shards, countedRows, bytesPerToken } = made.value.data;
  const blobs = await openBlobs(join(folder, 'blobs'));
  expect([...new Uint32Array((await blobs.read(counted)).buffer)]).toEqual([1 + 2, 6 + 1, 4 + 3]);
  expect([countedRows, bytesPerToken]).toEqual([17, 2]);
  const numbers = new Uint16Array((await blobs.read(shards[0] ?? '')).buffer);
  /** Inputs, targets (a dot counts nothing) and first rows of a window's half, and that the other half is the same. */
  const halves = [0, 1, 2].map((window) => {
    const all = [0, 14, 28].map((from) => [...numbers.subarray(42 * window + from, 42 * window + from + 14)]);
    const [ids = [], targets = [], first = []] = all.map((rows) => rows.slice(0, 7));
    expect(all.map((rows) => rows.slice(7))).toEqual([ids, targets, first.map((row) => row + 7)]);
    const letters = (of: number[]) => of.map((id) => (id === 0 || id === 256 ? '.' : String.fromCharCode(id))).join('');
    return [letters(ids), letters(targets), first.join('')];
  });
  expect(halves).toEqual([
    ['ababd..', '.c.de..', '0022256'],
    ['abcdefa', 'bcdefgj', '0000006'],
    ['abcdahi', 'bcdehij', '0000444'],
  ]);
});

test('a completion is encoded apart from its prompt, between the tokens that begin and end a text', async () => {
  const line = '{"prompt": "t", "completion": "he", "note": 1}';
  write('lines.jsonl', `${line}\n\n{"prompt": "", "completion": "the"}\n{"prompt": "the", "completion": ""}\n \n\n`);
  const THE = 257;
  expect(await examplesOf(run(COMPLETION))).toEqual([
    { text: 'the', ids: [83, 71, 68, 265], counted: [1, 2, 3] },
    { text: 'the', ids: [THE, 265], counted: [1] },
    { text: 'the', ids: [THE, 265], counted: [1] },
  ]);
  const tokenizer = JSON.parse(golden('tokenizer.json'));
  const single = [{ SpecialToken: { id: '<|begin|>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }];
  const special_tokens = { '<|begin|>': { id: '<|begin|>', ids: [263], tokens: ['<|begin|>'] } };
  const post_processor = { type: 'TemplateProcessing', single, pair: single, special_tokens };
  write('tokenizer.json', JSON.stringify({ ...tokenizer, post_processor }));
  write('lines.jsonl', line);
  expect(await examplesOf(run(COMPLETION))).toEqual([{ text: 'the', ids: [263, 83, 71, 68, 265], counted: [2, 3, 4] }]);
  rmSync(join(folder, 'tokenizer_config.json'));
  const [ended, open] = [{ eos_token_id: [7, 8] }, {}].map((config) => run(COMPLETION, { config }));
  expect((await examplesOf(ended ?? run(COMPLETION)))[0]?.ids).toEqual([263, 83, 71, 68, 7]);
  expect((await examplesOf(open ?? run(COMPLETION)))[0]?.ids).toEqual([263, 83, 71, 68]);
  write('tokenizer_config.json', '{"eos_token": "<|gone|>"}');
  expect(refused(await prepared(run(COMPLETION)))).toContain('eos_token "<|gone|>", which is no token of it');
});

test('bytes have no end; an answer among characters of many bytes is counted where it stands', async () => {
  write('lines.jsonl', '{"prompt": "🐟é", "completion": "🐠"}\n{"prompt": "x", "completion": ""}');
  expect(await examplesOf(run({ ...BYTES, format: 'completion' }))).toEqual([
    { text: '🐟é🐠', ids: [...Buffer.from('🐟é🐠')], counted: [6, 7, 8, 9] },
    { text: 'x', ids: [120], counted: [] },
  ]);
  // What the template begins an answer with shares the first half of a character with this one.
  write(
    'lines.jsonl',
    JSON.stringify({
      messages: [
        { role: 'user', content: '🐟🐠' },
        { role: 'assistant', content: '🐡a' },
      ],
    }),
  );
  write(
    'own.jinja',
    '{% for m in messages %}{{ m.role[0] }}{{ m.content }}🐙{% endfor %}{% if add_generation_prompt %}a🐙{% endif %}',
  );
  const [chat] = await examplesOf(run({ ...BYTES, format: 'chat', chatTemplate: 'own.jinja' }));
  expect(chat?.text).toBe('u🐟🐠🐙a🐡a🐙');
  const before = Buffer.byteLength('u🐟🐠🐙a');
  // The bytes of 🐡 and the letter, and the next token: the first byte of 🐙.
  expect(chat?.counted).toEqual(Array.from({ length: 6 }, (_, i) => before + i));
});

test('an answer that the template trims ends where it shows, and an empty one with the token after it', async () => {
  const lines = ['  a ', ''].map((content) => ({
    messages: [
      { role: 'user', content: 'x' },
      { role: 'assistant', content },
    ],
  }));
  write('chats.jsonl', lines.map((line) => JSON.stringify(line)).join('\n'));
  write(
    'own.jinja',
    '{% for m in messages %}<{{ m.content | trim }}>{% endfor %}{% if add_generation_prompt %}<{% endif %}',
  );
  const data = { files: ['chats.jsonl'], tokenizer: 'bytes', format: 'chat', chatTemplate: 'own.jinja' };
  expect((await examplesOf(run(data))).map(({ text, counted }) => [text, counted])).toEqual([
    ['<x><a>', [4, 5]],
    ['<x><>', [4]],
  ]);
});

test('the date, tools and further fields are the template’s', async () => {
  const messages = [
    { role: 'user', content: 'q', mood: 1.0 },
    { role: 'assistant', content: null, tool_calls: [1] },
  ];
  write('chats.jsonl', `{"tools": [{"b": 1, "a": 2.0}], "messages": ${JSON.stringify(messages)}}`);
  write(
    'own.jinja',
    "{{ strftime_now('%d %b %Y') }} {{ tools | tojson }} {{ messages[0].mood }} {{ messages[-1].content }}{{ eos_token }}",
  );
  const [chat] = await examplesOf(run({ ...CHAT, chatTemplate: 'own.jinja' }));
  expect(chat?.text).toBe('04 Mar 2026 [{"b": 1, "a": 2.0}] 1 None<|end|>');
});

const MESSAGES = (...messages: readonly unknown[]): string => JSON.stringify({ messages });
const USER = { role: 'user', content: 'hi' };
test.each<[what: string, format: string, line: string, sentence: string]>([
  ['no JSON', 'completion', '{"prompt": "a", ', 'it is not valid JSON: it ends where a name in quotes belongs'],
  ['no object', 'completion', '["a", "b"]', 'it must be an object with prompt and completion, not ["a","b"]'],
  ['no prompt', 'completion', '{"completion": "b"}', 'prompt is missing: it must be a text'],
  ['a chat in a completion', 'completion', '{"prompt": [], "completion": "b"}', 'prompt must be a text, not []'],
  [
    'half a character',
    'completion',
    '{"prompt": "\\ud83d", "completion": "b"}',
    'prompt has half a character, which UTF-8 cannot have',
  ],
  ['one answer', 'preference', '{"prompt": "a", "chosen": "b"}', 'rejected is missing: it must be a text'],
  ['no messages', 'chat', '{"prompt": "a"}', 'messages is missing: it must be a list of messages'],
  ['no message', 'chat', MESSAGES(), 'messages must be a list of one message or more, not []'],
  ['a role that is no text', 'chat', MESSAGES({ role: 1, content: 'x' }), 'messages[0].role must be a text, not 1'],
  ['no content', 'chat', MESSAGES(USER, { role: 'assistant' }), 'messages[1].content is missing: it must be a text'],
  [
    'no answer',
    'chat',
    MESSAGES(USER),
    'nothing in it is an answer: a message of the role "assistant" whose content the chat template writes was expected',
  ],
  [
    'a chat that the template refuses',
    'chat',
    MESSAGES(USER, USER),
    'the chat template, line 4: the template refuses: user and assistant take turns',
  ],
])('a line with %s is refused by its number', async (_, format, line, sentence) => {
  const answered = format === 'preference' ? pair('a', 'b', 'c') : '{"prompt": "a", "completion": "b"}';
  const good = format === 'chat' ? MESSAGES(USER, { role: 'assistant', content: 'ho' }) : answered;
  write('lines.jsonl', `${good}\n\n${line}\nmore`);
  const made = await prepared(
    run(
      { ...BYTES, format, ...(format === 'chat' ? { chatTemplate: 'folded.jinja' } : {}) },
      format === 'preference' ? { adapter: LORA } : {},
    ),
  );
  expect(refused(made)).toBe(`DIR/run.json: data.files[0] lines.jsonl line 3: ${sentence}`);
});

test('what has no window, no template or no such token is refused; held-out files too', async () => {
  const apart = run({ ...COMPLETION, packing: false }, { sequence: 2 });
  write('lines.jsonl', '{"prompt": "a b c", "completion": "d"}');
  expect(refused(await prepared(apart))).toBe(
    'DIR/run.json: data.files has no example of which a token counts within train.sequenceLength, 2: expected one at least',
  );
  expect(refused(await prepared(run(CHAT)))).toContain(
    'has no chat template beside it, which data.format "chat" needs',
  );
  expect(refused(await prepared(run({ ...CHAT, chatTemplate: 'gone.jinja' })))).toBe(
    'DIR/run.json: data.chatTemplate DIR/gone.jinja: there is no such file: a chat template was expected',
  );
  write('bad.jinja', 'a\n{% if %}');
  expect(refused(await prepared(run({ ...CHAT, chatTemplate: 'bad.jinja' })))).toContain(
    'bad.jinja: the chat template, line 2',
  );
  const bytes = run({ ...COMPLETION, tokenizer: 'bytes' }, { config: { vocab_size: 98 } });
  write('lines.jsonl', '{"prompt": "a", "completion": "b"}');
  expect(refused(await prepared(bytes))).toBe(
    'DIR/run.json: data.files[0] lines.jsonl line 1: it has the token 98, but model.vocab_size is 98',
  );
  const held = { ...run(COMPLETION), evaluation: { files: ['held.jsonl'], everySteps: 1 } };
  write('held.jsonl', 'text');
  expect(refused(await prepared(held))).toContain(
    'evaluation.files[0] held.jsonl line 1: it is not valid JSON: it has text',
  );
});
