import { expect, test } from 'vitest';
import { at } from '../base.ts';
import { modelFromConfig } from './families.ts';
import { block, type Model, paddingOf, parameters } from './model.ts';

const tiny = {
  model_type: 'llama',
  num_hidden_layers: 2,
  num_attention_heads: 6,
  num_key_value_heads: 2,
  head_dim: 20,
  hidden_size: 30,
  intermediate_size: 50,
  max_position_embeddings: 16,
  vocab_size: 40,
};

function model(config: Record<string, unknown>): Model {
  const parsed = modelFromConfig(config);
  if (!parsed.ok) throw new Error(parsed.reason);
  return parsed.value;
}

const reason = (change: Record<string, unknown>): string => {
  const parsed = modelFromConfig({ ...tiny, ...change });
  return parsed.ok ? 'accepted' : parsed.reason;
};

const D = 20;
/** What layers' rotary rows turn by, in radians a position. */
const frequencies = (change: Record<string, unknown>, layer = 0): readonly number[] =>
  model({ ...tiny, ...change })
    .layer(layer)
    .flatMap((row) => (row.op === 'rotary' ? row.turns.frequencies : []));
/** The theta of unscaled frequencies. */
const theta = (change: Record<string, unknown>, layer = 0): number =>
  Math.round(at(frequencies(change, layer), 1) ** (-D / 2));

test('an empty config is Llama 7B, 6,738,415,616 parameters', () => {
  const seven = model({ model_type: 'llama' });
  expect(parameters(seven)).toBe(6_738_415_616);
  expect(seven).toMatchObject({ layers: 32, width: 4096, heads: 32, headWidth: 128, innerWidth: 11_008, tied: false });
  expect(seven).toMatchObject({ positions: 2048, vocabulary: 32_000, initializerRange: 0.02 });
});

test('tensors stand in the order and with the names of Hugging Face, matrices of one input joined', () => {
  const table = model(tiny);
  expect(table.blocks.map(({ name, tensors }) => [name, tensors.length])).toEqual([
    ['embedding', 1],
    ['layer.0', 9],
    ['layer.1', 9],
    ['head', 2],
  ]);
  const rows = block(table, 'layer.1').tensors;
  expect(rows.map(({ name, shape, joined }) => `${name} [${shape}]${joined ? ' joined' : ''}`)).toEqual([
    'model.layers.1.input_layernorm.weight [30]',
    'model.layers.1.self_attn.q_proj.weight [120,30]',
    'model.layers.1.self_attn.k_proj.weight [40,30] joined',
    'model.layers.1.self_attn.v_proj.weight [40,30] joined',
    'model.layers.1.self_attn.o_proj.weight [30,120]',
    'model.layers.1.post_attention_layernorm.weight [30]',
    'model.layers.1.mlp.gate_proj.weight [50,30]',
    'model.layers.1.mlp.up_proj.weight [50,30] joined',
    'model.layers.1.mlp.down_proj.weight [30,50]',
  ]);
  expect(block(table, 'head').tensors.map(({ name }) => name)).toEqual(['model.norm.weight', 'lm_head.weight']);
  expect(block(model({ ...tiny, tie_word_embeddings: true }), 'head').tensors).toHaveLength(1);
});

test('every matrix is drawn alike, norms are 1: residual projections are scaled in GPT-2 only', () => {
  const initials = new Set(model(tiny).blocks.flatMap(({ tensors }) => tensors.map((row) => row.initial)));
  expect(initials).toEqual(new Set(['normal', 'ones']));
});

test('absent and null sizes follow from the others', () => {
  const plain = { ...tiny, hidden_size: 36, head_dim: null, num_key_value_heads: null };
  const row = model(plain)
    .layer(0)
    .find(({ op }) => op === 'attention');
  expect(row).toMatchObject({ heads: 6, keyValueHeads: 6, headWidth: 6 });
});

/** The embedding row's padding. */
const padding = (id?: unknown): unknown =>
  paddingOf(model({ ...tiny, ...(id === undefined ? {} : { pad_token_id: id }) }));

test('the padding row is pad_token_id, counted from the end below 0 as torch’s nn.Embedding has it, or none', () => {
  expect([padding(), padding(null), padding(0), padding(39), padding(-1), padding(-40)]).toEqual([
    ...[null, null, 0, 39, 39, 0],
  ]);
  // GPT2Model gives its embedding no padding_idx.
  expect(paddingOf(model({ model_type: 'gpt2', pad_token_id: 7 }))).toBe(null);
});

