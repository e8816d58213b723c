import { expect, test } from 'vitest';
import { modelFromConfig } from './families.ts';
import { block, type Model, type Operation, parameters } from './model.ts';

const tiny = { model_type: 'gpt2', n_layer: 2, n_head: 2, n_embd: 8, n_positions: 16, vocab_size: 40 };

function model(config: Record<string, unknown>): Model {
  const parsed = modelFromConfig(config);
  if (!parsed.ok) throw new Error(parsed.reason);
  return parsed.value;
}

const reason = (config: unknown): string => {
  const parsed = modelFromConfig(config);
  return parsed.ok ? 'accepted' : parsed.reason;
};

test('an empty config is GPT-2 small, 124,439,808 parameters', () => {
  const small = model({ model_type: 'gpt2' });
  expect(parameters(small)).toBe(124_439_808);
  expect(small).toMatchObject({ layers: 12, width: 768, heads: 12, headWidth: 64, innerWidth: 3072, tied: true });
  expect(small).toMatchObject({ positions: 1024, vocabulary: 50_257, initializerRange: 0.02 });
});

test.each(['gelu_pytorch_tanh', 'gelu_fast'])(
  '%s is gelu_new by another name of transformers',
  (activation_function) => {
    expect(reason({ ...tiny, activation_function })).toBe('accepted');
  },
);

test('tensors stand in the order and with the names of Hugging Face', () => {
  const table = model({ ...tiny, tie_word_embeddings: false, n_inner: 12 });
  expect(table.blocks.map(({ name, tensors }) => [name, tensors.length])).toEqual([
    ['embedding', 2],
    ['layer.0', 12],
    ['layer.1', 12],
    ['head', 3],
  ]);
  expect(block(table, 'layer.1').tensors.map(({ name, shape, offset }) => `${name} [${shape}] @${offset}`)).toEqual([
    'transformer.h.1.ln_1.weight [8] @0',
    'transformer.h.1.ln_1.bias [8] @8',
    'transformer.h.1.attn.c_attn.weight [8,24] @16',
    'transformer.h.1.attn.c_attn.bias [24] @208',
    'transformer.h.1.attn.c_proj.weight [8,8] @232',
    'transformer.h.1.attn.c_proj.bias [8] @296',
    'transformer.h.1.ln_2.weight [8] @304',
    'transformer.h.1.ln_2.bias [8] @312',
    'transformer.h.1.mlp.c_fc.weight [8,12] @320',
    'transformer.h.1.mlp.c_fc.bias [12] @416',
    'transformer.h.1.mlp.c_proj.weight [12,8] @428',
    'transformer.h.1.mlp.c_proj.bias [8] @524',
  ]);
  expect(block(table, 'head').tensors.map(({ name }) => name)).toEqual([
    'transformer.ln_f.weight',
    'transformer.ln_f.bias',
    'lm_head.weight',
  ]);
  expect(block(model(tiny), 'head').tensors).toHaveLength(2);
});

function tensorsRead(row: Operation): string[] {
  if (row.op === 'embed') return [row.token, row.position ?? ''];
  if (row.op === 'layerNorm') return [row.weight, row.bias];
  return row.op === 'linear' ? [...row.weights, ...row.biases] : [];
}

function activationsRead(row: Operation): string[] {
  if (row.op === 'embed') return [];
  if (row.op === 'attention') return [row.qkv];
  if (row.op === 'crossEntropy') return [row.logits];
  return 'residual' in row && row.residual !== null ? [row.x, row.residual] : [row.x];
}

test('every row reads what stands before it, and every tensor is read', () => {
  for (const tied of [true, false]) {
    const table = model({ ...tiny, tie_word_embeddings: tied });
    const read = new Set<string>();
    for (const rows of [table.embedding, table.layer(0), table.layer(1), table.head]) {
      const known = new Set(['x']);
      for (const row of rows) {
        for (const name of tensorsRead(row)) read.add(name);
        for (const input of activationsRead(row)) expect(known).toContain(input);
        if ('y' in row) known.add(row.y);
      }
    }
    for (const { tensors } of table.blocks) for (const { name } of tensors) expect(read).toContain(name);
  }
});

