/** Runs that begin from a model's folder on the server: through a real server, the folders as the Hub has them. */
import { hash } from 'node:crypto';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { modelFromConfig } from '../../swarm/model/families.ts';
import { INITIAL_DRAFT, initialAdapter, modelListSchema, type RunDraft } from '../../swarm/run/runDraft.ts';
import { failed, need } from '../commands/failure.ts';
import { exportRun } from '../store/exportRun.ts';
import { parseDocument } from '../store/runDocument.ts';
import { goldenFolder } from '../testing/goldenCase.ts';
import { errorOf, OperatedServer } from '../testing/operatedServer.ts';
import { exportFolder } from '../weights/exportFolder.ts';
import { seededWeights } from '../weights/weights.ts';

let operated: OperatedServer;
let models = '';
beforeEach(() => {
  operated = new OperatedServer();
  models = mkdtempSync(join(tmpdir(), 'shoal-models-'));
});
afterEach(async () => {
  await operated.close();
  rmSync(models, { recursive: true, force: true });
});

const golden = (path: string): string => readFileSync(new URL(path, goldenFolder('x/..')), 'utf8');
const CHATS = golden('chat-tiny/chats.jsonl');
const ADAPTER = { rank: 2, alpha: 4, targets: ['q_proj', 'o_proj'] };
const DRAFT: RunDraft = { ...INITIAL_DRAFT, name: 'mine', source: 'tiny', sequenceLength: 128 };
/** As the cache of the Hub's client names a model's folder. */
const HUB = 'models--acme--chatty';
const LLAMA = JSON.parse(golden('llama-tiny/run.json')).model;

/** A small Llama that reads chats, under another name than the link to it; one without weights, one that is not known. */
async function folders(): Promise<void> {
  const hub = join(models, '..', `${models.split('/').at(-1)}-hub`);
  mkdirSync(join(hub, 'snapshots'), { recursive: true });
  const config = { ...LLAMA, vocab_size: 268, max_position_embeddings: 128, num_hidden_layers: 2 };
  const model = need(modelFromConfig(config), failed);
  const weights = seededWeights(model, 7);
  const others = ['tokenizer.json', 'tokenizer_config.json', 'plain.jinja'].map((name) => ({
    name: name === 'plain.jinja' ? 'chat_template.jinja' : name,
    bytes: async () => readFileSync(new URL(name, goldenFolder('chat-tiny'))),
  }));
  for (const [name, words] of [
    ['LICENSE', 'terms'],
    [
      'README.md',
      '---\nlanguage: en\nlicense: apache-2.0\nlicense_name: "odd\nlicense_link: odd:\nlicense_link: ./LICENSE\n---\n# Chatty\nlicense: mine\n',
    ],
  ] as const)
    others.push({ name, bytes: async () => Buffer.from(words) });
  need(
    await exportFolder(join(hub, 'snapshots', '5c1'), { model, read: weights.readBlock, tensorNames: null, others }),
    failed,
  );
  renameSync(hub, join(models, HUB));
  symlinkSync(join(models, HUB, 'snapshots', '5c1'), join(models, 'chatty'));
  for (const name of ['bare', 'strange', 'empty']) mkdirSync(join(models, name));
  writeFileSync(join(models, 'bare', 'config.json'), JSON.stringify(LLAMA));
  writeFileSync(join(models, 'strange', 'config.json'), '{"model_type": "mixtral"}');
  writeFileSync(join(models, 'notes.txt'), 'no model');
  symlinkSync(join(models, 'nowhere'), join(models, 'lost'));
}

async function serve() {
  await folders();
  await operated.serve(null, { models });
  const calls = await operated.logIn();
  const bring = (name: string, text: string) => calls.postBytes(`/api/operator/texts?name=${name}`, Buffer.from(text));
  return {
    ...calls,
    bring,
    make: (part: Partial<RunDraft>) => calls.post('/api/operator/runs', { ...DRAFT, ...part }),
  };
}

const documentOf = (name: string) => parseDocument(operated.data.store.run(name)?.document ?? '');
/** The weights of a folder, by the names of its tensors. */
function weightsIn(folder: string): Record<string, string> {
  const bytes = readFileSync(join(folder, 'model.safetensors'));
  const start = 8 + Number(bytes.readBigUInt64LE());
  const { __metadata__: _, ...header } = JSON.parse(bytes.subarray(8, start).toString());
  return Object.fromEntries(
    Object.entries<{ data_offsets: [number, number] }>(header).map(
      ([
        name,
        {
          data_offsets: [from, to],
        },
      ]) => [name, hash('sha256', bytes.subarray(start + from, start + to))],
    ),
  );
}