test('rotary theta: 10000, or where either place says it', () => {
  expect(theta({})).toBe(10_000);
  expect(theta({ rope_theta: 500_000 })).toBe(500_000);
  expect(theta({ rope_scaling: null, rope_parameters: null })).toBe(10_000);
  expect(theta({ rope_parameters: { rope_type: 'default', rope_theta: 300 } })).toBe(300);
  expect(theta({ rope_theta: 300, rope_parameters: { type: 'default', rope_theta: 300 } })).toBe(300);
  expect(theta({ rope_scaling: { rope_type: 'default' }, rope_theta: 7 })).toBe(7);
});

const LLAMA3 = {
  ...{ rope_type: 'llama3', factor: 32, low_freq_factor: 1, high_freq_factor: 4 },
  original_max_position_embeddings: 8192,
};

test('rotary scaling, linear and of Llama 3, is the same wherever a config says it', () => {
  const plain = frequencies({ rope_theta: 500_000 });
  const linear = plain.map((frequency) => frequency / 4);
  expect(frequencies({ rope_theta: 500_000, rope_scaling: { type: 'linear', factor: 4 } })).toEqual(linear);
  expect(frequencies({ rope_parameters: { rope_type: 'linear', factor: 4, rope_theta: 500_000 } })).toEqual(linear);
  const scaled = frequencies({ rope_theta: 500_000, rope_scaling: LLAMA3 });
  expect(frequencies({ rope_parameters: { ...LLAMA3, rope_theta: 500_000 } })).toEqual(scaled);
  // Waves of up to 2,048 positions stay, those of 8,192 and more are 32 times as long, one lies between.
  const shares = scaled.map((frequency, d) => frequency / at(plain, d));
  const waves = plain.map((frequency) => (2 * Math.PI) / frequency);
  expect(waves.map((wave) => (wave < 2048 ? 'short' : wave > 8192 ? 'long' : 'between'))).toEqual([
    ...['short', 'short', 'short', 'short', 'short', 'between', 'long', 'long', 'long', 'long'],
  ]);
  expect(shares.slice(0, 5)).toEqual([1, 1, 1, 1, 1]);
  for (const share of shares.slice(6)) expect(share).toBeCloseTo(1 / 32, 14);
  const smooth = (8192 / at(waves, 5) - 1) / 3;
  expect(shares[5]).toBeCloseTo((1 - smooth) / 32 + smooth, 14);
});

test('qwen2 has biases of queries, keys and values, joined as their matrices are', () => {
  const rows = block(model({ ...tiny, model_type: 'qwen2' }), 'layer.0').tensors;
  expect(rows.slice(1, 8).map(({ name, shape, joined }) => `${name} [${shape}]${joined ? ' joined' : ''}`)).toEqual([
    'model.layers.0.self_attn.q_proj.weight [120,30]',
    'model.layers.0.self_attn.k_proj.weight [40,30] joined',
    'model.layers.0.self_attn.v_proj.weight [40,30] joined',
    'model.layers.0.self_attn.q_proj.bias [120]',
    'model.layers.0.self_attn.k_proj.bias [40] joined',
    'model.layers.0.self_attn.v_proj.bias [40] joined',
    'model.layers.0.self_attn.o_proj.weight [30,120]',
  ]);
  expect(reason({ model_type: 'qwen2', attention_bias: false, sliding_window: 8, max_window_layers: 1 })).toBe(
    'accepted',
  );
});

test('qwen3 has a norm of each head of queries and of keys before they are turned', () => {
  const qwen3 = model({ ...tiny, model_type: 'qwen3', head_dim: undefined });
  expect(qwen3.headWidth).toBe(128);
  const norms = block(qwen3, 'layer.1').tensors.filter(
    ({ name }) => name.includes('self_attn.') && name.includes('norm'),
  );
  expect(norms.map(({ name, shape }) => [name, shape])).toEqual([
    ['model.layers.1.self_attn.q_norm.weight', [128]],
    ['model.layers.1.self_attn.k_norm.weight', [128]],
  ]);
  expect(qwen3.layer(1).map(({ op }) => op)).toEqual([
    ...['rmsNorm', 'linear', 'headNorm', 'rotary', 'attention', 'linear', 'rmsNorm', 'linear', 'gated', 'linear'],
  ]);
});

test('smollm3: layers without rotation, by a list or an interval', () => {
  const turned = (change: Record<string, unknown>): string => {
    const { layers, layer } = model({ ...tiny, model_type: 'smollm3', num_hidden_layers: 5, ...change });
    return Array.from({ length: layers }, (_, i) => Number(layer(i).some(({ op }) => op === 'rotary'))).join('');
  };
  expect(turned({})).toBe('11101');
  expect(turned({ no_rope_layers: null, no_rope_layer_interval: 2 })).toBe('10101');
  expect(turned({ no_rope_layers: [0, 1, 1, 1, 0] })).toBe('01110');
  expect(reason({ model_type: 'smollm3', no_rope_layers: [1] })).toBe(
    'no_rope_layers must have as many entries as there are layers (2), not 1',
  );
  expect(reason({ model_type: 'smollm3', no_rope_layers: [1, 2] })).toBe(
    'no_rope_layers must be null or a list of 0 (a layer without rotation) and 1, not [1,2]',
  );
});

