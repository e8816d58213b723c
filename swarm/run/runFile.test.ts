import fc from 'fast-check';
import { expect, test } from 'vitest';
import { auditOf, modelOf, OPEN_STEPS, orderOf, parseRunFile, wholeModelOf, withSeed } from './runFile.ts';

const model = { model_type: 'gpt2', n_layer: 2, n_head: 2, n_embd: 8, n_positions: 16, vocab_size: 256 };
const optimizer = { type: 'adamw', learningRate: 0.003, betas: [0.9, 0.95], epsilon: 1e-8 };
const minimal = {
  name: 'tiny',
  model,
  data: { files: ['a.txt'], tokenizer: 'bytes' },
  init: { seed: 1 },
  train: { steps: 5, globalBatchSize: 2, sequenceLength: 16, optimizer },
};

/** The minimal run with `value` at `path`; undefined takes the field away. */
function changed(path: string, value: unknown): unknown {
  const json = structuredClone(minimal) as Record<string, unknown>;
  const names = path.split('.');
  const last = names.pop() ?? '';
  let parent = json;
  for (const name of names) {
    const child = (parent[name] ?? {}) as Record<string, unknown>;
    parent[name] = child;
    parent = child;
  }
  if (value === undefined) delete parent[last];
  else parent[last] = value;
  return json;
}

const reason = (json: unknown): string => {
  const parsed = parseRunFile(json, 'run.json');
  return parsed.ok ? 'accepted' : parsed.reason;
};

test('defaults are those of docs/run-file.md, and a parsed run file is a run file again', () => {
  const parsed = parseRunFile(minimal, 'run.json');
  if (!parsed.ok) throw new Error(parsed.reason);
  expect(parsed.value).toEqual({
    ...minimal,
    data: { ...minimal.data, order: 'sequential', seed: 0 },
    train: {
      ...minimal.train,
      optimizer: { ...optimizer, weightDecay: 0 },
      schedule: { type: 'constant', warmupSteps: 0 },
      gradientClipNorm: null,
    },
    checkpoint: { everySteps: 20 },
    evaluation: null,
    precision: { compute: 'f32', wire: 'f32' },
  });
  expect(parseRunFile(JSON.parse(JSON.stringify(parsed.value)), 'run.json')).toEqual(parsed);
  expect(modelOf(parsed.value).layers).toBe(2);
});

test('an adapter has defaults, a seed of its own, and a base that goes only with it', () => {
  const lora = { type: 'lora', rank: 4, alpha: 8, targets: ['c_attn'] };
  const withAdapter = (part: object) => changed('train.adapter', { ...lora, ...part });
  const parsed = parseRunFile(withAdapter({}), 'run.json');
  if (!parsed.ok) throw new Error(parsed.reason);
  expect(parsed.value.train).toMatchObject({ adapter: { ...lora, rslora: false, seed: 1 }, base: 'f32' });
  expect(parseRunFile(JSON.parse(JSON.stringify(parsed.value)), 'run.json')).toEqual(parsed);
  expect(withSeed(parsed.value, 7).train.adapter).toMatchObject({ seed: 7 });
  for (const [part, expected] of [
    [{ type: 'dora' }, 'train.adapter.type must be "lora", not "dora"'],
    [{ rank: 0 }, 'train.adapter.rank must be a positive integer up to 1024, not 0'],
    [{ alpha: 0 }, 'train.adapter.alpha must be a number above 0, not 0'],
    [{ targets: [] }, 'train.adapter.targets must be a list of one module name or more, not []'],
    [{ targets: ['c_attn', 'c_attn'] }, 'train.adapter.targets names a module twice'],
    [{ targets: ['attn.c_attn'] }, 'train.adapter.targets[0] must be the last part of a linear module’s name'],
    [
      { targets: ['q_proj'] },
      'train.adapter.targets: the model has no linear module q_proj, only c_attn, c_proj, c_fc',
    ],
    [{ dropout: 0.1 }, 'train.adapter.dropout is unknown: expected one of type, rank, alpha, targets'],
  ] as const)
    expect(reason(withAdapter(part))).toContain(`run.json: ${expected}`);
  expect(reason(changed('train.base', 'f16'))).toBe(
    'run.json: train.base goes only with adapter: without one every weight is trained, in float32',
  );
});

