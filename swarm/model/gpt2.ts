/**
 * GPT-2 (GPT2LMHeadModel) as a model table: a Hugging Face config.json in, blocks and operation rows out.
 *
 * Activations: each list of rows starts from `x` (the embedding: from the token ids), and its last row's `y` is the
 * block's output, the next list's `x`. Linear weights of the layers are Conv1D's [in, out]; the head's is [out, in].
 */
import { z } from 'zod';
import { type Result, refusal, success } from '../base.ts';
import {
  type Config,
  type ConfigFields,
  count,
  EPSILON,
  epsilon,
  INITIALIZER_RANGE,
  initializerRange,
  LAYER_COUNT,
  layerCount,
  readConfig,
} from './configFields.ts';
import { blockOf, type Initial, layerBlock, type Model, type Operation, type TensorRow } from './model.ts';

const PREFIX = 'transformer.';

const SCHEMA = z.object({
  n_layer: layerCount.default(12),
  n_head: count.default(12),
  n_embd: count.default(768),
  n_inner: count.nullable().default(null),
  n_positions: count.default(1024),
  vocab_size: count.default(50_257),
  layer_norm_epsilon: epsilon.default(1e-5),
  initializer_range: initializerRange,
  tie_word_embeddings: z.boolean().default(true),
});
type Sizes = z.output<typeof SCHEMA>;

const FIELDS: ConfigFields<typeof SCHEMA> = {
  schema: SCHEMA,
  expected: {
    n_layer: LAYER_COUNT,
    n_inner: 'a positive integer or null',
    layer_norm_epsilon: EPSILON,
    initializer_range: INITIALIZER_RANGE,
    tie_word_embeddings: 'true or false',
  },
  fixed: [
    ['activation_function', 'gelu_new', 'gelu_pytorch_tanh', 'gelu_fast'],
    ['scale_attn_weights', true],
    ['scale_attn_by_inverse_layer_idx', false],
    ['reorder_and_upcast_attn', false],
    ['add_cross_attention', false],
    ['quantization_config', null],
  ],
};

/** GPT2Config's attribute_map: other names that transformers accepts for the same fields. */
const ALIASES: readonly (readonly [alias: string, field: string])[] = [
  ['hidden_size', 'n_embd'],
  ['max_position_embeddings', 'n_positions'],
  ['num_attention_heads', 'n_head'],
  ['num_hidden_layers', 'n_layer'],
];

export function gpt2Model(config: Config): Result<Model> {
  const given = { ...config };
  for (const [alias, field] of ALIASES) {
    if (!(alias in given)) continue;
    if (field in given && given[field] !== given[alias])
      return refusal(`${alias} must equal ${field}, of which it is another name`);
    given[field] = given[alias];
  }
  const sizes = readConfig(given, FIELDS);
  if (!sizes.ok) return sizes;
  const { n_embd: width, n_head: heads } = sizes.value;
  if (width % heads !== 0) return refusal(`n_embd must be a multiple of n_head (${heads}), not ${width}`);
  return success(table(sizes.value, config));
}

function table(sizes: Sizes, config: Config): Model {
  const { n_layer: layers, n_embd: width, n_head: heads, vocab_size: vocabulary, tie_word_embeddings: tied } = sizes;
  const innerWidth = sizes.n_inner ?? 4 * width;
  const epsilon = sizes.layer_norm_epsilon;
  return {
    family: 'gpt2',
    config,
    layers,
    width,
    heads,
    headWidth: width / heads,
    innerWidth,
    vocabulary,
    positions: sizes.n_positions,
    initializerRange: sizes.initializer_range,
    tied,
    blocks: [
      blockOf('embedding', [
        tensor(`${PREFIX}wte.weight`, [vocabulary, width]),
        tensor(`${PREFIX}wpe.weight`, [sizes.n_positions, width]),
      ]),
      ...Array.from({ length: layers }, (_, index) =>
        blockOf(layerBlock(index), layerTensors(`${PREFIX}h.${index}.`, width, innerWidth)),
      ),
      blockOf('head', [
        tensor(`${PREFIX}ln_f.weight`, [width], 'ones'),
        tensor(`${PREFIX}ln_f.bias`, [width], 'zeros'),
        ...(tied ? [] : [tensor('lm_head.weight', [vocabulary, width])]),
      ]),
    ],
    embedding: [
      { op: 'embed', token: `${PREFIX}wte.weight`, position: `${PREFIX}wpe.weight`, padding: null, scale: 1, y: 'y' },
    ],
    layer: (index) => layerRows(`${PREFIX}h.${index}.`, { width, innerWidth, heads, epsilon }),
    head: [
      norm('x', `${PREFIX}ln_f`, epsilon, 'ln_f'),
      {
        op: 'linear',
        x: 'ln_f',
        weights: [tied ? `${PREFIX}wte.weight` : 'lm_head.weight'],
        weightLayout: 'outIn',
        biases: [],
        inWidth: width,
        outWidth: vocabulary,
        activation: 'none',
        residual: null,
        y: 'logits',
      },
      { op: 'crossEntropy', logits: 'logits', vocabulary },
    ],
  };
}

