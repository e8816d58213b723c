/** OpenAI's own client against a real server: every field of both calls, whole and as they come. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import OpenAI, { APIError } from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { invariant } from '../../swarm/base.ts';
import { runCommand } from '../commands/program.ts';
import type { Server } from '../server.ts';
import { addRun } from '../store/dataDirectory.ts';
import { exportRun } from '../store/exportRun.ts';
import { Captured } from '../testing/captured.ts';
import { goldenFolder } from '../testing/goldenCase.ts';
import { TinyServers, tinyRunFile } from '../testing/tinyServers.ts';
import { ProcessorAnswerer } from './processorAnswerer.ts';
import { RunTexts } from './runTexts.ts';

const PROMPT = 'Call me Ishmael. ';
/** Both models have 64. */
const POSITIONS = 64;

type Body = OpenAI.CompletionCreateParamsNonStreaming;

/** What `shoal sample` writes with the weights of a folder. */
async function sampled(weights: string, prompt: string, tokens: number): Promise<string> {
  const command = new Captured();
  command.begin();
  try {
    const words = [
      'sample',
      '--weights',
      weights,
      '--prompt',
      prompt,
      '--tokens',
      String(tokens),
      '--temperature',
      '0',
    ];
    await runCommand([...words, '--json']);
    return (JSON.parse(command.out) as { text: string }).text;
  } finally {
    command.end();
  }
}

/** What a call is refused with. */
async function errorOf(call: Promise<unknown>): Promise<object> {
  const error = await call.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof APIError)) throw new Error(`expected to be refused, not ${String(error)}`);
  const { status, param, code, type } = error;
  return { status, param, code, type };
}

const servers = new TinyServers({ steps: 1 });
let [server, openai] = [null as Server | null, new OpenAI({ apiKey: '-' })];
beforeAll(async () => {
  server = await servers.serve({ api: 'open' }, new URL('run.json', goldenFolder('llama-tiny')).pathname);
  await servers.serve({}, new URL('run.json', goldenFolder('gpt2-tiny')).pathname);
  openai = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'any', maxRetries: 0 });
});
afterAll(() => servers.close());

const ask = (rest: Partial<Body>) =>
  openai.completions.create({ model: 'llama-tiny', prompt: PROMPT, temperature: 0, ...rest });