test('preference pairs need an adapter and an even window, and have a beta', () => {
  const lora = { type: 'lora', rank: 4, alpha: 8, targets: ['c_attn'] };
  const pairs = { files: ['a'], tokenizer: 'bytes', format: 'preference' };
  const asked = (data: object, train: object) => {
    const run = changed('data', data) as { readonly train: object };
    return { ...run, train: { ...run.train, ...train } };
  };
  const parsed = parseRunFile(asked(pairs, { adapter: lora }), 'run.json');
  if (!parsed.ok) throw new Error(parsed.reason);
  expect(parsed.value.train.beta).toBe(0.1);
  expect(modelOf(parsed.value).beta).toBe(0.1);
  expect(wholeModelOf(parsed.value).beta).toBeUndefined();
  expect(parseRunFile(JSON.parse(JSON.stringify(parsed.value)), 'run.json')).toEqual(parsed);
  for (const [data, train, expected] of [
    [
      pairs,
      {},
      'data.format "preference" needs train.adapter: what an answer is compared with is the model without it',
    ],
    [
      pairs,
      { adapter: lora, sequenceLength: 9 },
      'train.sequenceLength must be even with data.format "preference", not 9: a window has each pair twice',
    ],
    [pairs, { adapter: lora, beta: 0 }, 'train.beta must be a number above 0, not 0'],
    [
      { ...pairs, packing: true },
      { adapter: lora },
      'data.packing goes only with data.format "completion" or "chat": each pair has a window of its own',
    ],
    [
      { ...pairs, format: 'completion' },
      { adapter: lora, beta: 0.1 },
      'train.beta goes only with data.format "preference"',
    ],
  ] as const)
    expect(reason(asked(data, train))).toBe(`run.json: ${expected}`);
});

test('a cosine decays over all steps to a tenth unless it says otherwise', () => {
  const parsed = parseRunFile(changed('train.schedule', { type: 'cosine' }), 'run.json');
  expect(parsed.ok && parsed.value.train.schedule).toEqual({
    type: 'cosine',
    warmupSteps: 0,
    decaySteps: 5,
    minRatio: 0.1,
  });
});

test('[CO101] a budget of time goes in place of steps, and its schedule has shares of it', () => {
  const { steps: _, ...rest } = minimal.train;
  const timed = (part: object) =>
    parseRunFile({ ...minimal, train: { ...rest, budget: { seconds: 60 }, ...part } }, 'run.json');
  const parsed = timed({ schedule: { type: 'cosine', decay: 0.5 } });
  expect(parsed).toMatchObject({
    value: {
      train: { steps: OPEN_STEPS, budget: { seconds: 60 }, schedule: { warmup: 0.02, decay: 0.5, minRatio: 0.1 } },
    },
  });
  expect(parsed.ok && parseRunFile(JSON.parse(JSON.stringify(parsed.value)), 'run.json')).toEqual(parsed);
  for (const [part, sentence] of [
    [{ steps: 5 }, 'train.steps does not go with budget'],
    [{ budget: { seconds: 0 } }, 'train.budget.seconds must be a number of seconds above 0'],
    [{ schedule: { type: 'constant', warmupSteps: 2 } }, 'train.schedule.warmupSteps does not go with budget'],
    [{ schedule: { type: 'cosine', decaySteps: 2 } }, 'train.schedule.decaySteps does not go with budget'],
    [{ islands: { count: 2, innerSteps: 2 } }, 'train.budget does not go with islands yet'],
  ] as const)
    expect(timed(part)).toMatchObject({ ok: false, reason: expect.stringContaining(`run.json: ${sentence}`) });
  expect(reason(changed('train.schedule', { type: 'constant', warmup: 0.1 }))).toContain('goes only with budget');
});

test('[CO100] a cosine may end where it begins, at step 0 too', () => {
  for (const warmupSteps of [0, 3])
    expect(reason(changed('train.schedule', { type: 'cosine', warmupSteps, decaySteps: warmupSteps }))).toBe(
      'accepted',
    );
});

