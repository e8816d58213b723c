/**
 * Llama (LlamaForCausalLM) as a model table: RMSNorm, rotary positions in the half-split layout, SwiGLU, grouped-query
 * attention. Matrices that read the same activation (queries, keys, values; gate, up) stand next to each other in
 * Hugging Face's order, so each such group is one linear row, and its gradients are two products.
 *
 * Every weight is [out, in]. Activations are named as in gpt2.ts: rows start from `x` and end in `y`.
 */
import { z } from 'zod';
import { type Result, refusal, success } from '../base.ts';
import {
  type Config,
  type ConfigFields,
  count,
  EPSILON,
  epsilon,
  fieldReason,
  INITIALIZER_RANGE,
  initializerRange,
  LAYER_COUNT,
  layerCount,
  readConfig,
} from './configFields.ts';
import { blockOf, layerBlock, type Model, type Operation, type TensorRow } from './model.ts';

const TOKENS = 'model.embed_tokens.weight';
const FINAL_NORM = 'model.norm.weight';
const HEAD = 'lm_head.weight';
const THETA = 10_000;

const SCHEMA = z.object({
  vocab_size: count.default(32_000),
  hidden_size: count.default(4096),
  intermediate_size: count.default(11_008),
  num_hidden_layers: layerCount.default(32),
  num_attention_heads: count.default(32),
  num_key_value_heads: count.nullable().default(null),
  head_dim: count.nullable().default(null),
  max_position_embeddings: count.default(2048),
  rms_norm_eps: epsilon.default(1e-6),
  rope_theta: z.number().positive().nullable().default(null),
  initializer_range: initializerRange,
  tie_word_embeddings: z.boolean().default(false),
  pad_token_id: z.int().nullable().default(null),
});

const FIELDS: ConfigFields<typeof SCHEMA> = {
  schema: SCHEMA,
  expected: {
    num_hidden_layers: LAYER_COUNT,
    num_key_value_heads: 'a positive integer or null',
    head_dim: 'a positive integer or null',
    rms_norm_eps: EPSILON,
    rope_theta: 'a number above 0',
    initializer_range: INITIALIZER_RANGE,
    tie_word_embeddings: 'true or false',
    pad_token_id: 'an integer or null',
  },
  fixed: [
    ['hidden_act', 'silu', 'swish'],
    ['attention_bias', false, null],
    ['mlp_bias', false, null],
    ['partial_rotary_factor', 1],
    ['quantization_config', null],
  ],
};

export function llamaModel(config: Config): Result<Model> {
  const read = readConfig(config, FIELDS);
  if (!read.ok) return read;
  const sizes = read.value;
  const { hidden_size: width, num_attention_heads: heads } = sizes;
  const theta = rotaryTheta(config, sizes.rope_theta);
  if (!theta.ok) return theta;
  const keyValueHeads = sizes.num_key_value_heads ?? heads;
  if (heads % keyValueHeads !== 0)
    return refusal(`num_key_value_heads must divide num_attention_heads (${heads}), not be ${keyValueHeads}`);
  if (sizes.head_dim === null && width % heads !== 0)
    return refusal(
      `hidden_size must be a multiple of num_attention_heads (${heads}) where there is no head_dim, not ${width}`,
    );
  const headWidth = sizes.head_dim ?? width / heads;
  // The half-split layout turns element d together with element d + headWidth/2.
  if (headWidth % 2 !== 0) return refusal(`head_dim must be even, not ${headWidth}`);
  const padding = paddingRow(config, sizes.pad_token_id, sizes.vocab_size);
  if (!padding.ok) return padding;
  return success(
    table(config, {
      layers: sizes.num_hidden_layers,
      width,
      heads,
      keyValueHeads,
      headWidth,
      innerWidth: sizes.intermediate_size,
      vocabulary: sizes.vocab_size,
      positions: sizes.max_position_embeddings,
      initializerRange: sizes.initializer_range,
      epsilon: sizes.rms_norm_eps,
      theta: theta.value,
      tied: sizes.tie_word_embeddings,
      padding: padding.value,
    }),
  );
}

/** The row that torch's `nn.Embedding` keeps from gradients, as its `padding_idx`: below 0 it counts from the end. */
function paddingRow(config: Config, id: number | null, vocabulary: number): Result<number | null> {
  if (id === null) return success(null);
  if (id < -vocabulary || id >= vocabulary) {
    const expected = `null or a token's id, from ${-vocabulary} to ${vocabulary - 1}`;
    return refusal(fieldReason('pad_token_id', expected, config));
  }
  return success(id < 0 ? id + vocabulary : id);
}

/** Where newer configs say it: with the kind of scaling, under either name. Only the default kind, no scaling, is done. */
const ROPE = z
  .looseObject({
    rope_type: z.literal('default').optional(),
    type: z.literal('default').optional(),
    rope_theta: z.number().positive().optional(),
    partial_rotary_factor: z.literal(1).optional(),
  })
  .refine((given) => given.rope_type ?? given.type ?? !('factor' in given))
  .nullish();

