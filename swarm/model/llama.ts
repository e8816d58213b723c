/**
 * Llama (LlamaForCausalLM) and the families that followed it, read from their Hugging Face configs: each is a schema with
 * transformers' defaults, and what it has more or less than Llama. llamaRows.ts makes the table.
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
import { type LlamaShape, llamaTable } from './llamaRows.ts';
import type { Model, RotaryTurns } from './model.ts';
import { rotaryFrequencies } from './rotaryFields.ts';

/** Fields of all of them, with Llama's defaults. */
const LLAMA = z.object({
  vocab_size: count.default(32_000),
  hidden_size: count.default(4096),
  intermediate_size: count.default(11_008),
  num_hidden_layers: layerCount.default(32),
  num_attention_heads: count.default(32),
  num_key_value_heads: count.nullable().default(null),
  head_dim: count.nullable().default(null),
  max_position_embeddings: count.default(2048),
  rms_norm_eps: epsilon.default(1e-6),
  initializer_range: initializerRange,
  tie_word_embeddings: z.boolean().default(false),
  pad_token_id: z.int().nullable().default(null),
});
type Sizes = z.output<typeof LLAMA>;

/** Which layers slide: each row sees the keys of the last `sliding_window` positions alone. */
const WINDOWS = LLAMA.extend({
  layer_types: z.array(z.enum(['full_attention', 'sliding_attention'])).nullish(),
  sliding_window: count.nullable().default(4096),
});
const SWITCHED_WINDOWS = WINDOWS.extend({ use_sliding_window: z.boolean().default(false) });

const QWEN2 = SWITCHED_WINDOWS.extend({
  vocab_size: count.default(151_936),
  intermediate_size: count.default(22_016),
  num_key_value_heads: count.nullable().default(32),
  max_position_embeddings: count.default(32_768),
  max_window_layers: z.int().nonnegative().default(28),
});

const QWEN3 = QWEN2.extend({ head_dim: count.nullable().default(128) });

const SMOLLM3 = SWITCHED_WINDOWS.extend({
  vocab_size: count.default(128_256),
  hidden_size: count.default(2048),
  num_hidden_layers: layerCount.default(36),
  num_attention_heads: count.default(16),
  num_key_value_heads: count.nullable().default(4),
  max_position_embeddings: count.default(32_768),
  tie_word_embeddings: z.boolean().default(true),
  sliding_window: count.nullable().default(null),
  no_rope_layers: z.array(z.union([z.literal(0), z.literal(1)])).nullish(),
  no_rope_layer_interval: count.default(4),
});

const GEMMA3 = WINDOWS.extend({
  vocab_size: count.default(262_208),
  hidden_size: count.default(2304),
  intermediate_size: count.default(9216),
  num_hidden_layers: layerCount.default(26),
  num_attention_heads: count.default(8),
  num_key_value_heads: count.nullable().default(4),
  head_dim: count.nullable().default(256),
  max_position_embeddings: count.default(131_072),
  tie_word_embeddings: z.boolean().default(true),
  pad_token_id: z.int().nullable().default(0),
  query_pre_attn_scalar: z.number().positive().default(256),
  sliding_window_pattern: count.default(6),
});

const EXPECTED = {
  num_hidden_layers: LAYER_COUNT,
  num_key_value_heads: 'a positive integer or null',
  head_dim: 'a positive integer or null',
  rms_norm_eps: EPSILON,
  initializer_range: INITIALIZER_RANGE,
  tie_word_embeddings: 'true or false',
  pad_token_id: 'an integer or null',
  layer_types: 'null or a list of "full_attention" and "sliding_attention"',
  sliding_window: 'a positive integer or null',
  use_sliding_window: 'true or false',
  max_window_layers: 'an integer of 0 or more',
  no_rope_layers: 'null or a list of 0 (a layer without rotation) and 1',
  query_pre_attn_scalar: 'a number above 0',
};
type Fixed = ConfigFields<typeof LLAMA>['fixed'];
const UNQUANTIZED: Fixed = [
  ['partial_rotary_factor', 1],
  ['quantization_config', null],
];
const SILU: Fixed = [['hidden_act', 'silu', 'swish'], ...UNQUANTIZED];
const NO_ATTENTION_BIAS: Fixed = [['attention_bias', false, null]];
const NO_BIASES: Fixed = [...NO_ATTENTION_BIAS, ['mlp_bias', false, null]];
const GELU: Fixed = [
  ['hidden_activation', 'gelu_pytorch_tanh'],
  ['attn_logit_softcapping', null],
  ['final_logit_softcapping', null],
  ['use_bidirectional_attention', false, null],
];