test('islands: the defaults of docs/run-file.md, by what is exchanged', () => {
  const islands = (value: object) => {
    const parsed = parseRunFile(changed('train.islands', { count: 2, innerSteps: 6, ...value }), 'run.json');
    return parsed.ok ? parsed.value.train.islands : parsed.reason;
  };
  const sparse = { top: 64, chunk: 4096, feedback: 0.95 };
  const rest = { count: 2, innerSteps: 6, publish: 'f32', overlap: false };
  expect(islands({})).toEqual({ ...rest, exchange: sparse, outer: { learningRate: 1, momentum: 0.5 } });
  expect(islands({ exchange: 'f32', outer: { momentum: 0 } })).toEqual({
    ...rest,
    exchange: 'f32',
    outer: { learningRate: 0.7, momentum: 0 },
  });
  expect(islands({ exchange: { top: 8 }, publish: 'int8' })).toMatchObject({
    exchange: { ...sparse, top: 8 },
    publish: 'int8',
  });
  const parsed = parseRunFile(changed('train.islands', { count: 2, innerSteps: 6 }), 'run.json');
  if (!parsed.ok) throw new Error(parsed.reason);
  expect(parseRunFile(JSON.parse(JSON.stringify(parsed.value)), 'run.json')).toEqual(parsed);
});

test('islands that are as many as there are groups have defaults of their own, and are a run file again', () => {
  const parsed = parseRunFile(changed('train.islands', { count: 'auto' }), 'run.json');
  if (!parsed.ok) throw new Error(parsed.reason);
  expect(parsed.value.train.islands).toEqual({
    ...{ count: 'auto', roundSeconds: 300, outer: { learningRate: 1, momentum: 0.5 } },
    ...{ exchange: { top: 64, chunk: 4096, feedback: 0.95 }, publish: 'int8', overlap: false },
  });
  expect(parseRunFile(JSON.parse(JSON.stringify(parsed.value)), 'run.json')).toEqual(parsed);
  const dense = parseRunFile(changed('train.islands', { count: 'auto', exchange: 'f32' }), 'run.json');
  expect(dense.ok && dense.value.train.islands?.outer).toEqual({ learningRate: 1, momentum: 0.5 });
});

test('a held-out loss of islands that publish int8 is refused in one sentence', () => {
  const islands = { count: 2, innerSteps: 6, exchange: 'f32', publish: 'int8' };
  const run = changed('train.islands', islands);
  expect(parseRunFile(run, 'run.json')).toMatchObject({ ok: true });
  expect(reason({ ...(run as object), evaluation: { files: ['a.txt'] } })).toBe(
    'run.json: evaluation must be null where train.islands.publish is "int8": a held-out loss of the shared values is not supported yet there',
  );
});

test.each<[islands: unknown, sentence: string]>([
  [{ count: 0, innerSteps: 6 }, 'run.json: train.islands.count must be a positive integer up to 63, or "auto", not 0'],
  [
    { count: 'auto', roundSeconds: 86_401 },
    'run.json: train.islands.roundSeconds must be a number above 0, at most 86400, not 86401',
  ],
  [
    { count: 'auto', innerSteps: 6 },
    'run.json: train.islands.innerSteps does not go with count "auto": roundSeconds says there how long a round is',
  ],
  [
    { count: 2, innerSteps: 6, roundSeconds: 3 },
    'run.json: train.islands.roundSeconds goes only with count "auto": with a number of islands innerSteps says how long a round is',
  ],
  [{ count: 2, innerSteps: 6, overlap: 'yes' }, 'run.json: train.islands.overlap must be true or false, not "yes"'],
  [
    { count: 2, innerSteps: 6, exchange: 'f32', overlap: true },
    'run.json: train.islands.outer.momentum must be at most 0.5 with overlap true, not 0.9',
  ],
  [{ count: 2 }, 'run.json: train.islands.innerSteps is missing: it must be a positive integer'],
  [
    { count: 64, innerSteps: 6 },
    'run.json: train.islands.count must be a positive integer up to 63, or "auto", not 64',
  ],
  [
    { count: 1.5, innerSteps: 6 },
    'run.json: train.islands.count must be a positive integer up to 63, or "auto", not 1.5',
  ],
  [
    { count: 2, innerSteps: 6, exchange: 'f16' },
    'run.json: train.islands.exchange must be "f32" or an object of top, chunk and feedback, not "f16"',
  ],
  [
    { count: 2, innerSteps: 6, exchange: 5 },
    'run.json: train.islands.exchange must be "f32" or an object of top, chunk and feedback, not 5',
  ],
  [
    { count: 2, innerSteps: 6, exchange: { top: 0 } },
    'run.json: train.islands.exchange.top must be a positive integer up to 65536, not 0',
  ],
  [
    { count: 2, innerSteps: 6, exchange: { chunk: 63 } },
    'run.json: train.islands.exchange.chunk must be an integer from 64 to 65536, not 63',
  ],
  [
    { count: 2, innerSteps: 6, exchange: { chunk: 65_537 } },
    'run.json: train.islands.exchange.chunk must be an integer from 64 to 65536, not 65537',
  ],
  [
    { count: 2, innerSteps: 6, roundSeconds: 5 },
    'run.json: train.islands.roundSeconds goes only with count "auto": with a number of islands innerSteps says how long a round is',
  ],
  [
    { count: 2, innerSteps: 6, outer: { momentum: 1 } },
    'run.json: train.islands.outer.momentum must be a number from 0 to below 1, not 1',
  ],
])('islands %j are refused in one sentence', (islands, sentence) => {
  expect(reason(changed('train.islands', islands))).toBe(sentence);
});