async function streamed(rest: Partial<Body>): Promise<OpenAI.Completion[]> {
  const stream = await openai.completions.create({
    ...{ model: 'llama-tiny', prompt: PROMPT, temperature: 0, ...rest },
    stream: true,
  });
  const chunks: OpenAI.Completion[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}
const textOf = (chunks: readonly OpenAI.Completion[]): string =>
  chunks.map(({ choices: [choice] }) => choice?.text ?? '').join('');

describe.each(['gpt2-tiny', 'llama-tiny'])('greedy text of %s', (model) => {
  it('is that of shoal sample with the exported weights, letter by letter, whole and as it comes', async () => {
    const weights = join(servers.folder, model);
    const exported = await exportRun(await servers.data(), model, weights);
    invariant(exported.ok, 'it is exported');
    const whole = await ask({ model, max_tokens: 40 });
    const expected = await sampled(weights, PROMPT, 40);
    expect(expected).not.toBe('');
    expect(whole.choices[0]?.text).toBe(expected);
    expect(textOf(await streamed({ model, max_tokens: 40 }))).toBe(expected);
  });
});

describe('a run with a tokenizer', () => {
  const tokenizer = new URL('tokenizer.json', goldenFolder('tokenizer')).pathname;

  it('begins an empty text with its beginning token, and ends at an end token, as shoal sample does', async () => {
    const { model, data, ...rest } = tinyRunFile({ steps: 1, name: 'worded' });
    const file = JSON.parse(readFileSync(tokenizer, 'utf8'));
    const special = { '<|endoftext|>': { id: '<|endoftext|>', ids: [2456], tokens: ['<|endoftext|>'] } };
    const single = [{ SpecialToken: { id: '<|endoftext|>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }];
    const template = { type: 'TemplateProcessing', single, pair: [], special_tokens: special };
    const files = join(servers.folder, 'files');
    writeFileSync(join(files, 'tokenizer.json'), JSON.stringify({ ...file, post_processor: template }));
    const served = async (name: string, eos: number[]) => {
      const worded = { ...data, tokenizer: 'tokenizer.json' };
      servers.writeRun({ ...rest, name, model: { ...model, vocab_size: 2_457, eos_token_id: eos }, data: worded });
      const added = await addRun(await servers.data(), servers.runPath);
      invariant(added.ok, 'the run is there');
      const weights = join(servers.folder, name);
      invariant((await exportRun(await servers.data(), name, weights)).ok, 'it is exported');
      const prompt = 'Some years';
      const answer = await ask({ model: name, prompt, max_tokens: 8 });
      expect(answer.choices[0]?.text).toBe(await sampled(weights, prompt, 8));
      return answer;
    };
    const endless = await served('worded', []);
    expect(endless.choices[0]?.finish_reason).toBe('length');
    expect((await ask({ model: 'worded', prompt: '' })).usage?.prompt_tokens).toBe(1);
    // The same weights, and the fourth token an end.
    const processor = new ProcessorAnswerer(await servers.data());
    const texts = new RunTexts(await servers.data());
    const ids = await (await texts.of('worded')).encode('Some years');
    texts.close();
    invariant(ids.ok, 'it has tokens');
    const question = { from: 'key', run: 'worded', step: null, ids: ids.value, mostTokens: 4, ends: [] };
    const drawing = { temperature: 0, topP: 1, seed: 1 };
    const answer = await processor.answer({ ...question, ...drawing }, new AbortController().signal);
    invariant(answer.ok, 'it answers');
    let end = -1;
    for await (const { token } of answer.tokens) end = token;
    const ended = await served('ended', [end]);
    expect(ended.choices[0]?.finish_reason).toBe('stop');
    expect(endless.choices[0]?.text.startsWith(ended.choices[0]?.text ?? '-')).toBe(true);
    expect(ended.usage?.completion_tokens).toBeLessThan(8);
  });
});

it('a generation config beside the first weights ends texts, goes along with an export, and does so there', async () => {
  const [weights, again] = [join(servers.folder, 'weights'), join(servers.folder, 'again')];
  invariant((await exportRun(await servers.data(), 'llama-tiny', weights)).ok, 'it is exported');
  const text = (await ask({ max_tokens: 20 })).choices[0]?.text ?? '';
  // An ASCII letter of the text: the token that ends the next one.
  const end = Buffer.from(text).findLast((byte) => byte < 128) ?? -1;
  writeFileSync(join(weights, 'generation_config.json'), JSON.stringify({ eos_token_id: [end] }));
  const model = JSON.parse(readFileSync(join(weights, 'config.json'), 'utf8'));
  servers.writeRun({ ...tinyRunFile({ steps: 1, name: 'ending' }), model, init: '../weights' });
  invariant((await addRun(await servers.data(), servers.runPath)).ok, 'the run is there');
  const ended = await ask({ model: 'ending', max_tokens: 20 });
  expect(ended.choices[0]).toMatchObject({
    finish_reason: 'stop',
    text: text.slice(0, text.indexOf(String.fromCharCode(end))),
  });
  invariant((await exportRun(await servers.data(), 'ending', again)).ok, 'it is exported');
  expect(await sampled(again, PROMPT, 20)).toBe(ended.choices[0]?.text);
});

describe('a whole answer', () => {
  it('says what it is, how it ended and what it was made of', async () => {
    const whole = await ask({ max_tokens: 40 });
    expect(whole).toMatchObject({
      ...{ object: 'text_completion', model: 'llama-tiny', shoal: { fromStep: 0, toStep: 0, donors: 0 } },
      choices: [{ index: 0, logprobs: null, finish_reason: 'length' }],
      usage: { prompt_tokens: 17, completion_tokens: 40, total_tokens: 57 },
    });
    expect(whole.id).toMatch(/^cmpl-\w+$/);
  });

  it('has OpenAI’s defaults', async () => {
    const { usage } = await openai.completions.create({ model: 'llama-tiny', prompt: PROMPT });
    expect(usage?.completion_tokens).toBe(16);
  });

  it('is the same for the same seed, and another for another', async () => {
    const drawn = async (seed: number) => (await ask({ temperature: 1.5, seed, max_tokens: 24 })).choices[0]?.text;
    const [first, again, other] = [await drawn(7), await drawn(7), await drawn(8)];
    expect(again).toBe(first);
    expect(other).not.toBe(first);
  });

  it('of the likeliest token alone (top_p) is the greedy one', async () => {
    const greedy = await ask({ max_tokens: 20 });
    const narrow = await ask({ max_tokens: 20, temperature: 1, top_p: 0 });
    expect(narrow.choices[0]?.text).toBe(greedy.choices[0]?.text);
  });

  it('ends at a stop string, which is not in it', async () => {
    const text = (await ask({ max_tokens: 40 })).choices[0]?.text ?? '';
    const stop = text.slice(12, 15);
    const whole = await ask({ max_tokens: 40, stop: ['never to be found', stop] });
    expect(whole.choices[0]).toMatchObject({ text: text.slice(0, text.indexOf(stop)), finish_reason: 'stop' });
    expect(textOf(await streamed({ max_tokens: 40, stop }))).toBe(text.slice(0, text.indexOf(stop)));
  });

  it('ends where the positions are full, with one token where the prompt fills them', async () => {
    const full = await ask({ prompt: 'x'.repeat(POSITIONS), max_tokens: 9 });
    expect(full).toMatchObject({ choices: [{ finish_reason: 'length' }], usage: { completion_tokens: 1 } });
    const longer = await ask({ prompt: 'x'.repeat(POSITIONS - 2), max_tokens: 9 });
    expect(longer.usage?.completion_tokens).toBe(3);
    expect(await errorOf(ask({ prompt: 'x'.repeat(POSITIONS + 1) }))).toMatchObject({
      ...{ status: 400, param: 'prompt', code: 'context_length_exceeded' },
    });
  });

  it('is of the checkpoint that the model names', async () => {
    const [newest, first] = [await ask({}), await ask({ model: 'llama-tiny@0' })];
    expect(first.choices).toEqual(newest.choices);
    expect(first.model).toBe('llama-tiny@0');
    for (const model of ['llama-tiny@3', 'nobody', 'nobody@0', '@0', 'llama-tiny@'])
      expect(await errorOf(ask({ model }))).toMatchObject({ status: 404, code: 'model_not_found', param: 'model' });
  });
});

describe('a streamed answer', () => {
  it('has its usage and what it was made of in the last chunk, where that is asked for', async () => {
    const chunks = await streamed({ max_tokens: 20, stream_options: { include_usage: true } });
    const [finish, last] = chunks.slice(-2);
    expect(finish).toMatchObject({ choices: [{ text: '', finish_reason: 'length' }], usage: null });
    expect(last).toMatchObject({
      ...{ choices: [], usage: { prompt_tokens: 17, completion_tokens: 20, total_tokens: 37 } },
      shoal: { fromStep: 0, toStep: 0, donors: 0 },
    });
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1);
  });

  it('has what it was made of in the last chunk without usage, too', async () => {
    const chunks = await streamed({ max_tokens: 3 });
    expect(chunks.at(-1)).toMatchObject({ shoal: { toStep: 0 }, choices: [{ finish_reason: 'length' }] });
    expect(chunks.at(-1)).not.toHaveProperty('usage');
  });
});

/** Of both calls. */
const REFUSED: readonly (readonly [string, unknown])[] = [
  ...[['n', 2] as const, ['frequency_penalty', 1] as const, ['presence_penalty', -1] as const],
  ...[['logit_bias', { 5: 1 }] as const, ['temperature', 3] as const, ['temperature', 'warm'] as const],
  ...[['top_p', 1.5] as const, ['seed', 0.5] as const, ['max_tokens', 0] as const, ['max_tokens', '9'] as const],
  ...[['stop', ['a', 'b', 'c', 'd', 'e']] as const, ['stop', ''] as const, ['stop', 'x'.repeat(1_000_000)] as const],
  ...[['stream', 'yes'] as const, ['stream_options', { include_usage: true }] as const, ['top_k', 5] as const],
];
const OF_COMPLETIONS: typeof REFUSED = [
  ...[['prompt', ['a', 'b']] as const, ['prompt', [1, 2]] as const, ['prompt', undefined] as const],
  ...[['logprobs', 0] as const, ['echo', true] as const, ['best_of', 2] as const, ['suffix', '.'] as const],
  ...[['messages', []] as const],
];
const OF_CHATS: typeof REFUSED = [
  ...[
    ['messages', []] as const,
    ['messages', 'hello'] as const,
    ['messages', [{ role: 'king', content: '' }]] as const,
  ],
  ...[['logprobs', true] as const, ['top_logprobs', 2] as const, ['tools', [{ type: 'function' }]] as const],
  ...[['tool_choice', 'required'] as const, ['response_format', { type: 'json_object' }] as const],
  ...[['modalities', ['audio']] as const, ['store', true] as const, ['reasoning_effort', 'low'] as const],
  ...[['verbosity', 'low'] as const, ['web_search_options', {}] as const, ['prediction', {}] as const],
  ...[['audio', {}] as const, ['functions', [{ name: 'f' }]] as const, ['prompt', 'hello'] as const],
];
const CHANGES_NOTHING = {
  ...{
    n: 1,
    frequency_penalty: 0,
    presence_penalty: 0,
    logit_bias: {},
    user: 'me',
    stream: false as const,
    stop: null,
  },
};
const IN_COMPLETIONS = { ...CHANGES_NOTHING, logprobs: null, echo: false, best_of: 1, suffix: null, seed: null };
const IN_CHATS = {
  ...{ ...CHANGES_NOTHING, logprobs: false, top_logprobs: null, tools: [], tool_choice: 'none', store: false },
  ...{ response_format: { type: 'text' }, modalities: ['text'], metadata: { a: 'b' }, service_tier: 'auto' },
  ...{ parallel_tool_calls: true, safety_identifier: 'me', prompt_cache_key: 'k', verbosity: 'medium' },
};

describe('what is not done is refused by name', () => {
  it.each([...REFUSED, ...OF_COMPLETIONS])('completions: %s', async (param, value) => {
    const refused = await errorOf(ask({ [param]: value }));
    expect(refused).toMatchObject({ status: 400, param, type: 'invalid_request_error' });
  });

  const chat = (rest: object) =>
    openai.chat.completions.create({ model: 'llama-tiny', messages: [{ role: 'user', content: 'Hello' }], ...rest });

  it.each([...REFUSED, ...OF_CHATS])('chats: %s', async (param, value) => {
    const refused = await errorOf(chat({ [param]: value }));
    expect(refused).toMatchObject({ status: 400, param, type: 'invalid_request_error', code: null });
  });

  it('what changes nothing is taken', async () => {
    expect((await ask(IN_COMPLETIONS)).choices).toEqual((await ask({})).choices);
    // Nothing but the template is missing.
    expect(await errorOf(chat(IN_CHATS))).toMatchObject({ status: 400, code: 'no_chat_template', param: 'messages' });
  });

  it('an empty prompt of a model that has no token to begin with', async () => {
    expect(await errorOf(ask({ prompt: '' }))).toMatchObject({ status: 400, param: 'prompt' });
  });
});

describe('the models', () => {
  it('are the runs', async () => {
    const list = await openai.models.list();
    expect(list.data.slice(0, 2).map(({ id }) => id)).toEqual(['llama-tiny', 'gpt2-tiny']);
    expect(list.data[0]).toMatchObject({ object: 'model', owned_by: 'shoal', created: expect.any(Number) });
    expect(await openai.models.retrieve('gpt2-tiny')).toMatchObject({ id: 'gpt2-tiny', object: 'model' });
    expect(await openai.models.retrieve('gpt2-tiny@0')).toMatchObject({ id: 'gpt2-tiny@0' });
    expect(await errorOf(openai.models.retrieve('gpt3'))).toMatchObject({ status: 404, code: 'model_not_found' });
  });

  it('do nothing else', async () => {
    const refused = await errorOf(openai.embeddings.create({ model: 'llama-tiny', input: 'a' }));
    expect(refused).toMatchObject({ status: 404, type: 'invalid_request_error' });
  });
});
