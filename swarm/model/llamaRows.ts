/**
 * Llama and what followed it as a table: RMSNorm, rotary positions in the half-split layout, a gated MLP, grouped-query
 * attention. Matrices that read the same activation (queries, keys, values; gate, up) stand next to each other, so each
 * such group is one linear row, and its gradients are two products. What a family has more or less is a field of its shape.
 *
 * Every weight is [out, in]. Activations are named as in gpt2.ts: rows start from `x` and end in `y`.
 */
import { at } from '../base.ts';
import type { Config } from './configFields.ts';
import { blockOf, layerBlock, type Model, type Operation, type RotaryTurns, type TensorRow } from './model.ts';

const TOKENS = 'model.embed_tokens.weight';
const FINAL_NORM = 'model.norm.weight';
const HEAD = 'lm_head.weight';

export interface LlamaShape
  extends Pick<
    Model,
    | 'family'
    | 'layers'
    | 'width'
    | 'heads'
    | 'headWidth'
    | 'innerWidth'
    | 'vocabulary'
    | 'positions'
    | 'initializerRange'
    | 'tied'
  > {
  readonly config: Config;
  readonly keyValueHeads: number;
  readonly epsilon: number;
  readonly padding: number | null;
  /** Whether queries, keys and values have biases. */
  readonly hasBiases: boolean;
  /** Whether each head of queries and of keys is normalised. */
  readonly hasHeadNorms: boolean;
  /** By how much each layer turns; null: not at all. */
  readonly turns: readonly (RotaryTurns | null)[];
}

export function llamaTable(shape: LlamaShape): Model {
  const { config, family, layers, width, vocabulary, tied, epsilon, heads, headWidth, innerWidth } = shape;
  const { positions, initializerRange } = shape;
  return {
    family,
    config,
    ...{ layers, width, heads, headWidth, innerWidth, vocabulary, positions, initializerRange, tied },
    blocks: [
      blockOf('embedding', [matrix(TOKENS, [vocabulary, width])]),
      ...Array.from({ length: layers }, (_, index) => blockOf(layerBlock(index), layerTensors(index, shape))),
      blockOf('head', [ones(FINAL_NORM, width), ...(tied ? [] : [matrix(HEAD, [vocabulary, width])])]),
    ],
    embedding: [{ op: 'embed', token: TOKENS, position: null, padding: shape.padding, y: 'y' }],
    layer: (index) => layerRows(index, shape),
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
const ones = (name: string, width: number): TensorRow => ({ name, shape: [width], initial: 'ones' });
const zeros = (name: string, width: number): TensorRow => ({ name, shape: [width], initial: 'zeros' });
/** Each behind the one before. */
const joined = ([first, ...rest]: readonly [TensorRow, ...TensorRow[]]): TensorRow[] => [
  first,
  ...rest.map((row) => ({ ...row, joined: true })),
];

const prefixOf = (index: number): string => `model.layers.${index}.`;

function layerTensors(index: number, shape: LlamaShape): TensorRow[] {
  const { width, heads, keyValueHeads, headWidth, innerWidth } = shape;
  const prefix = prefixOf(index);
  const queries = heads * headWidth;
  const keys = keyValueHeads * headWidth;
  const attention = `${prefix}self_attn.`;
  return [
    ones(`${prefix}input_layernorm.weight`, width),
    ...joined([
      matrix(`${attention}q_proj.weight`, [queries, width]),
      matrix(`${attention}k_proj.weight`, [keys, width]),
      matrix(`${attention}v_proj.weight`, [keys, width]),
    ]),
    ...(shape.hasBiases
      ? joined([
          zeros(`${attention}q_proj.bias`, queries),
          zeros(`${attention}k_proj.bias`, keys),
          zeros(`${attention}v_proj.bias`, keys),
        ])
      : []),
    matrix(`${attention}o_proj.weight`, [width, queries]),
    ...(shape.hasHeadNorms
      ? joined([ones(`${attention}q_norm.weight`, headWidth), ones(`${attention}k_norm.weight`, headWidth)])
      : []),
    ones(`${prefix}post_attention_layernorm.weight`, width),
    ...joined([
      matrix(`${prefix}mlp.gate_proj.weight`, [innerWidth, width]),
      matrix(`${prefix}mlp.up_proj.weight`, [innerWidth, width]),
    ]),
    matrix(`${prefix}mlp.down_proj.weight`, [width, innerWidth]),
  ];
}

function layerRows(index: number, shape: LlamaShape): Operation[] {
  const { width, heads, keyValueHeads, headWidth, innerWidth, epsilon } = shape;
  const prefix = prefixOf(index);
  const name = (module: string): string => `${prefix}${module}.weight`;
  const sizes = { heads, keyValueHeads, headWidth };
  const biases = shape.hasBiases ? ['q', 'k', 'v'].map((part) => `${prefix}self_attn.${part}_proj.bias`) : [];
  const weights = [name('self_attn.q_norm'), name('self_attn.k_norm')] as const;
  const turns = at(shape.turns, index);
  return [
    { op: 'rmsNorm', x: 'x', weight: name('input_layernorm'), epsilon, y: 'normed' },
    {
      ...linear(
        'normed',
        [name('self_attn.q_proj'), name('self_attn.k_proj'), name('self_attn.v_proj')],
        [width, (heads + 2 * keyValueHeads) * headWidth],
        shape.hasHeadNorms ? 'projected' : 'qkv',
      ),
      biases,
    },
    ...(shape.hasHeadNorms ? [{ op: 'headNorm', x: 'projected', ...sizes, weights, epsilon, y: 'qkv' } as const] : []),
    ...(turns === null ? [] : [{ op: 'rotary', x: 'qkv', ...sizes, turns, y: 'qkv' } as const]),
    { op: 'attention', qkv: 'qkv', ...sizes, window: null, y: 'attended' },
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
): Extract<Operation, { op: 'linear' }> => ({
  op: 'linear',
  x,
  weights,
  weightLayout: 'outIn',
  biases: [],
  inWidth,
  outWidth,
  activation: 'none',
  residual,
  y,
});