test('a seed is kept whole up to 2^53 - 1', () => {
  for (const seed of [2 ** 32, 2 ** 53 - 1]) {
    const parsed = parseRunFile({ ...minimal, init: { seed }, data: { ...minimal.data, seed } }, 'run.json');
    expect(parsed).toMatchObject({ ok: true, value: { init: { seed }, data: { seed } } });
  }
});

test('--seed takes the place of both seeds and leaves an init file alone', () => {
  const parsed = parseRunFile(minimal, 'run.json');
  if (!parsed.ok) throw new Error(parsed.reason);
  expect(withSeed(parsed.value, 7)).toMatchObject({ init: { seed: 7 }, data: { seed: 7 } });
  expect(withSeed({ ...parsed.value, init: 'a.safetensors' }, 7).init).toBe('a.safetensors');
});

test('the order is sequential, or shuffled by a seed that is 0 unless the file says otherwise', () => {
  const order = (data: object) => {
    const parsed = parseRunFile({ ...minimal, data: { ...minimal.data, ...data } }, 'run.json');
    return parsed.ok && [orderOf(parsed.value), orderOf(withSeed(parsed.value, 7))];
  };
  expect(order({ seed: 3 })).toEqual([{ type: 'sequential' }, { type: 'sequential' }]);
  expect(order({ order: 'shuffled' })).toEqual([
    { type: 'shuffled', seed: 0 },
    { type: 'shuffled', seed: 7 },
  ]);
  expect(order({ order: 'shuffled', seed: 3 })).toMatchObject([{ seed: 3 }, { seed: 7 }]);
});

test.each<[path: string, value: unknown, sentence: string]>([
  ['train.globalBatchSize', 9e15, 'train.globalBatchSize must be a positive integer up to 65536, not 9000000000000000'],
  ['train.globalBatchSize', 65_537, 'train.globalBatchSize must be a positive integer up to 65536, not 65537'],
  ['train.sequenceLength', 9e15, 'train.sequenceLength must be a positive integer up to 1048576, not 9000000000000000'],
  ['train.steps', 2 ** 32, 'train.steps must be a positive integer up to 4294967295, not 4294967296'],
  ['checkpoint.everySteps', 9e15, 'checkpoint.everySteps must be a positive integer up to 4294967295, not 9000000000'],
  [
    'evaluation',
    { files: ['a'], everySteps: 9e15 },
    'evaluation.everySteps must be a positive integer up to 4294967295',
  ],
  ['data.files', Array(200_000).fill('a'), 'data.files must be a list of at most 10000 paths'],
  [
    'model',
    { ...model, ...Object.fromEntries(Array.from({ length: 1_000 }, (_, at) => [`f${at}`, at])) },
    'model must have 1000 fields at most',
  ],
  ['model.n_embd', 9e15, 'model.n_embd is too large, 9000000000000000: embedding would have'],
  // By hand, from the shapes of GPT-2: 256 · (12·18918² + 13·18918) + (10000 + 16 + 2) · 18918
  [
    'model',
    { ...model, n_layer: 256, n_embd: 18_918, vocab_size: 10_000 },
    'model.n_layer is too large, 256: the model would have 1099692783756 elements, at most 1099511627776 were expected',
  ],
])('%s = %j is past what can be had: refused with the bound', (path, value, sentence) => {
  expect(reason(changed(path, value))).toContain(`run.json: ${sentence}`);
});

