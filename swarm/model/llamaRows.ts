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
  /** What rows of the token table are multiplied by. */
  readonly embeddingScale: number;
  /** What norms add to their weights. */
  readonly offset: 0 | 1;
  /** Whether there is a norm behind attention and behind the MLP too, before their residuals are added. */
  readonly hasNormsBehind: boolean;
  /** Whether queries, keys and values have biases. */
  readonly hasBiases: boolean;
  readonly activation: 'silu' | 'gelu';
  /** Whether each head of queries and of keys is normalised. */
  readonly hasHeadNorms: boolean;
  readonly scoreScale: number;
  /** Keys that rows of each layer see, their own among them; null, or a layer that is not in it: all up to their own. */
  readonly windows: readonly (number | null)[];
  /** By how much each layer turns; null: not at all. */
  readonly turns: readonly (RotaryTurns | null)[];
}

export function llamaTable(shape: LlamaShape): Model {
  const { config, family, layers, width, vocabulary, tied, heads, headWidth, innerWidth, padding } = shape;
  const { positions, initializerRange, embeddingScale: scale } = shape;
  return {
    family,
    config,
    ...{ layers, width, heads, headWidth, innerWidth, vocabulary, positions, initializerRange, tied },
    blocks: [
      blockOf('embedding', [matrix(TOKENS, [vocabulary, width])]),
      ...Array.from({ length: layers }, (_, index) => blockOf(layerBlock(index), layerTensors(index, shape))),
      blockOf('head', [norm(FINAL_NORM, width, shape), ...(tied ? [] : [matrix(HEAD, [vocabulary, width])])]),
    ],
    embedding: [{ op: 'embed', token: TOKENS, position: null, padding, scale, y: 'y' }],
    layer: (index) => layerRows(index, shape),
    head: [
      rmsNorm('x', FINAL_NORM, shape, 'normed'),
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
const norm = (name: string, width: number, { offset }: Pick<LlamaShape, 'offset'>): TensorRow => ({
  name,
  shape: [width],
  initial: offset === 1 ? 'zeros' : 'ones',
});
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
    norm(`${prefix}input_layernorm.weight`, width, shape),
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
      ? joined([
          norm(`${attention}q_norm.weight`, headWidth, shape),
          norm(`${attention}k_norm.weight`, headWidth, shape),
        ])
      : []),
    norm(`${prefix}post_attention_layernorm.weight`, width, shape),
    ...(shape.hasNormsBehind ? [norm(`${prefix}pre_feedforward_layernorm.weight`, width, shape)] : []),
    ...joined([
      matrix(`${prefix}mlp.gate_proj.weight`, [innerWidth, width]),
      matrix(`${prefix}mlp.up_proj.weight`, [innerWidth, width]),
    ]),
    matrix(`${prefix}mlp.down_proj.weight`, [width, innerWidth]),
    ...(shape.hasNormsBehind ? [norm(`${prefix}post_feedforward_layernorm.weight`, width, shape)] : []),
  ];
}

function layerRows(index: number, shape: LlamaShape): Operation[] {
  const { width, heads, keyValueHeads, headWidth, innerWidth, epsilon, offset, activation, hasNormsBehind } = shape;
  const prefix = prefixOf(index);
  const name = (module: string): string => `${prefix}${module}.weight`;
  const sizes = { heads, keyValueHeads, headWidth };
  const biases = shape.hasBiases ? ['q', 'k', 'v'].map((part) => `${prefix}self_attn.${part}_proj.bias`) : [];
  const turns = at(shape.turns, index);
  const projected = shape.hasHeadNorms ? 'projected' : 'qkv';
  const weights = [name('self_attn.q_norm'), name('self_attn.k_norm')] as const;
  /** What leaves a sublayer, added to the residual. */
  const out = (x: string, module: string, inWidth: number, behind: string, residual: string, y: string): Operation[] =>
    hasNormsBehind
      ? [
          linear(x, [name(module)], [inWidth, width], `${y}Change`),
          rmsNorm(`${y}Change`, name(behind), shape, y, residual),
        ]
      : [linear(x, [name(module)], [inWidth, width], y, residual)];
  const before = hasNormsBehind ? 'pre_feedforward_layernorm' : 'post_attention_layernorm';
  return [
    rmsNorm('x', name('input_layernorm'), shape, 'normed'),
    {
      ...linear(
        'normed',
        [name('self_attn.q_proj'), name('self_attn.k_proj'), name('self_attn.v_proj')],
        [width, (heads + 2 * keyValueHeads) * headWidth],
        projected,
      ),
      biases,
    },
    ...(shape.hasHeadNorms
      ? [{ op: 'headNorm', x: projected, ...sizes, weights, epsilon, offset, y: 'qkv' } as const]
      : []),
    ...(turns === null ? [] : [{ op: 'rotary', x: 'qkv', ...sizes, turns, y: 'qkv' } as const]),
    {
      op: 'attention',
      qkv: 'qkv',
      ...sizes,
      scale: shape.scoreScale,
      window: shape.windows[index] ?? null,
      y: 'attended',
    },
    ...out('attended', 'self_attn.o_proj', heads * headWidth, 'post_attention_layernorm', 'x', 'middle'),
    rmsNorm('middle', name(before), shape, 'normedMiddle'),
    linear('normedMiddle', [name('mlp.gate_proj'), name('mlp.up_proj')], [width, 2 * innerWidth], 'gateUp'),
    { op: 'gated', activation, x: 'gateUp', innerWidth, y: 'inner' },
    ...out('inner', 'mlp.down_proj', innerWidth, 'post_feedforward_layernorm', 'middle', 'y'),
  ];
}

const rmsNorm = (
  x: string,
  weight: string,
  { epsilon, offset }: Pick<LlamaShape, 'epsilon' | 'offset'>,
  y: string,
  residual: string | null = null,
): Operation => ({ op: 'rmsNorm', x, weight, epsilon, offset, residual, y });

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