test('each folder with a config.json is listed by its name, and one that cannot be trained with the reason', async () => {
  const { get } = await serve();
  const { models: listed } = modelListSchema.parse(await (await get('/api/operator/models')).json());
  const linear = ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj', 'lm_head'];
  expect(listed).toEqual([
    {
      name: 'bare',
      problem: 'bare has neither model.safetensors nor model.safetensors.index.json',
      model: expect.objectContaining({ family: 'llama' }),
    },
    {
      ...{ name: 'chatty', problem: null },
      model: expect.objectContaining({ family: 'llama', layers: 2, positions: 128, targets: linear }),
    },
    { name: 'strange', problem: expect.stringMatching(/^config.json: model_type must be /), model: null },
  ]);
  expect(initialAdapter(linear)).toEqual({ rank: 16, alpha: 32, targets: linear.slice(0, 4) });
});

test('an adapter on chats: the folder’s weights stand, its tokenizer and template read, and then it is not needed', async () => {
  const { bring, make, post } = await serve();
  await bring('chats', CHATS);
  const question = { source: 'tiny', model: 'folder:chatty', text: 'chats', sequenceLength: 128, packing: true };
  const seen = await (await post('/api/operator/examples', question)).json();
  expect(seen).toMatchObject({ isOfBytes: false, templateFile: 'chat_template.jinja' });
  const draft = { ...DRAFT, model: 'folder:chatty', text: 'chats', adapter: ADAPTER };
  const cluster = JSON.stringify({ peers: [{ id: 'a', memoryBytes: 1e9, flopsPerSecond: 1e10 }] });
  expect((await post('/api/operator/plan', { draft, cluster, whatIf: null })).status).toBe(200);
  expect(await (await make({ model: 'folder:chatty', text: 'chats', adapter: ADAPTER })).json()).toMatchObject({
    ok: true,
  });
  const { file, data, base } = documentOf('mine');
  expect(file).toMatchObject({ init: 'chatty', data: { format: 'chat', tokenizer: 'tokenizer.json' } });
  expect(file.train).toMatchObject({ adapter: { type: 'lora', ...ADAPTER, seed: 1 }, base: 'f32' });
  expect(data.countedRows).toBe(seen.trained.counted);
  expect(base).toHaveLength(2 + 2);
  expect(JSON.stringify(documentOf('mine'))).not.toContain(models);
  const whole = weightsIn(join(models, 'chatty'));
  rmSync(join(models, HUB), { recursive: true });
  // B is zero at first: with the adapter added the model is the folder's.
  const out = need(
    await exportRun(operated.data, 'mine', join(operated.servers.folder, 'out'), { isMerged: true }),
    failed,
  );
  expect(weightsIn(out)).toEqual(whole);
  const exported = (name: string): string => readFileSync(join(out, name), 'utf8');
  expect(exported('chat_template.jinja')).toBe(golden('chat-tiny/plain.jinja'));
  expect(exported('LICENSE')).toBe('terms');
  expect(exported('README.md')).toContain(
    'base_model: acme/chatty\nlicense: apache-2.0\nlicense_link: ./LICENSE\n---\n',
  );
});

test('all weights, on a text that the folder’s tokenizer reads', async () => {
  const { bring, make } = await serve();
  const text = 'The sea, the sea, and what lies under it. '.repeat(200);
  await bring('sea', text);
  expect((await make({ model: 'folder:chatty', text: 'sea', sequenceLength: 16 })).status).toBe(200);
  const { file, data } = documentOf('mine');
  expect(file).toMatchObject({ model: { vocab_size: 268 }, train: { gradientClipNorm: 1 } });
  expect(file.train).not.toHaveProperty('adapter');
  expect(data.tokens).toBeLessThan(text.length);
  const out = need(await exportRun(operated.data, 'mine', join(operated.servers.folder, 'out')), failed);
  expect(weightsIn(out)).toEqual(weightsIn(join(models, 'chatty')));
});

test('what is no folder of the list, or cannot be trained so, is refused and no run is made', async () => {
  const { bring, make } = await serve();
  await bring('chats', CHATS);
  cpSync(join(models, 'chatty'), join(operated.servers.folder, 'outside'), { recursive: true, dereference: true });
  const refused = async (part: Partial<RunDraft>) => (await errorOf(await make({ text: 'chats', ...part })))[1];
  for (const name of ['../outside', 'chatty/../chatty', `${models}/chatty`, '.', '', 'empty', 'lost'])
    expect(await refused({ model: `folder:${name}` })).toBe(
      `there is no model "${name}" on this server any more: choose a model of the list`,
    );
  expect(await refused({ model: 'folder:chatty', text: null })).toMatch(/bring a text or examples along$/);
  expect(await refused({ model: 'folder:bare' })).toMatch(/^chats need a chat template, and the tokenizer of bare /);
  expect(await refused({ model: 'folder:strange' })).toMatch(/^the draft: model.model_type must be /);
  const wrong = { ...ADAPTER, targets: ['c_attn'] };
  expect(await refused({ model: 'folder:chatty', adapter: wrong })).toMatch(
    /^the draft: train.adapter.targets: the model has no linear module c_attn/,
  );
  expect(operated.data.store.runNames()).toEqual(['tiny']);
});