function rotaryTheta(config: Config, given: number | null): Result<number> {
  let theta = given;
  for (const field of ['rope_scaling', 'rope_parameters']) {
    const parsed = ROPE.safeParse(config[field]);
    if (!parsed.success) return refusal(fieldReason(field, 'null or of type "default"', config));
    const own = parsed.data?.rope_theta;
    if (own === undefined) continue;
    if (theta !== null && theta !== own)
      return refusal(`${field}.rope_theta must equal the ${theta} given elsewhere, not ${own}`);
    theta = own;
  }
  return success(theta ?? THETA);
}

interface Sizes
  extends Pick<
    Model,
    'layers' | 'width' | 'heads' | 'headWidth' | 'innerWidth' | 'vocabulary' | 'positions' | 'initializerRange' | 'tied'
  > {
  readonly keyValueHeads: number;
  readonly epsilon: number;
  readonly theta: number;
  readonly padding: number | null;
}

function table(config: Config, sizes: Sizes): Model {
  const { layers, width, vocabulary, tied, epsilon, heads, headWidth, innerWidth, positions, initializerRange } = sizes;
  const perLayer = Array.from({ length: layers }, (_, index) => `model.layers.${index}.`);
  return {
    family: 'llama',
    config,
    ...{ layers, width, heads, headWidth, innerWidth, vocabulary, positions, initializerRange, tied },
    blocks: [
      blockOf('embedding', [matrix(TOKENS, [vocabulary, width])]),
      ...perLayer.map((prefix, index) => blockOf(layerBlock(index), layerTensors(prefix, sizes))),
      blockOf('head', [ones(FINAL_NORM, width), ...(tied ? [] : [matrix(HEAD, [vocabulary, width])])]),
    ],
    embedding: [{ op: 'embed', token: TOKENS, position: null, padding: sizes.padding, y: 'y' }],
    layer: (index) => layerRows(`model.layers.${index}.`, sizes),
    head: [
      { op: 'rmsNorm', x: 'x', weight: FINAL_NORM, epsilon, y: 'normed' },
      linear('normed', [tied ? TOKENS : HEAD], [width, vocabulary], 'logits'),
      { op: 'crossEntropy', logits: 'logits', vocabulary },
    ],
  };
}

const matrix = (name: string, shape: readonly [out: number, inner: number]): TensorRow => ({
  name,
  shape,
  initial: 'normal',
});
const joined = (row: TensorRow): TensorRow => ({ ...row, joined: true });
const ones = (name: string, width: number): TensorRow => ({ name, shape: [width], initial: 'ones' });

function layerTensors(prefix: string, { width, heads, keyValueHeads, headWidth, innerWidth }: Sizes): TensorRow[] {
  const queries = heads * headWidth;
  const keys = keyValueHeads * headWidth;
  return [
    ones(`${prefix}input_layernorm.weight`, width),
    matrix(`${prefix}self_attn.q_proj.weight`, [queries, width]),
    joined(matrix(`${prefix}self_attn.k_proj.weight`, [keys, width])),
    joined(matrix(`${prefix}self_attn.v_proj.weight`, [keys, width])),
    matrix(`${prefix}self_attn.o_proj.weight`, [width, queries]),
    ones(`${prefix}post_attention_layernorm.weight`, width),
    matrix(`${prefix}mlp.gate_proj.weight`, [innerWidth, width]),
    joined(matrix(`${prefix}mlp.up_proj.weight`, [innerWidth, width])),
    matrix(`${prefix}mlp.down_proj.weight`, [width, innerWidth]),
  ];
}

function layerRows(prefix: string, sizes: Sizes): Operation[] {
  const { width, heads, keyValueHeads, headWidth, innerWidth, epsilon, theta } = sizes;
  const name = (module: string): string => `${prefix}${module}.weight`;
  const shape = { heads, keyValueHeads, headWidth };
  return [
    { op: 'rmsNorm', x: 'x', weight: name('input_layernorm'), epsilon, y: 'normed' },
    linear(
      'normed',
      [name('self_attn.q_proj'), name('self_attn.k_proj'), name('self_attn.v_proj')],
      [width, (heads + 2 * keyValueHeads) * headWidth],
      'qkv',
    ),
    { op: 'rotary', x: 'qkv', ...shape, theta, y: 'qkv' },
    { op: 'attention', qkv: 'qkv', ...shape, window: null, y: 'attended' },
    linear('attended', [name('self_attn.o_proj')], [heads * headWidth, width], 'middle', 'x'),
    { op: 'rmsNorm', x: 'middle', weight: name('post_attention_layernorm'), epsilon, y: 'normedMiddle' },
    linear('normedMiddle', [name('mlp.gate_proj'), name('mlp.up_proj')], [width, 2 * innerWidth], 'gateUp'),
    { op: 'swiGlu', x: 'gateUp', innerWidth, y: 'inner' },
    linear('inner', [name('mlp.down_proj')], [innerWidth, width], 'y', 'middle'),
  ];
}

const linear = (
  x: string,
  weights: readonly [string, ...string[]],
  [inWidth, outWidth]: readonly [number, number],
  y: string,
  residual: string | null = null,
): Operation => ({
  op: 'linear',
  x,
  weights,
  weightLayout: 'outIn',
  bias: null,
  inWidth,
  outWidth,
  activation: 'none',
  residual,
  y,
});
