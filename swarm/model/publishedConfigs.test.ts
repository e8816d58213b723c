/** The config.json files of published models, as transformers writes them, against the sizes that their cards name. */
import { expect, test } from 'vitest';
import { modelFromConfig } from './families.ts';
import { parameters } from './model.ts';

const GPT2 = {
  activation_function: 'gelu_new',
  architectures: ['GPT2LMHeadModel'],
  attn_pdrop: 0.1,
  bos_token_id: 50256,
  embd_pdrop: 0.1,
  eos_token_id: 50256,
  initializer_range: 0.02,
  layer_norm_epsilon: 1e-5,
  model_type: 'gpt2',
  n_ctx: 1024,
  n_embd: 768,
  n_head: 12,
  n_layer: 12,
  n_positions: 1024,
  resid_pdrop: 0.1,
  summary_activation: null,
  summary_first_dropout: 0.1,
  summary_proj_to_labels: true,
  summary_type: 'cls_index',
  summary_use_proj: true,
  task_specific_params: { 'text-generation': { do_sample: true, max_length: 50 } },
  vocab_size: 50257,
};
/** What transformers 5 says of the same model when it saves it. */
const GPT2_SAVED_ANEW = {
  ...GPT2,
  add_cross_attention: false,
  dtype: 'float32',
  n_inner: null,
  pad_token_id: null,
  reorder_and_upcast_attn: false,
  scale_attn_by_inverse_layer_idx: false,
  scale_attn_weights: true,
  tie_word_embeddings: true,
  transformers_version: '5.0.0',
  use_cache: true,
};
const DISTILGPT2 = {
  ...GPT2,
  _num_labels: 1,
  id2label: { 0: 'LABEL_0' },
  label2id: { LABEL_0: 0 },
  n_layer: 6,
};
const TINY_LLAMA = {
  architectures: ['LlamaForCausalLM'],
  attention_bias: false,
  bos_token_id: 1,
  eos_token_id: 2,
  hidden_act: 'silu',
  hidden_size: 2048,
  initializer_range: 0.02,
  intermediate_size: 5632,
  max_position_embeddings: 2048,
  model_type: 'llama',
  num_attention_heads: 32,
  num_hidden_layers: 22,
  num_key_value_heads: 4,
  pretraining_tp: 1,
  rms_norm_eps: 1e-5,
  rope_scaling: null,
  rope_theta: 10000.0,
  tie_word_embeddings: false,
  torch_dtype: 'bfloat16',
  use_cache: true,
  vocab_size: 32000,
};
const { rope_scaling: _, rope_theta: __, ...TINY_LLAMA_SIZES } = TINY_LLAMA;
/** As transformers 5 writes rotary fields. */
const TINY_LLAMA_SAVED_ANEW = {
  ...TINY_LLAMA_SIZES,
  attention_dropout: 0.0,
  head_dim: 64,
  mlp_bias: false,
  pad_token_id: null,
  rope_parameters: { rope_theta: 10000.0, rope_type: 'default' },
};
const SMOLLM_135M = {
  architectures: ['LlamaForCausalLM'],
  attention_bias: false,
  attention_dropout: 0.0,
  bos_token_id: 0,
  eos_token_id: 0,
  hidden_act: 'silu',
  hidden_size: 576,
  initializer_range: 0.02,
  intermediate_size: 1536,
  is_llama_config: true,
  max_position_embeddings: 2048,
  mlp_bias: false,
  model_type: 'llama',
  num_attention_heads: 9,
  num_hidden_layers: 30,
  num_key_value_heads: 3,
  pretraining_tp: 1,
  rms_norm_eps: 1e-5,
  rope_interleaved: false,
  rope_scaling: null,
  rope_theta: 10000.0,
  tie_word_embeddings: true,
  torch_dtype: 'float32',
  use_cache: true,
  vocab_size: 49152,
};
const LLAMA_3_2_1B = {
  architectures: ['LlamaForCausalLM'],
  attention_bias: false,
  attention_dropout: 0.0,
  bos_token_id: 128000,
  eos_token_id: 128001,
  head_dim: 64,
  hidden_act: 'silu',
  hidden_size: 2048,
  initializer_range: 0.02,
  intermediate_size: 8192,
  max_position_embeddings: 131072,
  mlp_bias: false,
  model_type: 'llama',
  num_attention_heads: 32,
  num_hidden_layers: 16,
  num_key_value_heads: 8,
  pretraining_tp: 1,
  rms_norm_eps: 1e-5,
  rope_scaling: {
    factor: 32.0,
    high_freq_factor: 4.0,
    low_freq_factor: 1.0,
    original_max_position_embeddings: 8192,
    rope_type: 'llama3',
  },
  rope_theta: 500000.0,
  tie_word_embeddings: true,
  torch_dtype: 'bfloat16',
  use_cache: true,
  vocab_size: 128256,
};
const QWEN2_5_05B = {
  architectures: ['Qwen2ForCausalLM'],
  attention_dropout: 0.0,
  bos_token_id: 151643,
  eos_token_id: 151643,
  hidden_act: 'silu',
  hidden_size: 896,
  initializer_range: 0.02,
  intermediate_size: 4864,
  max_position_embeddings: 32768,
  max_window_layers: 24,
  model_type: 'qwen2',
  num_attention_heads: 14,
  num_hidden_layers: 24,
  num_key_value_heads: 2,
  rms_norm_eps: 1e-6,
  rope_theta: 1000000.0,
  sliding_window: 32768,
  tie_word_embeddings: true,
  torch_dtype: 'bfloat16',
  use_cache: true,
  use_mrope: false,
  use_sliding_window: false,
  vocab_size: 151936,
};
const QWEN3_06B = {
  ...{ ...QWEN2_5_05B, architectures: ['Qwen3ForCausalLM'], attention_bias: false, head_dim: 128 },
  ...{ hidden_size: 1024, intermediate_size: 3072, max_position_embeddings: 40960, max_window_layers: 28 },
  ...{ model_type: 'qwen3', num_attention_heads: 16, num_hidden_layers: 28, num_key_value_heads: 8 },
  ...{ rope_scaling: null, sliding_window: null },
};
const SMOLLM3_3B = {
  architectures: ['SmolLM3ForCausalLM'],
  attention_bias: false,
  attention_dropout: 0.0,
  eos_token_id: 128012,
  hidden_act: 'silu',
  hidden_size: 2048,
  initializer_range: 0.02,
  intermediate_size: 11008,
  layer_types: Array.from({ length: 36 }, () => 'full_attention'),
  max_position_embeddings: 65536,
  max_window_layers: 28,
  mlp_bias: false,
  model_type: 'smollm3',
  no_rope_layer_interval: 4,
  no_rope_layers: Array.from({ length: 36 }, (_, layer) => Number((layer + 1) % 4 !== 0)),
  num_attention_heads: 16,
  num_hidden_layers: 36,
  num_key_value_heads: 4,
  pad_token_id: 128004,
  pretraining_tp: 2,
  rms_norm_eps: 1e-6,
  rope_scaling: null,
  rope_theta: 5000000.0,
  sliding_window: null,
  torch_dtype: 'bfloat16',
  use_cache: false,
  use_sliding_window: false,
  vocab_size: 128256,
};
const GEMMA_3_1B = {
  architectures: ['Gemma3ForCausalLM'],
  attention_bias: false,
  attention_dropout: 0.0,
  attn_logit_softcapping: null,
  bos_token_id: 2,
  cache_implementation: 'hybrid',
  eos_token_id: [1, 106],
  final_logit_softcapping: null,
  head_dim: 256,
  hidden_activation: 'gelu_pytorch_tanh',
  hidden_size: 1152,
  initializer_range: 0.02,
  intermediate_size: 6912,
  max_position_embeddings: 32768,
  model_type: 'gemma3_text',
  num_attention_heads: 4,
  num_hidden_layers: 26,
  num_key_value_heads: 1,
  pad_token_id: 0,
  query_pre_attn_scalar: 256,
  rms_norm_eps: 1e-6,
  rope_local_base_freq: 10000,
  rope_scaling: null,
  rope_theta: 1000000,
  sliding_window: 512,
  sliding_window_pattern: 6,
  torch_dtype: 'bfloat16',
  use_cache: true,
  vocab_size: 262144,
};
const QWEN_MOE = {
  architectures: ['Qwen2MoeForCausalLM'],
  model_type: 'qwen2_moe',
  hidden_size: 2048,
  num_experts: 60,
};
const YARN = { factor: 16.0, original_max_position_embeddings: 2048, rope_type: 'yarn' };