/** As Llama has it. */
const PLAIN = {
  activation: 'silu',
  hasBiases: false,
  hasHeadNorms: false,
  hasNormsBehind: false,
  offset: 0,
  embeddingScale: 1,
  windows: [],
} as const;
/** What a family has that does not follow from the sizes; where it does not say, it is as PLAIN has it. */
type Own = Pick<LlamaShape, 'family' | 'turns'> & Partial<Pick<LlamaShape, keyof typeof PLAIN | 'scoreScale'>>;

export const llamaModel = (config: Config): Result<Model> =>
  modelOf(config, { schema: LLAMA, expected: EXPECTED, fixed: [...SILU, ...NO_BIASES] }, (sizes, headWidth) => {
    const turns = turnsOfAll(config, sizes, headWidth, 10_000);
    return turns.ok ? success({ family: 'llama', turns: turns.value }) : turns;
  });

export const qwen2Model = (config: Config): Result<Model> =>
  modelOf(config, { schema: QWEN2, expected: EXPECTED, fixed: SILU }, (sizes, headWidth) =>
    qwen(config, sizes, headWidth, { family: 'qwen2', hasBiases: true }),
  );

export const qwen3Model = (config: Config): Result<Model> =>
  modelOf(config, { schema: QWEN3, expected: EXPECTED, fixed: [...SILU, ...NO_ATTENTION_BIAS] }, (sizes, headWidth) =>
    qwen(config, sizes, headWidth, { family: 'qwen3', hasHeadNorms: true }),
  );

function qwen(
  config: Config,
  sizes: z.output<typeof QWEN2>,
  headWidth: number,
  own: Omit<Own, 'turns' | 'windows'>,
): Result<Own> {
  const turns = turnsOfAll(config, sizes, headWidth, 10_000);
  if (!turns.ok) return turns;
  const windows = switchedWindows(sizes, (layer) => layer >= sizes.max_window_layers);
  return windows.ok ? success({ ...own, turns: turns.value, windows: windows.value }) : windows;
}

export const smollm3Model = (config: Config): Result<Model> =>
  modelOf(config, { schema: SMOLLM3, expected: EXPECTED, fixed: [...SILU, ...NO_BIASES] }, (sizes, headWidth) => {
    const all = turnsOfAll(config, sizes, headWidth, 2_000_000);
    if (!all.ok) return all;
    const { no_rope_layers: given, no_rope_layer_interval: interval, num_hidden_layers: layers } = sizes;
    if (given && given.length > 0 && given.length !== layers)
      return refusal(asManyAsLayers('no_rope_layers', sizes, given));
    const isTurned = (layer: number): boolean => (given?.length ? given[layer] === 1 : (layer + 1) % interval !== 0);
    const turns = all.value.map((one, layer) => (isTurned(layer) ? one : null));
    const windows = switchedWindows(sizes, (layer) => !isTurned(layer));
    return windows.ok ? success({ family: 'smollm3', turns, windows: windows.value }) : windows;
  });

