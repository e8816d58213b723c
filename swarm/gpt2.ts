/**
 * GPT-2 (GPT2LMHeadModel) as a model table: a Hugging Face config.json in, blocks and operation rows out. Its one idea:
 * a field that changes the arithmetic is honoured or refused by name, every other one is ignored.
 *
 * Activations: each list of rows starts from `x` (the embedding: from the token ids), and its last row's `y` is the
 * block's output, the next list's `x`. Linear weights of the layers are Conv1D's [in, out]; the head's is [out, in].
 */
import { z } from 'zod';
import { type Result, refusal, success } from './base.ts';
import { type Block, type BlockName, type Initial, layerBlock, type Model, type Operation } from './model.ts';

const PREFIX = 'transformer.';

const count = z.int().positive();
const CONFIG = z.looseObject({
  model_type: z.string(),
  n_layer: count.default(12),
  n_head: count.default(12),
  n_embd: count.default(768),
  n_inner: count.nullable().default(null),
  n_positions: count.default(1024),
  vocab_size: count.default(50_257),
  layer_norm_epsilon: z.number().positive().default(1e-5),
  initializer_range: z.number().nonnegative().default(0.02),
  tie_word_embeddings: z.boolean().default(true),
});
type Config = z.output<typeof CONFIG>;

/** What each field of CONFIG must be, for the sentence that refuses it. */
const EXPECTED: Readonly<Record<string, string>> = {
  model_type: '"gpt2"',
  n_inner: 'a positive integer or null',
  layer_norm_epsilon: 'a number above 0',
  initializer_range: 'a number of 0 or more',
  tie_word_embeddings: 'true or false',
};

/** Fields that change the arithmetic, with the only value that is computed here (also what an absent field means). */
const FIXED: readonly (readonly [field: string, value: unknown])[] = [
  ['activation_function', 'gelu_new'],
  ['resid_pdrop', 0],
  ['embd_pdrop', 0],
  ['attn_pdrop', 0],
  ['scale_attn_weights', true],
  ['scale_attn_by_inverse_layer_idx', false],
  ['reorder_and_upcast_attn', false],
  ['add_cross_attention', false],
  ['quantization_config', null],
];

/** GPT2Config's attribute_map: other names that transformers accepts for the same fields. */
const ALIASES: readonly (readonly [alias: string, field: string])[] = [
  ['hidden_size', 'n_embd'],
  ['max_position_embeddings', 'n_positions'],
  ['num_attention_heads', 'n_head'],
  ['num_hidden_layers', 'n_layer'],
];

/** The model of a config.json; a refusal starts with the field's name. */
export function modelFromConfig(json: unknown): Result<Model> {
  if (typeof json !== 'object' || json === null || Array.isArray(json))
    return refusal('config.json must be a JSON object');
  const given = Object.fromEntries(Object.entries(json));
  if (given.model_type === 'llama')
    return refusal('model_type "llama" comes with a later version of Shoal: use "gpt2"');
  for (const [alias, field] of ALIASES) {
    if (!(alias in given)) continue;
    if (field in given && given[field] !== given[alias])
      return refusal(`${alias} must equal ${field}, of which it is another name`);
    given[field] = given[alias];
  }
  const parsed = CONFIG.safeParse(given);
  if (!parsed.success) return refusal(fieldReason(String(parsed.error.issues[0]?.path[0]), given));
  const config = parsed.data;
  if (config.model_type !== 'gpt2') return refusal(fieldReason('model_type', given));
  for (const [field, value] of FIXED) {
    const actual = config[field];
    if (actual !== undefined && actual !== value)
      return refusal(`${field} must be ${JSON.stringify(value)}, not ${JSON.stringify(actual)}`);
  }
  if (config.n_embd % config.n_head !== 0)
    return refusal(`n_embd must be a multiple of n_head (${config.n_head}), not ${config.n_embd}`);
  return success(table(config, { ...json }));
}

function fieldReason(field: string, given: Readonly<Record<string, unknown>>): string {
  const expected = EXPECTED[field] ?? 'a positive integer';
  return given[field] === undefined
    ? `${field} is missing: it must be ${expected}`
    : `${field} must be ${expected}, not ${JSON.stringify(given[field])}`;
}