test.each<[string, object, number]>([
  ['gpt2', GPT2, 124_439_808],
  ['gpt2, saved by transformers 5', GPT2_SAVED_ANEW, 124_439_808],
  ['distilgpt2', DISTILGPT2, 81_912_576],
  ['TinyLlama-1.1B', TINY_LLAMA, 1_100_048_384],
  ['TinyLlama-1.1B, saved by transformers 5', TINY_LLAMA_SAVED_ANEW, 1_100_048_384],
  ['SmolLM-135M', SMOLLM_135M, 134_515_008],
  ['Llama-3.2-1B', LLAMA_3_2_1B, 1_235_814_400],
  ['Qwen2.5-0.5B', QWEN2_5_05B, 494_032_768],
  ['Qwen3-0.6B', QWEN3_06B, 596_049_920],
  ['SmolLM3-3B', SMOLLM3_3B, 3_075_098_624],
  ['Gemma-3-1B', GEMMA_3_1B, 999_885_952],
])('%s is read for inference as it is', (_, config, size) => {
  const model = modelFromConfig(config, 'inference');
  expect(model.ok ? parameters(model.value) : model.reason).toBe(size);
});

test('for training dropout has to be 0, and one sentence says in which fields', () => {
  expect(modelFromConfig(GPT2)).toEqual({
    ok: false,
    reason:
      'resid_pdrop must be 0, not 0.1: training here is without dropout; write 0 for resid_pdrop, embd_pdrop, attn_pdrop',
  });
  expect(modelFromConfig({ ...GPT2, resid_pdrop: 0, embd_pdrop: 0, attn_pdrop: 0 }).ok).toBe(true);
  expect(modelFromConfig(SMOLLM_135M).ok).toBe(true);
});

test.each([
  ['a mixture of experts', QWEN_MOE, 'model_type'],
  ['a multimodal wrapper', { model_type: 'gemma3', text_config: { hidden_size: 2560 } }, 'model_type'],
  ['a rotary scaling that is not computed', { ...TINY_LLAMA, rope_scaling: YARN }, 'rope_scaling'],
  ['attention biases', { ...TINY_LLAMA, attention_bias: true }, 'attention_bias'],
])('%s is refused by name for inference too', (_, config, field) => {
  const model = modelFromConfig(config, 'inference');
  expect(model.ok ? '' : model.reason).toContain(`${field} must be`);
});

test('what is near to a family is refused with what it is', () => {
  const reasonOf = (config: object): string => {
    const model = modelFromConfig(config);
    return model.ok ? '' : model.reason;
  };
  expect(reasonOf(QWEN_MOE)).toMatch(/not "qwen2_moe": mixtures of experts are not computed here$/);
  expect(reasonOf({ model_type: 'gemma3', text_config: {} })).toMatch(/: it wraps a text model; give the config/);
});