export const gemma3Model = (config: Config): Result<Model> =>
  modelOf(
    config,
    { schema: GEMMA3, expected: EXPECTED, fixed: [...GELU, ...UNQUANTIZED, ...NO_ATTENTION_BIAS] },
    (sizes, headWidth) => {
      const { sliding_window_pattern: pattern, query_pre_attn_scalar: scalar } = sizes;
      const slides = slidingLayers(sizes, (layer) => (layer + 1) % pattern !== 0);
      if (!slides.ok) return slides;
      const global = rotaryFrequencies(config, { ...EVERYWHERE, headWidth, theta: 1_000_000 });
      const local = rotaryFrequencies(config, {
        ...{ layerType: 'sliding_attention', thetaField: 'rope_local_base_freq', headWidth, theta: 10_000 },
      });
      if (!global.ok) return global;
      if (!local.ok) return local;
      const [everywhere, near] = [
        { name: 'rotary', frequencies: global.value },
        { name: 'rotary.local', frequencies: local.value },
      ];
      return success({
        ...{ family: 'gemma3_text', activation: 'gelu', hasHeadNorms: true, hasNormsBehind: true, offset: 1 },
        embeddingScale: Math.sqrt(sizes.hidden_size),
        scoreScale: scalar ** -0.5,
        turns: slides.value.map((isSliding) => (isSliding ? near : everywhere)),
        windows: slides.value.map((isSliding) => (isSliding ? sizes.sliding_window : null)),
      });
    },
  );

function modelOf<Schema extends z.ZodType<Sizes>>(
  config: Config,
  fields: ConfigFields<Schema>,
  ownOf: (sizes: z.output<Schema>, headWidth: number) => Result<Own>,
): Result<Model> {
  const read = readConfig(config, fields);
  if (!read.ok) return read;
  const sizes = read.value;
  const { hidden_size: width, num_attention_heads: heads } = sizes;
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
  const own = ownOf(sizes, headWidth);
  if (!own.ok) return own;
  return success(
    llamaTable({
      ...PLAIN,
      scoreScale: headWidth ** -0.5,
      ...own.value,
      ...{ config, width, heads, keyValueHeads, headWidth, padding: padding.value },
      layers: sizes.num_hidden_layers,
      innerWidth: sizes.intermediate_size,
      vocabulary: sizes.vocab_size,
      positions: sizes.max_position_embeddings,
      initializerRange: sizes.initializer_range,
      epsilon: sizes.rms_norm_eps,
      tied: sizes.tie_word_embeddings,
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

const EVERYWHERE = { layerType: 'full_attention', thetaField: 'rope_theta' } as const;

/** Of layers that all turn alike. */
function turnsOfAll(
  config: Config,
  { num_hidden_layers: layers }: Sizes,
  headWidth: number,
  theta: number,
): Result<RotaryTurns[]> {
  const found = rotaryFrequencies(config, { ...EVERYWHERE, headWidth, theta });
  if (!found.ok) return found;
  const turns = { name: 'rotary', frequencies: found.value };
  return success(Array.from({ length: layers }, () => turns));
}

/** Whether each layer slides, as `layer_types` says it or else by its number. */
function slidingLayers(
  sizes: Pick<z.output<typeof WINDOWS>, 'num_hidden_layers' | 'layer_types'>,
  byNumber: (layer: number) => boolean,
): Result<boolean[]> {
  const { num_hidden_layers: layers, layer_types: types } = sizes;
  if (types && types.length !== layers) return refusal(asManyAsLayers('layer_types', sizes, types));
  const all = Array.from({ length: layers }, (_, layer) => layer);
  return success(all.map((layer) => (types ? types[layer] === 'sliding_attention' : byNumber(layer))));
}

/** Where one field turns all windows on. */
function switchedWindows(
  sizes: z.output<typeof SWITCHED_WINDOWS>,
  byNumber: (layer: number) => boolean,
): Result<readonly (number | null)[]> {
  if (!sizes.use_sliding_window) return success([]);
  const slides = slidingLayers(sizes, byNumber);
  return slides.ok ? success(slides.value.map((isSliding) => (isSliding ? sizes.sliding_window : null))) : slides;
}

const asManyAsLayers = (
  field: string,
  { num_hidden_layers: layers }: Pick<Sizes, 'num_hidden_layers'>,
  { length }: readonly unknown[],
): string => `${field} must have as many entries as there are layers (${layers}), not ${length}`;