function table(config: Config, verbatim: Readonly<Record<string, unknown>>): Model {
  const { n_layer: layers, n_embd: width, n_head: heads, vocab_size: vocabulary, tie_word_embeddings: tied } = config;
  const innerWidth = config.n_inner ?? 4 * width;
  const epsilon = config.layer_norm_epsilon;
  return {
    family: 'gpt2',
    config: verbatim,
    layers,
    width,
    heads,
    headWidth: width / heads,
    innerWidth,
    vocabulary,
    positions: config.n_positions,
    initializerRange: config.initializer_range,
    tied,
    blocks: [
      block('embedding', [
        [`${PREFIX}wte.weight`, [vocabulary, width], 'normal'],
        [`${PREFIX}wpe.weight`, [config.n_positions, width], 'normal'],
      ]),
      ...Array.from({ length: layers }, (_, index) =>
        block(layerBlock(index), layerTensors(`${PREFIX}h.${index}.`, width, innerWidth)),
      ),
      block('head', [
        [`${PREFIX}ln_f.weight`, [width], 'ones'],
        [`${PREFIX}ln_f.bias`, [width], 'zeros'],
        ...(tied ? [] : [['lm_head.weight', [vocabulary, width], 'normal'] as const]),
      ]),
    ],
    embedding: [{ op: 'embed', token: `${PREFIX}wte.weight`, position: `${PREFIX}wpe.weight`, y: 'y' }],
    layer: (index) => layerRows(`${PREFIX}h.${index}.`, { width, innerWidth, heads, epsilon }),
    head: [
      norm('x', `${PREFIX}ln_f`, epsilon, 'ln_f'),
      {
        op: 'linear',
        x: 'ln_f',
        weight: tied ? `${PREFIX}wte.weight` : 'lm_head.weight',
        weightLayout: 'outIn',
        bias: null,
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

type TensorRow = readonly [name: string, shape: readonly number[], initial: Initial];

function layerTensors(prefix: string, width: number, innerWidth: number): TensorRow[] {
  return [
    [`${prefix}ln_1.weight`, [width], 'ones'],
    [`${prefix}ln_1.bias`, [width], 'zeros'],
    [`${prefix}attn.c_attn.weight`, [width, 3 * width], 'normal'],
    [`${prefix}attn.c_attn.bias`, [3 * width], 'zeros'],
    [`${prefix}attn.c_proj.weight`, [width, width], 'residual'],
    [`${prefix}attn.c_proj.bias`, [width], 'zeros'],
    [`${prefix}ln_2.weight`, [width], 'ones'],
    [`${prefix}ln_2.bias`, [width], 'zeros'],
    [`${prefix}mlp.c_fc.weight`, [width, innerWidth], 'normal'],
    [`${prefix}mlp.c_fc.bias`, [innerWidth], 'zeros'],
    [`${prefix}mlp.c_proj.weight`, [innerWidth, width], 'residual'],
    [`${prefix}mlp.c_proj.bias`, [width], 'zeros'],
  ];
}

function block(name: BlockName, rows: readonly TensorRow[]): Block {
  let offset = 0;
  const tensors = rows.map(([tensor, shape, initial]) => {
    const elements = shape.reduce((product, size) => product * size, 1);
    offset += elements;
    return { name: tensor, shape, elements, offset: offset - elements, initial };
  });
  return { name, tensors, elements: offset };
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
    weight: `${prefix}${module}.weight`,
    weightLayout: 'inOut',
    bias: `${prefix}${module}.bias`,
    inWidth,
    outWidth,
    activation: more.activation ?? 'none',
    residual: more.residual ?? null,
    y,
  });
  return [
    norm('x', `${prefix}ln_1`, epsilon, 'ln_1'),
    conv('ln_1', 'attn.c_attn', [width, 3 * width], 'qkv'),
    { op: 'attention', qkv: 'qkv', heads, headWidth: width / heads, y: 'attended' },
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
