import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { modelFromConfig } from '../../swarm/model/families.ts';
import { encodeHeader } from '../../swarm/model/safetensors.ts';
import { decodeShard } from '../../swarm/run/data.ts';
import { failed, need } from '../commands/failure.ts';
import { sampleText } from '../texts/sampleText.ts';
import { openTokenizer } from '../texts/tokenizer.ts';
import { openWeights } from '../weights/weights.ts';
import { addRun, type DataDirectory, openDataDirectory } from './dataDirectory.ts';
import { exportRun, storedText } from './exportRun.ts';
import { factsOf, parseDocument, windowCounts } from './runDocument.ts';

const TEXT = 'All human beings are born free and equal. Все люди рождаются свободными. 人人生而自由。\n'.repeat(40);
const golden = (name: string): string => fileURLToPath(new URL(`../../e2e/golden/tokenizer/${name}`, import.meta.url));

let folder = '';
let data: DataDirectory;
async function open(): Promise<void> {
  const opened = await openDataDirectory(join(folder, 'data'));
  if (!opened.ok) throw new Error(opened.reason);
  data = opened.value;
}
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'shoal-data-'));
  copyFileSync(golden('tokenizer.json'), join(folder, 'words.json'));
  writeFileSync(join(folder, 'tokenizer_config.json'), '{"model_max_length": 16}');
  writeFileSync(join(folder, 'text.txt'), TEXT);
  await open();
});
afterEach(() => {
  data.close();
  rmSync(folder, { recursive: true, force: true });
});

const model = { model_type: 'gpt2', n_layer: 1, n_head: 1, n_embd: 4, n_positions: 16, vocab_size: 2_460 };
const optimizer = { type: 'adamw', learningRate: 0.001, betas: [0.9, 0.95], epsilon: 1e-8 };
const runFile = {
  name: 'words',
  model,
  data: { files: ['text.txt'], tokenizer: 'words.json', order: 'shuffled', seed: 5 },
  evaluation: { files: ['text.txt'] },
  init: { seed: 1 } as unknown,
  train: { steps: 3, globalBatchSize: 2, sequenceLength: 8, optimizer },
};

function writeRun(change: object = {}): string {
  const path = join(folder, 'run.json');
  writeFileSync(path, JSON.stringify({ ...runFile, ...change }));
  return path;
}
async function reason(path: string): Promise<string> {
  const added = await addRun(data, path);
  return added.ok ? 'accepted' : added.reason.replaceAll(folder, 'DIR');
}
const document = (name = 'words') => parseDocument(data.store.run(name)?.document ?? '');

