/**
 * The model as data: a table of blocks, their tensors, and the rows of operations that a stage runs forward and
 * backward. A family (families.ts) is a function from its Hugging Face config.json to this table; the GPU stage, the
 * memory plan, the checkpoints and the export all read the table and know no family.
 *
 * Letters: B samples of a micro-batch, T positions, N = B·T rows, C width, H heads of queries, K heads of keys and
 * values, D their width, V vocabulary.
 */
import { invariant, type Range, totalOf } from '../base.ts';

/** A unit of state placement: the embedding, one transformer layer, or the head. */
export type BlockName = 'embedding' | 'head' | `layer.${number}`;

/** How a tensor is drawn when a run starts from a seed. `residual`: normal, scaled by 1/√(2·layers). `uniform`: within ±1/√columns. */
export type Initial = 'normal' | 'residual' | 'zeros' | 'ones' | 'uniform';

export interface TensorSpec {
  /** Hugging Face name, prefix included: `transformer.h.0.ln_1.weight`. */
  readonly name: string;
  readonly shape: readonly number[];
  readonly elements: number;
  /** First element of this tensor inside its block. */
  readonly offset: number;
  readonly initial: Initial;
  /** Lies right behind the tensor before it, also in GPU memory: linear rows read the two as one matrix. */
  readonly joined?: boolean;
  /** The run's optimizer updates it whole, as so many matrices side by side in its columns; absent: element by element. */
  readonly matrices?: number;
}

export interface Block {
  readonly name: BlockName;
  readonly tensors: readonly TensorSpec[];
  readonly elements: number;
}

/** Names of activations inside one layer (or the embedding, or the head). `x` comes in from the layer before. */
type Activation = string;

/**
 * One row of a model: an operation over activations (rows N) and tensors (by full name). Each has one forward and one
 * backward, both in `web/src/gpu/operations`. `weightLayout` says how a linear weight is stored.
 */
export type Operation =
  /** Rows of the token table, times `scale`, plus those of the position table where there is one: then scale is 1. */
  | {
      readonly op: 'embed';
      readonly token: string;
      readonly position: string | null;
      /** The id whose row gets no gradient from here (torch's `padding_idx`); null: there is none. */
      readonly padding: number | null;
      readonly scale: number;
      readonly y: Activation;
    }
  | {
      readonly op: 'layerNorm';
      readonly x: Activation;
      readonly weight: string;
      readonly bias: string;
      readonly epsilon: number;
      readonly y: Activation;
    }
  | {
      /** y = x·(offset + weight) / √(mean x² + epsilon) (+ residual), row by row. */
      readonly op: 'rmsNorm';
      readonly x: Activation;
      readonly weight: string;
      readonly epsilon: number;
      readonly offset: 0 | 1;
      readonly residual: Activation | null;
      readonly y: Activation;
    }
  | {
      readonly op: 'linear';
      readonly x: Activation;
      /** More than one (outIn alone, joined): their rows are one matrix, so their outputs stand side by side in y. */
      readonly weights: readonly [string, ...string[]];
      readonly weightLayout: 'inOut' | 'outIn';
      /** As many as weights, joined as they are; none: no bias. */
      readonly biases: readonly string[];
      readonly inWidth: number;
      readonly outWidth: number;
      /** y = act(x·W + bias) (+ residual). With `gelu`, the value before the activation is kept as `${y}.pre`. */
      readonly activation: 'none' | 'gelu';
      readonly residual: Activation | null;
      readonly y: Activation;
      /** What is trained of it; its own weights stand. */
      readonly adapter?: LinearAdapter;
    }
  | {
      /** An RMS norm over each head of queries and of keys of a qkv, with a weight each of [D]; values stay. */
      readonly op: 'headNorm';
      readonly x: Activation;
      /** Joined. */
      readonly weights: readonly [queries: string, keys: string];
      readonly heads: number;
      readonly keyValueHeads: number;
      readonly headWidth: number;
      readonly epsilon: number;
      /** Of each weight, as an RMS norm has it. */
      readonly offset: 0 | 1;
      readonly y: Activation;
    }
  | {
      /** Rotary positions (Su et al. 2021): turns the queries and keys of an attention's qkv in place, so y = x. */
      readonly op: 'rotary';
      readonly x: Activation;
      readonly heads: number;
      readonly keyValueHeads: number;
      /** Even: element d is turned with element d + D/2, at position t by t·frequency d. */
      readonly headWidth: number;
      readonly turns: RotaryTurns;
      readonly y: Activation;
    }
  | {
      readonly op: 'attention';
      /** [N, (H+2K)·D]: queries, keys, values side by side; heads are contiguous runs of headWidth. */
      readonly qkv: Activation;
      readonly heads: number;
      /** Divides `heads`: query head h reads key and value head ⌊h·K/H⌋. */
      readonly keyValueHeads: number;
      readonly headWidth: number;
      /** What a score is multiplied by. */
      readonly scale: number;
      /** A row sees at most so many rows of its example, itself among them; null: all up to its own. */
      readonly window: number | null;
      readonly y: Activation;
    }
  | {
      /** x is [N, 2·innerWidth], gate and up side by side: y = act(gate)·up. `gelu` is its tanh approximation. */
      readonly op: 'gated';
      readonly activation: 'silu' | 'gelu';
      readonly x: Activation;
      readonly innerWidth: number;
      readonly y: Activation;
    }
  | { readonly op: 'crossEntropy'; readonly logits: Activation; readonly vocabulary: number };

