/** Examples that an operator brings along: through a real server, against the numbers of the golden cases. */
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { at } from '../../swarm/base.ts';
import { type DraftExamples, draftExamplesSchema, type ExampleTotals } from '../../swarm/run/draftExamples.ts';
import { INITIAL_DRAFT, runListSchema } from '../../swarm/run/runDraft.ts';
import { parseDocument } from '../store/runDocument.ts';
import { goldenFolder } from '../testing/goldenCase.ts';
import { errorOf, OperatedServer } from '../testing/operatedServer.ts';
import { tinyRunFile } from '../testing/tinyServers.ts';

const golden = (path: string): string => readFileSync(new URL(path, goldenFolder('x/..')), 'utf8');
const SUMS = golden('completion-tiny/sums.jsonl');
const WINDOWS: Record<string, { windows: number; counted: number[] }> = JSON.parse(
  golden('completion-tiny/windows.json'),
);
const CHATS = golden('chat-tiny/chats.jsonl');
const CHATS_SEEN: { text: string; ids: number[]; counted: number[] }[] = JSON.parse(
  golden('chat-tiny/expected.json'),
).plain;

let operated: OperatedServer;
beforeEach(() => {
  operated = new OperatedServer();
});
afterEach(() => operated.close());

const folder = (): string => join(operated.servers.folder, 'files');

/** A run of bytes, or of the tokenizer that lies in its folder. */
async function serve(tokenizer = 'bytes', train = {}) {
  const run = tinyRunFile({ steps: 1 });
  const model = { ...run.model, n_positions: 128, vocab_size: 268 };
  operated.servers.writeRun({ ...run, model, data: { ...run.data, tokenizer }, train: { ...run.train, ...train } });
  await operated.serve(null);
  const calls = await operated.logIn();
  const bring = (name: string, text: string, query = '') =>
    calls.postBytes(`/api/operator/texts?name=${name}${query}`, Buffer.from(text));
  const look = (text: string, sequenceLength: number, packing = true) =>
    calls.post('/api/operator/examples', { source: 'tiny', text, model: 'same', sequenceLength, packing });
  const seen = async (...question: Parameters<typeof look>): Promise<DraftExamples> =>
    draftExamplesSchema.parse(await (await look(...question)).json());
  return { ...calls, bring, look, seen };
}

const chatRun = (): void => cpSync(goldenFolder('chat-tiny'), folder(), { recursive: true });

const sum = (numbers: readonly number[]): number => numbers.reduce((all, one) => all + one, 0);
const both = ({ trained, heldOut }: DraftExamples, of: (totals: ExampleTotals) => number): number =>
  of(trained) + (heldOut === null ? 0 : of(heldOut));

test('completions are counted in windows as the golden case has them, and the last lines are held out', async () => {
  const { bring, seen, get } = await serve();
  expect((await bring('sums', SUMS)).status).toBe(200);
  const { texts } = runListSchema.parse(await (await get('/api/operator/runs')).json());
  expect(texts).toMatchObject([{ name: 'sums', format: 'completion' }]);
  const lines = SUMS.trimEnd().split('\n');
  const heldOut = lines.filter((_, line) => lines.slice(line).join('\n').length < 0.02 * SUMS.length).length;

  const apart = await seen('sums', 40, false);
  const each = WINDOWS['40 apart']?.counted ?? [];
  expect([apart.trained.examples, apart.heldOut?.examples]).toEqual([160 - heldOut, heldOut]);
  expect(apart.trained).toMatchObject({ windows: 160 - heldOut, counted: sum(each.slice(0, -heldOut)) });
  expect(apart.heldOut).toMatchObject({ windows: heldOut, counted: sum(each.slice(-heldOut)) });
  expect(apart.trained.tokens).toBe(
    sum(lines.slice(0, -heldOut).map((line) => Math.min(41, Object.values<string>(JSON.parse(line)).join('').length))),
  );
  const packed = await seen('sums', 40);
  const full = WINDOWS['40 packed']?.counted ?? [];
  expect(packed.trained.counted).toBe(apart.trained.counted);
  expect(packed.trained.windows).toBe(
    full.findIndex((_, i) => sum(full.slice(0, i + 1)) >= packed.trained.counted) + 1,
  );

  const short = await seen('sums', 23, false);
  const { windows = 0, counted = [] } = WINDOWS['23 apart'] ?? {};
  expect(both(short, (totals) => totals.windows)).toBe(windows);
  expect(both(short, (totals) => totals.counted)).toBe(sum(counted));
  expect(both(short, ({ lines: { late } }) => late.count)).toBe(160 - windows);
  const left = lines.flatMap((line, index) => (JSON.parse(line).prompt.length > 23 ? [index + 1] : []));
  expect(short.trained.lines.late.lines).toEqual(left.slice(0, 20));

  expect(apart.first.map(({ line, tokens, counted, pieces, cut }) => [line, tokens, counted, pieces, cut])).toEqual(
    lines.slice(0, 5).map((line, index) => {
      const { prompt, completion } = JSON.parse(line);
      const room = 41 - prompt.length;
      const counted = { text: completion.slice(0, room), isCounted: true };
      const pieces = [{ text: prompt, isCounted: false }, counted];
      return [index + 1, prompt.length + completion.length, counted.text.length, pieces, completion.slice(room)];
    }),
  );
});