async function openExported(folder: string) {
  const model = need(modelFromConfig(JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8'))), failed);
  return need(await openWeights(folder, model), failed);
}

test('[DA1] [DA6] a run with a tokenizer keeps its ids, its order and its tokenizer', async () => {
  expect(await reason(writeRun())).toBe('accepted');
  const tokenizer = await openTokenizer(join(folder, 'words.json'));
  if (!tokenizer.ok) throw new Error(tokenizer.reason);
  const { data: list } = document();
  expect(list.bytesPerToken).toBe(2);
  const [shard] = await Promise.all(list.shards.map((hash) => data.blobs.read(hash)));
  expect([...decodeShard(shard?.buffer ?? new ArrayBuffer(), 2)]).toEqual(await tokenizer.value.encode(TEXT));
  tokenizer.value.close();
  expect(factsOf(document())).toMatchObject({ order: { type: 'shuffled', seed: 5 } });
});

test('[DA9] a run on chats keeps their windows, its own chat template and the date that it was made', async () => {
  const messages = ['user', 'assistant'].map((role) => ({ role, content: `free and equal ${role}` }));
  writeFileSync(join(folder, 'chats.jsonl'), `${JSON.stringify({ messages })}\n`.repeat(3));
  writeFileSync(
    join(folder, 'own.jinja'),
    "{{ strftime_now('%Y') }}{% for m in messages %}{{ m.content }}{% endfor %}",
  );
  writeFileSync(join(folder, 'chat_template.jinja'), 'another one');
  const files = ['chats.jsonl'];
  const chats = {
    data: { ...runFile.data, files, format: 'chat', packing: false, chatTemplate: 'own.jinja' },
    evaluation: { files },
    train: { ...runFile.train, sequenceLength: 16 },
  };
  expect(await reason(writeRun(chats))).toBe('accepted');
  const { data: list, evaluation, tokenizer } = document();
  expect(list).toMatchObject({ kind: 'rows', tokens: 3 * 3 * 16, bytesPerToken: 2 });
  expect(evaluation).toEqual(list);
  const counts = await windowCounts(document(), data.blobs);
  expect(counts.data).toHaveLength(3);
  expect(new Set(counts.data).size).toBe(1);
  expect(factsOf(document()).data).toEqual(list);
  expect(await storedText(tokenizer, data.blobs, 'chat_template.jinja')).toContain('strftime_now');
  data.close();
  await open(); // sweeps what nothing needs
  expect(await reason(writeRun(chats))).toBe('accepted');
  // A file that is lost is made again with the run's date: the same windows.
  const [shard = ''] = list.shards;
  rmSync(data.blobs.path(shard));
  expect(await reason(writeRun(chats))).toBe('accepted');
  expect(await data.blobs.problem(shard)).toBeNull();
  writeFileSync(join(folder, 'own.jinja'), 'b');
  expect(await reason(writeRun(chats))).toContain('is known in DIR/data with another content');
});

test('it is exported with its tokenizer, also after the files are gone, and sampled with it', async () => {
  expect(await reason(writeRun())).toBe('accepted');
  rmSync(join(folder, 'words.json'));
  data.close();
  await open(); // sweeps what nothing needs
  const out = join(folder, 'export');
  expect(await exportRun(data, 'words', out)).toEqual({ ok: true, value: out });
  expect(readdirSync(out).sort()).toEqual([
    'README.md',
    'config.json',
    'model.safetensors',
    'tokenizer.json',
    'tokenizer_config.json',
  ]);
  expect(readFileSync(join(out, 'tokenizer.json'), 'utf8')).toBe(readFileSync(golden('tokenizer.json'), 'utf8'));
  const opened = await openExported(out);
  const tokenizer = await openTokenizer(join(out, 'tokenizer.json'));
  if (!tokenizer.ok) throw new Error('the export does not open');
  const request = { prompt: 'All 人', tokens: 5, temperature: 0, seed: 1 };
  const { model, readBlock, close } = opened;
  const text = await sampleText(model, readBlock, request, tokenizer.value);
  await close();
  expect((await tokenizer.value.encode(`All 人${text}`)).length).toBeGreaterThan(3);
  tokenizer.value.close();
});

test('a run that is given again is known by the bytes of its files', async () => {
  const path = writeRun();
  expect(await reason(path)).toBe('accepted');
  const works: string[] = [];
  const again = await addRun(data, path, { progress: (work) => works.push(work) });
  expect(again).toEqual({ ok: true, value: 'words' });
  expect(new Set(works)).toEqual(new Set(['checking']));
  for (const name of ['words.json', 'tokenizer_config.json', 'text.txt']) {
    const before = readFileSync(join(folder, name), 'utf8');
    writeFileSync(join(folder, name), `${before} `);
    expect(await reason(path)).toContain('is known in DIR/data with another content');
    writeFileSync(join(folder, name), before);
  }
  expect(await reason(path)).toBe('accepted');
  rmSync(join(folder, 'text.txt'));
  expect(await reason(path)).toBe('DIR/run.json: DIR/text.txt: there is no such file');
});

test('[DA6] a tokenizer that does not fit is refused in one sentence', async () => {
  expect(await reason(writeRun({ model: { ...model, vocab_size: 2_456 } }))).toBe(
    'DIR/run.json: data.tokenizer DIR/words.json has 2457 ids, but model.vocab_size is 2456: expected at most as many',
  );
  expect(await reason(writeRun({ model: { ...model, vocab_size: 2_457 } }))).toBe('accepted');
  const other = { name: 'other', data: { ...runFile.data, tokenizer: 'gone.json' } };
  expect(await reason(writeRun(other))).toBe(
    'DIR/run.json: data.tokenizer DIR/gone.json: there is no such file: a Hugging Face tokenizer.json was expected',
  );
  writeFileSync(join(folder, 'gone.json'), '{}');
  expect(await reason(writeRun(other))).toContain('data.tokenizer DIR/gone.json is not a Hugging Face tokenizer.json');
  // Ids in quotation marks: only a text shows it.
  writeFileSync(
    join(folder, 'gone.json'),
    readFileSync(golden('tokenizer.json'), 'utf8').replaceAll(/":(\d+)/g, '":"$1"'),
  );
  expect(await reason(writeRun(other))).toMatch(
    /^DIR\/run\.json: data\.tokenizer DIR\/gone\.json is not a Hugging Face tokenizer\.json that can be used: invalid type: string/,
  );
  const unigram = (unk_id: number, last: string): string => {
    const vocab = ['<unk>', '▁', 'a', last].map((token, place) => [token, -place]);
    return JSON.stringify({ added_tokens: [], model: { type: 'Unigram', unk_id, byte_fallback: false, vocab } });
  };
  writeFileSync(join(folder, 'gone.json'), unigram(70_000, 'b'));
  expect(await reason(writeRun(other))).toBe(
    'DIR/run.json: data.tokenizer DIR/gone.json is not a Hugging Face tokenizer.json that can be used: its model.unk_id is 70000, but its model.vocab has 4 tokens: a number from 0 to 3 was expected',
  );
  // A name that the library's own list of its ids leaves out.
  writeFileSync(join(folder, 'gone.json'), unigram(3, '__proto__'));
  expect(await reason(writeRun({ ...other, model: { ...model, vocab_size: 3 } }))).toBe(
    'DIR/run.json: data.files[0] text.txt has the token 3 (its token 0), but model.vocab_size is 3',
  );
  writeFileSync(join(folder, 'text.txt'), Buffer.concat([Buffer.from(TEXT), Buffer.of(0xff), Buffer.from(TEXT)]));
  expect(await reason(writeRun({ name: 'third' }))).toMatch(
    /^DIR\/run\.json: data\.files\[0\] text\.txt is not UTF-8 text near its byte \d+, which a tokenizer\.json needs$/,
  );
});

test('an init file with a number that is none is refused by the tensor, and the run is not there', async () => {
  const names: readonly [string, readonly number[]][] = [
    ['wte.weight', [2_460, 4]],
    ['wpe.weight', [16, 4]],
    ...(
      [
        ['ln_1.weight', [4]],
        ['ln_1.bias', [4]],
        ['attn.c_attn.weight', [4, 12]],
        ['attn.c_attn.bias', [12]],
        ['attn.c_proj.weight', [4, 4]],
        ['attn.c_proj.bias', [4]],
        ['ln_2.weight', [4]],
        ['ln_2.bias', [4]],
        ['mlp.c_fc.weight', [4, 16]],
        ['mlp.c_fc.bias', [16]],
        ['mlp.c_proj.weight', [16, 4]],
        ['mlp.c_proj.bias', [4]],
      ] as const
    ).map(([name, shape]): [string, readonly number[]] => [`h.0.${name}`, shape]),
    ['ln_f.weight', [4]],
    ['ln_f.bias', [4]],
  ];
  const elements = names.reduce((sum, [, shape]) => sum + shape.reduce((product, size) => product * size, 1), 0);
  const values = new Float32Array(elements);
  values[elements - 1] = Number.NaN;
  const header = encodeHeader(names.map(([name, shape]) => ({ name, shape })));
  writeFileSync(join(folder, 'init.safetensors'), Buffer.concat([header, new Uint8Array(values.buffer)]));
  const path = writeRun({ init: 'init.safetensors' });
  expect(await reason(path)).toBe(
    'DIR/run.json: init DIR/init.safetensors has NaN in ln_f.bias, at its element 3: finite numbers were expected',
  );
  expect(data.store.runNames()).toEqual([]);
  expect(await reason(writeRun({ init: 'nowhere' }))).toBe(
    'DIR/run.json: init DIR/nowhere: there is no such file: a safetensors file, its index or a folder with either was expected',
  );
});

test('a directory whose store or blobs are damaged is refused in a sentence, and not held', async () => {
  const directory = join(folder, 'damaged');
  const whole = await openDataDirectory(directory);
  if (!whole.ok) throw new Error(whole.reason);
  whole.value.store.addRun('words', 'hash', '{', JSON.stringify({ step: 0, shards: [] }), 0);
  whole.value.close();
  const cannotBeUsed = { ok: false, reason: expect.stringMatching(/damaged cannot be used: .*JSON/) };
  expect(await openDataDirectory(directory)).toEqual(cannotBeUsed);
  expect(await openDataDirectory(directory)).toEqual(cannotBeUsed);
  rmSync(join(directory, 'shoal.sqlite'));
  mkdirSync(join(directory, 'shoal.sqlite'));
  expect(await openDataDirectory(directory)).toEqual({
    ok: false,
    reason: expect.stringMatching(/shoal\.sqlite cannot be opened: /),
  });
});

test('[FI12] a head that unties the model is said once, and the export is untied', async () => {
  const [VOCABULARY, WIDTH] = [128, 4];
  const shapes: Record<string, number[]> = { 'wte.weight': [VOCABULARY, WIDTH], 'lm_head.weight': [VOCABULARY, WIDTH] };
  const norms = ['ln_1.weight', 'ln_1.bias', 'attn.c_proj.bias', 'ln_2.weight', 'ln_2.bias', 'mlp.c_proj.bias'];
  for (const name of norms) shapes[`h.0.${name}`] = [WIDTH];
  Object.assign(shapes, { 'wpe.weight': [16, WIDTH], 'ln_f.weight': [WIDTH], 'ln_f.bias': [WIDTH] });
  Object.assign(shapes, { 'h.0.attn.c_attn.weight': [WIDTH, 12], 'h.0.attn.c_attn.bias': [12] });
  Object.assign(shapes, { 'h.0.attn.c_proj.weight': [WIDTH, WIDTH], 'h.0.mlp.c_fc.weight': [WIDTH, 16] });
  Object.assign(shapes, { 'h.0.mlp.c_fc.bias': [16], 'h.0.mlp.c_proj.weight': [16, WIDTH] });
  const tensors = Object.entries(shapes).map(([name, shape]) => ({ name, shape }));
  const values = tensors.flatMap(({ name, shape }) =>
    new Array<number>(shape.reduce((product, size) => product * size, 1)).fill(name === 'lm_head.weight' ? 0.5 : 0.25),
  );
  const floats = new Uint8Array(Float32Array.from(values).buffer);
  writeFileSync(join(folder, 'init.safetensors'), Buffer.concat([encodeHeader(tensors), floats]));
  writeFileSync(join(folder, 'ascii.txt'), 'All human beings are born free and equal.\n'.repeat(9));
  const path = writeRun({
    ...{ name: 'untied', model: { ...model, vocab_size: VOCABULARY }, evaluation: undefined },
    ...{ data: { files: ['ascii.txt'], tokenizer: 'bytes' }, init: 'init.safetensors' },
  });
  const notes: string[] = [];
  const add = () => addRun(data, path, { note: (sentence) => notes.push(sentence.replaceAll(folder, 'DIR')) });
  expect(await add()).toEqual({ ok: true, value: 'untied' });
  expect(await add()).toEqual({ ok: true, value: 'untied' });
  expect(notes).toEqual([
    'DIR/run.json: init has an lm_head.weight that differs from the embedding: the head is trained and exported untied',
  ]);
  const out = join(folder, 'export');
  expect(await exportRun(data, 'untied', out)).toMatchObject({ ok: true });
  expect(JSON.parse(readFileSync(join(out, 'config.json'), 'utf8')).tie_word_embeddings).toBe(false);
  const weights = await openExported(out);
  const { elements } = weights.model.blocks.at(-1) ?? { elements: 0 };
  expect([...(await weights.readBlock('head', elements - 2, elements))]).toEqual([0.5, 0.5]);
  await weights.close();
  const tokenizer = await openTokenizer(join(out, 'tokenizer.json'));
  if (!tokenizer.ok) throw new Error(tokenizer.reason);
  expect(tokenizer.value.ids).toBe(VOCABULARY);
  tokenizer.value.close();
});