/**
 * Low-rank changes of a linear row's modules (adapter.ts), added to x·W + bias before the activation. With R = rank·parts,
 * h = x·Aᵀ [N, R] is kept for the backward as `${y}.low`; each part's columns of y get its columns of h times scale·Bᵀ.
 */
export interface LinearAdapter {
  readonly scale: number;
  readonly rank: number;
  /** [rank, inWidth] each, joined: as one matrix [R, inWidth]. */
  readonly a: readonly string[];
  readonly parts: readonly AdapterPart[];
}

export interface AdapterPart {
  /** [width, rank]. */
  readonly b: string;
  /** First column of y, and how many. */
  readonly from: number;
  readonly width: number;
  /** First column of h. */
  readonly at: number;
}

/** By how much rotary rows turn. Rows of one model with equal names turn alike, and share a table of cosines and sines. */
export interface RotaryTurns {
  readonly name: string;
  /** Radians a position of each of the D/2 pairs of a head. */
  readonly frequencies: readonly number[];
}

/** How matrices that stand may be kept: halves, or int8 codes in WI4's blocks. */
export type PackedBase = 'f16' | 'int8';

/** Rows of the embedding, of each layer, of the head. Each layer's first input and the last row's output are `x`-like [N, C]. */
interface ModelRows {
  readonly embedding: readonly Operation[];
  readonly layer: (index: number) => readonly Operation[];
  readonly head: readonly Operation[];
}

export interface Model extends ModelRows {
  /** The `model_type` of its config.json. */
  readonly family: 'gpt2' | 'llama' | 'qwen2' | 'qwen3' | 'smollm3' | 'gemma3_text';
  /** The run's config.json, verbatim, for the export. */
  readonly config: Readonly<Record<string, unknown>>;
  readonly layers: number;
  readonly width: number;
  readonly heads: number;
  readonly headWidth: number;
  readonly innerWidth: number;
  readonly vocabulary: number;
  readonly positions: number;
  readonly initializerRange: number;
  readonly tied: boolean;
  /** What is trained: embedding, layer.0 … layer.L−1, head; with an adapter those of them in which there is a target. */
  readonly blocks: readonly Block[];
  /** The family's own blocks, all of them, where an adapter alone is trained and nothing updates these; absent: there are none. */
  readonly standing?: readonly Block[];
  /** How matrices that stand are kept where computing is in float32; absent: as floats. */
  readonly base?: PackedBase;
  /** β of DPO: a window has a preference pair, in its second half without adapters; absent: each row has its own loss. */
  readonly beta?: number;
}