test('chats are seen by the source’s tokenizer and template, and a run of them is made of the same', async () => {
  chatRun();
  cpSync(join(folder(), 'plain.jinja'), join(folder(), 'chat_template.jinja'));
  const { bring, seen, post } = await serve('tokenizer.json');
  expect(await (await bring('chats', CHATS)).json()).toMatchObject({ value: { format: 'chat' } });
  const found = await seen('chats', 128);
  expect(found).toMatchObject({ format: 'chat', isOfBytes: false, templateFile: 'chat_template.jinja' });
  const trained = CHATS_SEEN.slice(0, 3);
  expect(
    found.first.map(({ tokens, counted, pieces }) => [pieces.map(({ text }) => text).join(''), tokens, counted]),
  ).toEqual(trained.map(({ text, ids, counted }) => [text, ids.length, counted.length]));
  expect(at(found.first, 0).pieces.filter(({ isCounted }) => isCounted)).toEqual([
    { text: 'Eight.<|end|>', isCounted: true },
  ]);
  expect(found.trained).toMatchObject({
    ...{ examples: 3, tokens: sum(trained.map(({ ids }) => ids.length)) },
    counted: sum(trained.map(({ counted }) => counted.length)),
  });
  expect(found.heldOut).toMatchObject({ examples: 1, counted: CHATS_SEEN[3]?.counted.length });

  const draft = { ...INITIAL_DRAFT, name: 'talks', source: 'tiny', text: 'chats', sequenceLength: 128, packing: false };
  const cluster = JSON.stringify({ peers: [{ id: 'a', memoryBytes: 1e9, flopsPerSecond: 1e10 }] });
  expect((await post('/api/operator/plan', { draft, cluster, whatIf: null })).status).toBe(200);
  expect(await (await post('/api/operator/runs', draft)).json()).toEqual({ ok: true, value: 'talks' });
  const { store } = operated.data;
  const [made, source] = ['talks', 'tiny'].map((name) => parseDocument(store.run(name)?.document ?? ''));
  expect(made?.file.data).toMatchObject({ format: 'chat', packing: false, tokenizer: 'tokenizer.json' });
  expect(made?.file.model.vocab_size).toBe(268);
  expect(made?.tokenizer).toEqual(source?.tokenizer);
  expect(made?.data.countedRows).toBe(found.trained.counted);
  expect(made?.evaluation?.countedRows).toBe(found.heldOut?.counted);
});

test('a run with an adapter gives a draft its weights, its kind of adapter and its checkpoints', async () => {
  const adapter = { type: 'lora', rank: 2, alpha: 4, targets: ['c_attn'] };
  const { bring, post } = await serve('bytes', { adapter, base: 'f16' });
  await bring('sums', SUMS);
  const draft = { ...INITIAL_DRAFT, source: 'tiny', text: 'sums', sequenceLength: 40, seed: 5 };
  for (const [name, checkpoint] of Object.entries({ fresh: null, cloned: 0 }))
    expect((await post('/api/operator/runs', { ...draft, name, checkpoint })).status).toBe(200);
  const { store } = operated.data;
  const [source, fresh, cloned] = ['tiny', 'fresh', 'cloned'].map((name) => ({
    document: parseDocument(store.run(name)?.document ?? ''),
    hashes: JSON.parse(store.checkpoint(name, 0) ?? '').shards.map(({ hash }: { hash: string }) => hash),
  }));
  expect(source?.document.base).toHaveLength(2 + 2);
  for (const made of [fresh, cloned]) {
    expect(made?.document.base).toEqual(source?.document.base);
    expect(made?.document.file.train).toMatchObject({ adapter: { ...adapter, seed: 5 }, base: 'f16' });
  }
  expect(cloned?.hashes).toEqual(source?.hashes);
  expect(fresh?.hashes).toHaveLength(source?.hashes.length);
  expect(fresh?.hashes).not.toEqual(source?.hashes);
  const text = 'The sea, the sea. '.repeat(200);
  await bring('sea', text);
  expect(await errorOf(await post('/api/operator/runs', { ...draft, name: 'other', text: 'sea' }))).toEqual([
    409,
    expect.stringMatching(/know other tokens: bring examples, or choose a model of the list$/),
  ]);
});