/** Of each layer: the theta of its rotation, and its window. */
const layersOf = (change: Record<string, unknown>): string[] => {
  const config = { ...tiny, model_type: 'gemma3_text', num_hidden_layers: 4, sliding_window: 8, ...change };
  const { layers, layer } = model(config);
  return Array.from({ length: layers }, (_, index) => {
    const window = layer(index).flatMap((row) => (row.op === 'attention' ? [row.window] : []))[0];
    return `${theta(config, index)} ${window}`;
  });
};
const [SLIDING, FULL] = ['10000 8', '1000000 null'];

test('gemma3: layers that slide turn by a theta of their own, unscaled, by a list or a pattern', () => {
  expect(layersOf({ sliding_window_pattern: 3 })).toEqual([SLIDING, SLIDING, FULL, SLIDING]);
  const types = [FULL, FULL, SLIDING, FULL].map((one) => (one === FULL ? 'full_attention' : 'sliding_attention'));
  expect(layersOf({ layer_types: types })).toEqual([FULL, FULL, SLIDING, FULL]);
  const ofBoth = { rope_local_base_freq: 300, rope_theta: 90_000, sliding_window_pattern: 2 };
  expect(layersOf(ofBoth)).toEqual(['300 8', '90000 null', '300 8', '90000 null']);
  // As transformers 5 writes it.
  const rope_parameters = {
    full_attention: { rope_type: 'linear', factor: 8, rope_theta: 90_000 },
    sliding_attention: { rope_type: 'default', rope_theta: 300 },
  };
  const { rope_local_base_freq: _, rope_theta: __, ...pattern } = ofBoth;
  const gemma = { ...pattern, model_type: 'gemma3_text', num_hidden_layers: 4, sliding_window: 8 };
  const legacy = { ...gemma, ...ofBoth, rope_scaling: { rope_type: 'linear', factor: 8 } };
  for (const layer of [0, 1])
    expect(frequencies({ ...gemma, rope_parameters }, layer)).toEqual(frequencies(legacy, layer));
  expect(at(frequencies(legacy, 1), 0)).toBe(1 / 8);
  expect(at(frequencies(legacy, 0), 0)).toBe(1);
});

test('gemma3: norms around sublayers, from 0, and scales of embedding and scores', () => {
  const gemma = model({ ...tiny, model_type: 'gemma3_text', query_pre_attn_scalar: 25 });
  expect(gemma.embedding[0]).toMatchObject({ scale: Math.sqrt(30), padding: 0 });
  expect(gemma.layer(0).map((row) => row.op + ('residual' in row && row.residual !== null ? ' +' : ''))).toEqual([
    ...['rmsNorm', 'linear', 'headNorm', 'rotary', 'attention', 'linear', 'rmsNorm +'],
    ...['rmsNorm', 'linear', 'gated', 'linear', 'rmsNorm +'],
  ]);
  expect(gemma.layer(0).find(({ op }) => op === 'attention')).toMatchObject({ scale: 0.2 });
  const norms = block(gemma, 'layer.0').tensors.filter(({ shape }) => shape.length === 1);
  expect(norms.map(({ name, initial }) => [name.replace('model.layers.0.', ''), initial])).toEqual(
    [
      ...['input_layernorm', 'self_attn.q_norm', 'self_attn.k_norm', 'post_attention_layernorm'],
      ...['pre_feedforward_layernorm', 'post_feedforward_layernorm'],
    ].map((name) => [`${name}.weight`, 'zeros']),
  );
});

test('windows of qwen and smollm3 are there where they are switched on', () => {
  const windows = (change: Record<string, unknown>): unknown[] => {
    const { layers, layer } = model({ ...tiny, num_hidden_layers: 3, ...change });
    return Array.from({ length: layers }, (_, i) =>
      layer(i).flatMap((row) => (row.op === 'attention' ? [row.window] : [])),
    ).flat();
  };
  const qwen = { model_type: 'qwen2', sliding_window: 8, max_window_layers: 1 };
  expect(windows(qwen)).toEqual([null, null, null]);
  expect(windows({ ...qwen, use_sliding_window: true })).toEqual([null, 8, 8]);
  const smollm = { model_type: 'smollm3', sliding_window: 8, use_sliding_window: true, no_rope_layers: [1, 0, 1] };
  expect(windows(smollm)).toEqual([null, 8, null]);
});