/** The id of which the embedding's row gets no gradient from the input; from a tied head it does. */
export const paddingOf = ({ embedding }: Pick<Model, 'embedding'>): number | null =>
  embedding.flatMap((row) => (row.op === 'embed' ? [row.padding] : []))[0] ?? null;

/**
 * Does its stream overflow halves? Norms behind sublayers, before their residuals, may add rows of any size to it (Gemma 3's
 * reach 10^5): it is computed in f32 whatever a run asks.
 */
export const overflowsHalves = ({ layers, layer }: Pick<Model, 'layers' | 'layer'>): boolean =>
  layers > 0 && layer(0).some((row) => row.op === 'rmsNorm' && row.residual !== null);

export const layerBlock = (index: number): BlockName => `layer.${index}`;

export const block = ({ blocks }: Pick<Model, 'blocks'>, name: BlockName): Block => named(blocks, name);

/** A block of the weights that stand. */
export const standingBlock = ({ standing = [] }: Pick<Model, 'standing'>, name: BlockName): Block =>
  named(standing, name);

function named(blocks: readonly Block[], name: BlockName): Block {
  const found = blocks.find((candidate) => candidate.name === name);
  invariant(found, `the model has no block ${name}`);
  return found;
}

export type TensorRow = Omit<TensorSpec, 'elements' | 'offset'>;

/** A block of these tensors in this order. */
export function blockOf(name: BlockName, rows: readonly TensorRow[]): Block {
  let offset = 0;
  const tensors = rows.map((row): TensorSpec => {
    const elements = row.shape.reduce((product, size) => product * size, 1);
    offset += elements;
    return { ...row, elements, offset: offset - elements };
  });
  return { name, tensors, elements: offset };
}

export const parameters = ({ blocks }: Pick<Model, 'blocks'>): number => totalOf(blocks, ({ elements }) => elements);

/** That stand beside those of an adapter. */
export const standingParameters = ({ standing = [] }: Pick<Model, 'standing'>): number =>
  parameters({ blocks: standing });

/** Trained or not. */
export const allParameters = (model: Pick<Model, 'blocks' | 'standing'>): number =>
  parameters(model) + standingParameters(model);

/** A block's use by a stage: the block, and the element ranges its operations read (a tied head reads `wte` alone). */
export interface BlockUse {
  readonly block: BlockName;
  readonly ranges: readonly Range[];
}

/** Of all of them together. */
export const usedElements = (uses: readonly BlockUse[]): number =>
  totalOf(uses, ({ ranges }) => totalOf(ranges, ([from, to]) => to - from));

/** What a stage of `layers` computes with and trains. The first stage has the embedding, the last the head (and a tied embedding). */
export const blocksOfStage = (model: Model, layers: Range): BlockUse[] => usesOf(model.blocks, model, layers);

/** What it computes with of the weights that stand. */
export const standingOfStage = (model: Model, layers: Range): BlockUse[] => usesOf(model.standing ?? [], model, layers);

function usesOf(blocks: readonly Block[], model: Model, layers: Range): BlockUse[] {
  const first = layers[0] === 0;
  const last = layers[1] === model.layers;
  const known = new Map(blocks.map((own) => [own.name, own]));
  const whole = (name: BlockName): BlockUse[] => {
    const own = known.get(name);
    return own ? [{ block: name, ranges: [[0, own.elements]] }] : [];
  };
  const uses = first ? whole('embedding') : [];
  for (let index = layers[0]; index < layers[1]; index++) uses.push(...whole(layerBlock(index)));
  const table = known.get('embedding')?.tensors[0];
  if (last && model.tied && !first && table)
    uses.push({ block: 'embedding', ranges: [[table.offset, table.offset + table.elements]] });
  if (last) uses.push(...whole('head'));
  return uses;
}