test.each<[path: string, value: unknown, sentence: string]>([
  [
    'extra',
    1,
    'extra is unknown: expected one of name, model, data, init, train, checkpoint, evaluation, precision, state, trust',
  ],
  [
    'train.batch',
    1,
    'train.batch is unknown: expected one of steps, budget, globalBatchSize, sequenceLength, optimizer',
  ],
  ['init.kind', 1, 'init.kind is unknown: expected one of seed'],
  ['train.globalBatchSize', '4', 'train.globalBatchSize must be a positive integer up to 65536, not "4"'],
  ['train.steps', 1.5, 'train.steps must be a positive integer up to 4294967295, not 1.5'],
  ['train.steps', undefined, 'train.steps is missing: it must be a positive integer'],
  ['train.optimizer', undefined, 'train.optimizer is missing: it must be an object'],
  ['train.optimizer.type', 'sgd', 'train.optimizer.type must be "adamw" or "muon", not "sgd"'],
  ['train.optimizer.momentum', 0.9, 'train.optimizer.momentum is unknown: expected one of type, learningRate, betas,'],
  ['train.optimizer.betas', [0.9, 1], 'train.optimizer.betas[1] must be a number from 0 to below 1, not 1'],
  ['train.optimizer.betas', [0.9, 0.99999999999], 'train.optimizer.betas[1] must be below 1 in float32 too, not 0.9'],
  ['train.optimizer.epsilon', 0, 'train.optimizer.epsilon must be a number above 0, not 0'],
  ['train.optimizer.epsilon', 1e-300, 'train.optimizer.epsilon must be a number that float32 can hold, not 1e-300'],
  ['train.optimizer.learningRate', 1e39, 'train.optimizer.learningRate must be a number that float32 can hold, not'],
  ['train.optimizer.weightDecay', 1e39, 'train.optimizer.weightDecay must be a number that float32 can hold, not 1e'],
  ['train.optimizer.betas', [0.9], 'train.optimizer.betas must be two numbers from 0 to below 1, not [0.9]'],
  ['train.schedule', { type: 'linear' }, 'train.schedule.type must be "constant" or "cosine", not "linear"'],
  ['train.schedule', 'cosine', 'train.schedule must be an object, not "cosine"'],
  ['train.schedule', { type: 'constant', minRatio: 0 }, 'train.schedule.minRatio is unknown'],
  ['train.gradientClipNorm', 0, 'train.gradientClipNorm must be a number above 0, not 0'],
  ['train.sequenceLength', 17, "train.sequenceLength must be at most the model's 16 positions, not 17"],
  ['data.files', [], 'data.files must be a list of one path or more, not []'],
  ['data.files', [3], 'data.files[0] must be a path, not 3'],
  ['data.tokenizer', 'words', 'data.tokenizer must be "bytes" or the path of a tokenizer.json, not "words"'],
  ['data.tokenizer', 3, 'data.tokenizer must be "bytes" or the path of a tokenizer.json, not 3'],
  ['data.order', 'random', 'data.order must be "sequential" or "shuffled", not "random"'],
  ['data.seed', -1, 'data.seed must be an integer of 0 or more, not -1'],
  ['data.seed', 0.5, 'data.seed must be an integer of 0 or more, not 0.5'],
  ['init.seed', 2 ** 53, 'init.seed must be an integer of 0 or more, at most 9007199254740991, not 9007199254740992'],
  ['state', 1, 'state must be an object, not 1'],
  ['state.replicas', 4, 'state.replicas must be an integer from 0 to 3, not 4'],
  ['state.replicas', 0.5, 'state.replicas must be an integer from 0 to 3, not 0.5'],
  ['state.copies', 1, 'state.copies is unknown: expected one of replicas'],
  ['trust', true, 'trust must be an object, not true'],
  ['trust.audit', 1.5, 'trust.audit must be a number from 0 to 1, not 1.5'],
  ['trust.audits', 1, 'trust.audits is unknown: expected one of audit, ends'],
  ['trust.ends', 'mine', 'trust.ends must be "any" or "own", not "mine"'],
  ['precision.compute', 'bf16', 'precision.compute must be "f32" or "f16", not "bf16"'],
  ['precision.state', 'f16', 'precision.state must be "f32" or "int8", not "f16"'],
  ['precision.wire', 'f64', 'precision.wire must be "f32", "f16", "int8", "int4" or "auto", not "f64"'],
  ['init', undefined, 'init is missing: it must be the path of a .safetensors file, of a model.safetensors.index.json'],
  ['init', 3, 'init must be the path of a .safetensors file, of a model.safetensors.index.json or of a folder with'],
  ['init', '', 'init must be the path of a .safetensors file, of a model.safetensors.index.json or of a folder with'],
  ['init.seed', -1, 'init.seed must be an integer of 0 or more, not -1'],
  [
    'name',
    '../x',
    'name must be at most 100 letters (a to z), digits, ".", "_" or "-", and begin with a letter, a digit or "_", not "../x"',
  ],
  ['name', '..', 'name must be at most 100 letters'],
  ['name', 'a/b', 'name must be at most 100 letters'],
  ['name', 'x'.repeat(101), 'name must be at most 100 letters'],
  ['model', [], 'model must be a Hugging Face config.json, not []'],
  ['model.model_type', 'bert', 'model.model_type must be "gpt2"'],
  ['model.resid_pdrop', 0.1, 'model.resid_pdrop must be 0, not 0.1'],
  ['model', { model_type: 'llama', hidden_act: 'gelu' }, 'model.hidden_act must be "silu", not "gelu"'],
  ['model', { model_type: 'llama', attention_bias: true }, 'model.attention_bias must be false, not true'],
  ['model', { model_type: 'llama', rope_scaling: { type: 'yarn', factor: 2 } }, 'model.rope_scaling must be null or'],
  ['model', { model_type: 'llama', max_position_embeddings: 8 }, "train.sequenceLength must be at most the model's 8"],
  ['evaluation', { files: ['a'], every: 3 }, 'evaluation.every is unknown: expected one of files, everySteps'],
])('%s = %j is refused', (path, value, sentence) => {
  expect(reason(changed(path, value))).toContain(`run.json: ${sentence}`);
});