test('chats say where their template is, or that there is none', async () => {
  chatRun();
  const config = JSON.parse(readFileSync(join(folder(), 'tokenizer_config.json'), 'utf8'));
  const chat_template = golden('chat-tiny/plain.jinja');
  writeFileSync(join(folder(), 'tokenizer_config.json'), JSON.stringify({ ...config, chat_template }));
  const { bring, seen } = await serve('tokenizer.json');
  await bring('chats', CHATS);
  expect((await seen('chats', 128)).templateFile).toBe('tokenizer_config.json');
  await operated.close();

  operated = new OperatedServer();
  const bytes = await serve();
  await bytes.bring('chats', CHATS);
  const none = [
    409,
    expect.stringMatching(/^chats need a chat template, and the tokenizer of tiny came without one: /),
  ];
  expect(await errorOf(await bytes.look('chats', 128))).toEqual(none);
  const draft = { ...INITIAL_DRAFT, name: 'talks', source: 'tiny', text: 'chats', sequenceLength: 128 };
  expect(await errorOf(await bytes.post('/api/operator/runs', draft))).toEqual(none);
});

test('a line that is no example is refused by its number, also where it is held out, and nothing is kept of the file', async () => {
  chatRun();
  cpSync(join(folder(), 'folded.jinja'), join(folder(), 'chat_template.jinja'));
  rmSync(join(folder(), 'chats.jsonl'));
  const { bring, get, look } = await serve('tokenizer.json');
  const good = '{"prompt": "a", "completion": "b"}';
  const refused = async (text: string, query = '') => errorOf(await bring('bad', text, query));
  expect(await refused(`${good}\n\n{"prompt": [], "completion": "b"}\n${good}`)).toEqual([
    409,
    'line 3: prompt must be a text, not []',
  ]);
  expect(await refused(`${good}\n{"prompt": "a", `)).toEqual([
    409,
    'line 2: it is not valid JSON: it ends where a name in quotes belongs',
  ]);
  expect(await refused('{"messages": [{"role": "user", "content": "x"}]}\n')).toEqual([
    409,
    expect.stringMatching(/^line 1: nothing in it is an answer/),
  ]);
  expect(await refused('{"prompt": "a", "chosen": "b", "rejected": "c"}\n')).toEqual([
    409,
    'line 1: it is a preference pair, which no draft trains on yet: write a run file with data.format "preference"',
  ]);
  expect(await refused('{"text": "a"}\n', '&examples=1')).toEqual([
    409,
    'line 1: it must be an object with prompt and completion, or one with messages, not {"text":"a"}',
  ]);
  expect(await refused(`${good}\n\n`)).toEqual([409, expect.stringMatching(/^it has one example: /)]);
  const { texts } = runListSchema.parse(await (await get('/api/operator/runs')).json());
  expect(texts).toEqual([]);
  // What is no example by its first line is a text.
  expect(await (await bring('json', '{"text": "a"}\n'.repeat(200))).json()).toMatchObject({
    value: { format: 'text' },
  });

  const turns = ['user', 'user', 'assistant'].map((role) => ({ role, content: 'x' }));
  await bring('chats', `${CHATS.split('\n')[0]}\n\n${JSON.stringify({ messages: turns })}\n`);
  expect(await errorOf(await look('chats', 64))).toEqual([
    409,
    'the draft: evaluation.files[0] chats.held-out line 3: the chat template, line 4: the template refuses: user and assistant take turns',
  ]);
  expect(await errorOf(await look('chats', 8))).toEqual([
    409,
    'the draft: data.files has no example of which a token counts within train.sequenceLength, 8: expected one at least',
  ]);
});