const tensor = (name: string, shape: readonly number[], initial: Initial = 'normal'): TensorRow => ({
  name,
  shape,
  initial,
});

function layerTensors(prefix: string, width: number, innerWidth: number): TensorRow[] {
  return [
    tensor(`${prefix}ln_1.weight`, [width], 'ones'),
    tensor(`${prefix}ln_1.bias`, [width], 'zeros'),
    tensor(`${prefix}attn.c_attn.weight`, [width, 3 * width]),
    tensor(`${prefix}attn.c_attn.bias`, [3 * width], 'zeros'),
    tensor(`${prefix}attn.c_proj.weight`, [width, width], 'residual'),
    tensor(`${prefix}attn.c_proj.bias`, [width], 'zeros'),
    tensor(`${prefix}ln_2.weight`, [width], 'ones'),
    tensor(`${prefix}ln_2.bias`, [width], 'zeros'),
    tensor(`${prefix}mlp.c_fc.weight`, [width, innerWidth]),
    tensor(`${prefix}mlp.c_fc.bias`, [innerWidth], 'zeros'),
    tensor(`${prefix}mlp.c_proj.weight`, [innerWidth, width], 'residual'),
    tensor(`${prefix}mlp.c_proj.bias`, [width], 'zeros'),
  ];
}

interface LayerSizes {
  readonly width: number;
  readonly innerWidth: number;
  readonly heads: number;
  readonly epsilon: number;
}

function layerRows(prefix: string, { width, innerWidth, heads, epsilon }: LayerSizes): Operation[] {
  const conv = (
    x: string,
    module: string,
    [inWidth, outWidth]: readonly [number, number],
    y: string,
    more: { activation?: 'gelu'; residual?: string } = {},
  ): Operation => ({
    op: 'linear',
    x,
    weights: [`${prefix}${module}.weight`],
    weightLayout: 'inOut',
    biases: [`${prefix}${module}.bias`],
    inWidth,
    outWidth,
    activation: more.activation ?? 'none',
    residual: more.residual ?? null,
    y,
  });
  return [
    norm('x', `${prefix}ln_1`, epsilon, 'ln_1'),
    conv('ln_1', 'attn.c_attn', [width, 3 * width], 'qkv'),
    {
      ...{ op: 'attention', qkv: 'qkv', heads, keyValueHeads: heads, headWidth: width / heads },
      ...{ scale: (width / heads) ** -0.5, window: null, y: 'attended' },
    },
    conv('attended', 'attn.c_proj', [width, width], 'middle', { residual: 'x' }),
    norm('middle', `${prefix}ln_2`, epsilon, 'ln_2'),
    conv('ln_2', 'mlp.c_fc', [width, innerWidth], 'inner', { activation: 'gelu' }),
    conv('inner', 'mlp.c_proj', [innerWidth, width], 'y', { residual: 'middle' }),
  ];
}

const norm = (x: string, module: string, epsilon: number, y: string): Operation => ({
  op: 'layerNorm',
  x,
  weight: `${module}.weight`,
  bias: `${module}.bias`,
  epsilon,
  y,
});