test.each<[data: object, sentence: string]>([
  [{ format: 'jsonl' }, 'data.format must be "text", "completion", "chat" or "preference", not "jsonl"'],
  [{ packing: true }, 'data.packing goes only with data.format "completion" or "chat": a text has no examples'],
  [{ format: 'completion', packing: 1 }, 'data.packing must be true or false, not 1'],
  [
    { format: 'completion', chatTemplate: 'a' },
    'data.chatTemplate goes only with data.format "chat", not "completion"',
  ],
  [
    { format: 'chat' },
    'data.chatTemplate is missing: with data.format "chat" and data.tokenizer "bytes" it must be the path of a chat template',
  ],
])('data that go together: %j', (data, sentence) => {
  const run = changed('data', { files: ['a'], tokenizer: 'bytes', ...data });
  expect(reason(run)).toBe(`run.json: ${sentence}`);
  const good = changed('data', { files: ['a'], tokenizer: 'bytes', format: 'chat', packing: false, chatTemplate: 'b' });
  expect(reason(good)).toBe('accepted');
});

test('[MP10] a family whose stream overflows halves is computed in f32, whatever is asked', () => {
  const gemma = { model_type: 'gemma3_text', num_hidden_layers: 1, vocab_size: 256 };
  const computeOf = (model: object): unknown => {
    const parsed = parseRunFile({ ...minimal, model, precision: { compute: 'f16' } }, 'run.json');
    return parsed.ok ? parsed.value.precision : parsed.reason;
  };
  expect(computeOf(gemma)).toEqual({ compute: 'f32', wire: 'f32' });
  expect(computeOf({ ...gemma, model_type: 'qwen3' })).toEqual({ compute: 'f16', wire: 'f32' });
});

test('[WI30] precision.state int8 goes with float32 arithmetic', () => {
  const asked = (precision: object) => parseRunFile(changed('precision', precision), 'run.json');
  expect(asked({ state: 'int8', wire: 'int4' })).toMatchObject({ ok: true, value: { precision: { state: 'int8' } } });
  expect(reason(changed('precision', { state: 'int8', compute: 'f16' }))).toBe(
    'run.json: precision.state "int8" needs precision.compute "f32": its codes are added to float32 values, which "f16" does not keep',
  );
});

