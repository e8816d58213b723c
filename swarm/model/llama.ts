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
import { type RotaryFields, rotaryFrequencies } from './rotaryFields.ts';

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

const QWEN2 = LLAMA.extend({
  vocab_size: count.default(151_936),
  intermediate_size: count.default(22_016),
  num_key_value_heads: count.nullable().default(32),
  max_position_embeddings: count.default(32_768),
});

const QWEN3 = QWEN2.extend({ head_dim: count.nullable().default(128) });

const SMOLLM3 = LLAMA.extend({
  vocab_size: count.default(128_256),
  hidden_size: count.default(2048),
  num_hidden_layers: layerCount.default(36),
  num_attention_heads: count.default(16),
  num_key_value_heads: count.nullable().default(4),
  max_position_embeddings: count.default(32_768),
  tie_word_embeddings: z.boolean().default(true),
  no_rope_layers: z.array(z.union([z.literal(0), z.literal(1)])).nullish(),
  no_rope_layer_interval: count.default(4),
});

const EXPECTED = {
  num_hidden_layers: LAYER_COUNT,
  num_key_value_heads: 'a positive integer or null',
  head_dim: 'a positive integer or null',
  rms_norm_eps: EPSILON,
  initializer_range: INITIALIZER_RANGE,
  tie_word_embeddings: 'true or false',
  pad_token_id: 'an integer or null',
  no_rope_layers: 'null or a list of 0 (a layer without rotation) and 1',
};
const FIXED: ConfigFields<typeof LLAMA>['fixed'] = [
  ['hidden_act', 'silu', 'swish'],
  ['partial_rotary_factor', 1],
  ['quantization_config', null],
];
const NO_WINDOW = ['use_sliding_window', false] as const;
const NO_BIASES: ConfigFields<typeof LLAMA>['fixed'] = [
  ['attention_bias', false, null],
  ['mlp_bias', false, null],
];

/** What a family has that does not follow from the sizes. */
type Own = Pick<LlamaShape, 'family' | 'hasBiases' | 'hasHeadNorms' | 'turns'>;

const PLAIN = { hasBiases: false, hasHeadNorms: false };

export const llamaModel = (config: Config): Result<Model> =>
  modelOf(config, { schema: LLAMA, expected: EXPECTED, fixed: [...FIXED, ...NO_BIASES] }, (sizes, headWidth) => {
    const turns = turnsOfAll(config, sizes, { theta: 10_000, headWidth });
    return turns.ok ? success({ ...PLAIN, family: 'llama', turns: turns.value }) : turns;
  });

export const qwen2Model = (config: Config): Result<Model> =>
  modelOf(config, { schema: QWEN2, expected: EXPECTED, fixed: [...FIXED, NO_WINDOW] }, (sizes, headWidth) => {
    const turns = turnsOfAll(config, sizes, { theta: 10_000, headWidth });
    return turns.ok ? success({ ...PLAIN, family: 'qwen2', hasBiases: true, turns: turns.value }) : turns;
  });

export const qwen3Model = (config: Config): Result<Model> =>
  modelOf(
    config,
    { schema: QWEN3, expected: EXPECTED, fixed: [...FIXED, ['attention_bias', false, null], NO_WINDOW] },
    (sizes, headWidth) => {
      const turns = turnsOfAll(config, sizes, { theta: 10_000, headWidth });
      return turns.ok ? success({ ...PLAIN, family: 'qwen3', hasHeadNorms: true, turns: turns.value }) : turns;
    },
  );

export const smollm3Model = (config: Config): Result<Model> =>
  modelOf(
    config,
    { schema: SMOLLM3, expected: EXPECTED, fixed: [...FIXED, ...NO_BIASES, NO_WINDOW] },
    (sizes, headWidth) => {
      const all = turnsOfAll(config, sizes, { theta: 2_000_000, headWidth });
      if (!all.ok) return all;
      const { no_rope_layers: given, no_rope_layer_interval: interval, num_hidden_layers: layers } = sizes;
      if (given && given.length > 0 && given.length !== layers)
        return refusal(`no_rope_layers must have as many entries as there are layers (${layers}), not ${given.length}`);
      const isTurned = (layer: number): boolean => (given?.length ? given[layer] === 1 : (layer + 1) % interval !== 0);
      const turns = all.value.map((one, layer) => (isTurned(layer) ? one : null));
      return success({ ...PLAIN, family: 'smollm3', turns });
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

/** Of layers that all turn alike. */
function turnsOfAll(
  config: Config,
  { num_hidden_layers: layers }: Sizes,
  of: Pick<RotaryFields, 'theta' | 'headWidth'>,
): Result<RotaryTurns[]> {
  const found = rotaryFrequencies(config, { ...of, layerType: 'full_attention', thetaField: 'rope_theta' });
  if (!found.ok) return found;
  const turns = { name: 'rotary', frequencies: found.value };
  return success(Array.from({ length: layers }, () => turns));
}