test("the config is kept verbatim; transformers' other names for a field are honoured", () => {
  const config = { ...tiny, summary_type: 'cls_index', n_inner: null };
  expect(model(config).config).toEqual(config);
  const aliased = {
    model_type: 'gpt2',
    num_hidden_layers: 3,
    hidden_size: 10,
    num_attention_heads: 5,
    max_position_embeddings: 7,
  };
  expect(model(aliased)).toMatchObject({ layers: 3, width: 10, heads: 5, positions: 7 });
  expect(reason({ ...tiny, hidden_size: 16 })).toBe('hidden_size must equal n_embd, of which it is another name');
});

test.each<[Record<string, unknown>, string]>([
  [
    { model_type: 'bert' },
    'model_type must be "gpt2", "llama", "qwen2", "qwen3", "smollm3" or "gemma3_text", not "bert"',
  ],
  [
    { model_type: undefined },
    'model_type is missing: it must be "gpt2", "llama", "qwen2", "qwen3", "smollm3" or "gemma3_text"',
  ],
  [{ n_embd: 9 }, 'n_embd must be a multiple of n_head (2), not 9'],
  [{ n_embd: '8' }, 'n_embd must be a positive integer, not "8"'],
  [{ n_layer: 0 }, 'n_layer must be a positive integer up to 256, not 0'],
  [{ n_layer: 1e9 }, 'n_layer must be a positive integer up to 256, not 1000000000'],
  [{ n_layer: 2 ** 53 - 1 }, 'n_layer must be a positive integer up to 256, not 9007199254740991'],
  [
    { vocab_size: 1e15 },
    'vocab_size is too large, 1000000000000000: embedding would have 8000000000000128 elements, at most 4294967295 were expected',
  ],
  [
    { n_inner: 1e9 },
    'n_inner is too large, 1000000000: layer.0 would have 17000000328 elements, at most 4294967295 were expected',
  ],
  [{ n_embd: 'x'.repeat(1000) }, `n_embd must be a positive integer, not "${'x'.repeat(56)}…`],
  [{ n_embd: 1e300 }, 'n_embd must be a positive integer, at most 9007199254740991, not 1e+300'],
  [{ n_inner: 1.5 }, 'n_inner must be a positive integer or null, not 1.5'],
  [{ tie_word_embeddings: 1 }, 'tie_word_embeddings must be true or false, not 1'],
  [{ layer_norm_epsilon: 0 }, 'layer_norm_epsilon must be a number above 0 that float32 can hold, not 0'],
  [{ layer_norm_epsilon: 1e-45 }, 'layer_norm_epsilon must be a number above 0 that float32 can hold, not 1e-45'],
  [{ initializer_range: 1e38 }, 'initializer_range must be a number from 0 to 1e37, not 1e+38'],
  [{ initializer_range: -1 }, 'initializer_range must be a number from 0 to 1e37, not -1'],
  [{ activation_function: 'relu' }, 'activation_function must be "gelu_new", not "relu"'],
  [{ attn_pdrop: 0.1 }, 'attn_pdrop must be 0, not 0.1: training here is without dropout; write 0 for attn_pdrop'],
  [{ embd_pdrop: 0.1 }, 'embd_pdrop must be 0, not 0.1: training here is without dropout; write 0 for embd_pdrop'],
  [{ resid_pdrop: 0.1 }, 'resid_pdrop must be 0, not 0.1: training here is without dropout; write 0 for resid_pdrop'],
  [{ scale_attn_weights: false }, 'scale_attn_weights must be true, not false'],
  [{ scale_attn_by_inverse_layer_idx: true }, 'scale_attn_by_inverse_layer_idx must be false, not true'],
  [{ reorder_and_upcast_attn: true }, 'reorder_and_upcast_attn must be false, not true'],
  [{ add_cross_attention: true }, 'add_cross_attention must be false, not true'],
])('%j is refused', (change, sentence) => {
  expect(reason({ ...tiny, ...change })).toBe(sentence);
});

test('what changes no arithmetic is ignored', () => {
  expect(reason({ ...tiny, resid_pdrop: 0, attn_pdrop: 0.0, summary_first_dropout: 0.1, use_cache: true })).toBe(
    'accepted',
  );
  expect(reason([])).toBe('config.json must be a JSON object');
});