test('a share of audits is bounded by what steps cost, unless the run file or the command says it', () => {
  const share = (trust: object | undefined, asked?: number) => {
    const parsed = parseRunFile(trust === undefined ? minimal : { ...minimal, trust }, 'run.json');
    return parsed.ok ? auditOf(parsed.value, asked) : parsed.reason;
  };
  expect(share(undefined)).toEqual({ share: 0.05, isBounded: true });
  expect(share({ ends: 'any' })).toEqual({ share: 0.05, isBounded: true });
  expect(share({ audit: 0.05 })).toEqual({ share: 0.05, isBounded: false });
  expect(share({ audit: 0.5 }, 1)).toEqual({ share: 1, isBounded: false });
  expect([share({ audit: 0 }), share(undefined, 0)]).toEqual([null, null]);
});

test('what no person writes is refused before it is walked: values nested without end', () => {
  const nested = JSON.parse(`${'['.repeat(100_000)}${']'.repeat(100_000)}`);
  const tooDeep = 'is nested more than 64 levels deep';
  for (const path of ['name', 'model.n_layer', 'model.ignored', 'train.steps'])
    expect(reason(changed(path, nested))).toBe(`run.json: the run file ${tooDeep}`);
});

test.each([[], null, 'x', 3])('%j is no run file', (json) => {
  expect(reason(json)).toBe(`run.json: the run file must be an object, not ${JSON.stringify(json)}`);
});

/** Paths of every field of a JSON value. */
function pathsOf(json: unknown, path: string[] = []): string[][] {
  if (typeof json !== 'object' || json === null) return [path];
  return [path, ...Object.entries(json).flatMap(([key, value]) => pathsOf(value, [...path, key]))];
}

/** `json` with `value` at `path`, or beside its last field under another name. */
function replaced(json: unknown, [first, ...rest]: readonly string[], value: unknown): unknown {
  if (first === undefined) return value;
  const object = typeof json === 'object' && json !== null ? json : {};
  return { ...object, [first]: replaced(Object.entries(object).find(([key]) => key === first)?.[1], rest, value) };
}

const full = {
  ...minimal,
  evaluation: { files: ['b.txt'], everySteps: 5 },
  checkpoint: { everySteps: 3 },
  precision: { compute: 'f32', wire: 'f32' },
  data: { ...minimal.data, order: 'shuffled', seed: 3 },
  train: {
    ...minimal.train,
    schedule: { type: 'cosine', warmupSteps: 1, decaySteps: 4, minRatio: 0.1 },
    gradientClipNorm: 1,
  },
};
const paths = pathsOf(full);
const anyValue = fc.oneof(
  fc.jsonValue(),
  fc.constantFrom(
    undefined,
    null,
    -1,
    0,
    1,
    1e300,
    Number.NaN,
    2 ** 53,
    '',
    'bytes',
    'a.json',
    'shuffled',
    'llama',
    [],
    {},
  ),
);
const anyChange = fc.tuple(fc.constantFrom(...paths), fc.option(fc.string(), { nil: undefined }), anyValue);

test('whatever stands in a run file, there is a run that parses again or one sentence with the file and a field', () => {
  fc.assert(
    fc.property(fc.array(anyChange, { minLength: 1, maxLength: 3 }), (changes) => {
      const json = changes.reduce<unknown>(
        (run, [path, name, value]) => replaced(run, name === undefined ? path : [...path.slice(0, -1), name], value),
        full,
      );
      const parsed = parseRunFile(json, 'run.json');
      if (!parsed.ok) return /^run\.json: ./s.test(parsed.reason);
      modelOf(parsed.value);
      const again = parseRunFile(JSON.parse(JSON.stringify(parsed.value)), 'run.json');
      return again.ok && JSON.stringify(again.value) === JSON.stringify(parsed.value);
    }),
    { seed: 3, numRuns: 3_000 },
  );
});

test('whatever the JSON, there is a reason', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (json) => /^run\.json: ./s.test(reason(json))),
    { seed: 4, numRuns: 500 },
  );
});