test('other names of the same arithmetic, as transformers has them, are taken', () => {
  expect(reason({ hidden_act: 'swish', attention_bias: null, mlp_bias: null })).toBe('accepted');
});

const ROPE_SCALING =
  'rope_scaling must be null or of type "default", "linear" (with a factor) or "llama3" (with its four numbers)';
test.each<[Record<string, unknown>, string]>([
  [{ hidden_act: 'gelu' }, 'hidden_act must be "silu", not "gelu"'],
  [{ attention_bias: true }, 'attention_bias must be false, not true'],
  [{ mlp_bias: true }, 'mlp_bias must be false, not true'],
  [
    { attention_dropout: 0.1 },
    'attention_dropout must be 0, not 0.1: training here is without dropout; write 0 for attention_dropout',
  ],
  [{ partial_rotary_factor: 0.5 }, 'partial_rotary_factor must be 1, not 0.5'],
  [{ rope_scaling: { type: 'dynamic', factor: 2 } }, `${ROPE_SCALING}, not {"type":"dynamic","factor":2}`],
  [{ rope_scaling: { type: 'linear' } }, `${ROPE_SCALING}, not {"type":"linear"}`],
  [{ rope_scaling: { factor: 2 } }, `${ROPE_SCALING}, not {"factor":2}`],
  [
    { rope_parameters: { rope_type: 'llama3', rope_theta: 5e5 } },
    `${ROPE_SCALING.replace('scaling', 'parameters')}, not {"rope_type":"llama3","rope_theta":500000}`,
  ],
  [
    { rope_scaling: { type: 'linear', factor: 2 }, rope_parameters: { type: 'linear', factor: 3 } },
    'rope_parameters must say the same as the scaling given elsewhere',
  ],
  [
    { model_type: 'qwen2', use_sliding_window: true, layer_types: ['full_attention'] },
    'layer_types must have as many entries as there are layers (2), not 1',
  ],
  [
    { model_type: 'gemma3_text', layer_types: ['full_attention', 'linear_attention'] },
    'layer_types must be null or a list of "full_attention" and "sliding_attention", not ["full_attention","linear_attention"]',
  ],
  [{ model_type: 'gemma3_text', final_logit_softcapping: 30 }, 'final_logit_softcapping must be null, not 30'],
  [
    { rope_theta: 100, rope_parameters: { rope_type: 'default', rope_theta: 200 } },
    'rope_parameters.rope_theta must equal the 100 given elsewhere, not 200',
  ],
  [{ rope_theta: 0 }, 'rope_theta must be a number above 0, not 0'],
  [{ rms_norm_eps: -1 }, 'rms_norm_eps must be a number above 0 that float32 can hold, not -1'],
  [{ rms_norm_eps: 1e39 }, 'rms_norm_eps must be a number above 0 that float32 can hold, not 1e+39'],
  [{ num_hidden_layers: 1e9 }, 'num_hidden_layers must be a positive integer up to 256, not 1000000000'],
  [{ num_key_value_heads: 4 }, 'num_key_value_heads must divide num_attention_heads (6), not be 4'],
  [{ num_key_value_heads: 0 }, 'num_key_value_heads must be a positive integer or null, not 0'],
  [{ head_dim: 15 }, 'head_dim must be even, not 15'],
  [
    { head_dim: null, hidden_size: 31 },
    'hidden_size must be a multiple of num_attention_heads (6) where there is no head_dim, not 31',
  ],
  [{ intermediate_size: 0.5 }, 'intermediate_size must be a positive integer, not 0.5'],
  [{ pad_token_id: 40 }, "pad_token_id must be null or a token's id, from -40 to 39, not 40"],
  [{ pad_token_id: -41 }, "pad_token_id must be null or a token's id, from -40 to 39, not -41"],
  [{ pad_token_id: 0.5 }, 'pad_token_id must be an integer or null, not 0.5'],
  [{ tie_word_embeddings: 'no' }, 'tie_word_embeddings must be true or false, not "no"'],
])('%j is refused', (change, sentence) => {
  expect(reason(change)).toBe(sentence);
});

test('what changes no arithmetic is ignored', () => {
  const extras = {
    use_cache: true,
    pretraining_tp: 1,
    torch_dtype: 'bfloat16',
    bos_token_id: 1,
    attention_dropout: 0.0,
  };
  expect(reason(extras)).toBe('accepted');
  expect(model({ ...tiny, ...extras }).config).toEqual({ ...tiny, ...extras });
});
