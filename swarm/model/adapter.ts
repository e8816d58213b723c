/**
 * Low-rank adapters (LoRA, Hu et al. 2021): the model's own weights stand, and what is trained is a small pair of matrices
 * for each linear module that is a target. With x [N, in], A [r, in] and B [out, r] the module makes
 *
 *   y = x·W (+ bias) + scale·(x·Aᵀ)·Bᵀ,   scale = alpha/r, or alpha/√r with `rslora`
 *
 * An adapted model is a table like any other: its blocks hold A's and B's under PEFT's names, and the family's own blocks
 * stand beside them (`Model.standing`). Whatever keeps, cuts, moves or updates state reads the blocks and so has the
 * adapter alone.
 */
import { given, type Result, refusal, success } from '../base.ts';
import {
  type Block,
  type BlockName,
  blockOf,
  type LinearAdapter,
  layerBlock,
  type Model,
  type Operation,
  type PackedBase,
  type TensorRow,
} from './model.ts';

export interface Adapter {
  readonly rank: number;
  readonly alpha: number;
  /** Last parts of the names of linear modules: `q_proj`, `c_attn`, `lm_head`. */
  readonly targets: readonly string[];
  readonly rslora: boolean;
  /** How donors keep what stands; absent: as floats. */
  readonly base?: PackedBase;
  /** `Model.beta`; absent: it is trained on no preference pairs. */
  readonly beta?: number;
}

type Linear = Extract<Operation, { op: 'linear' }>;

const WEIGHT = '.weight';
const HEAD = 'lm_head';

/** The model of which the adapter alone is trained. A refusal begins with `targets`. */
export function adapterModel(model: Model, adapter: Adapter): Result<Model> {
  const targets = new Set(adapter.targets);
  const lists = rowsOf(model);
  const known = adapterTargets(model);
  for (const target of targets)
    if (!known.includes(target))
      return refusal(`targets: the model has no linear module ${target}, only ${known.join(', ')}`);
  if (targets.size === 0) return refusal('targets must name a linear module');
  const elements = new Map(
    model.blocks.flatMap(({ tensors }) => tensors.map((one) => [one.name, one.elements] as const)),
  );
  const adapted = (name: BlockName, rows: readonly Operation[]): Operation[] =>
    rows.map((row) => {
      const own = row.op === 'linear' ? adapterOf(row, modulesOf(row, model, name), elements, adapter) : null;
      return row.op === 'linear' && own !== null ? { ...row, adapter: own } : row;
    });
  const blocks = lists.flatMap(([name, rows]): Block[] => {
    const tensors = adapted(name, rows).flatMap(tensorsOf);
    return tensors.length === 0 ? [] : [blockOf(name, tensors)];
  });
  return success({
    ...model,
    blocks,
    standing: model.blocks,
    ...(adapter.base && { base: adapter.base }),
    ...given({ beta: adapter.beta }),
    layer: (index) => adapted(layerBlock(index), model.layer(index)),
    head: adapted('head', model.head),
  });
}

const rowsOf = (model: Model): readonly (readonly [BlockName, readonly Operation[]])[] => [
  ...Array.from({ length: model.layers }, (_, index) => [layerBlock(index), model.layer(index)] as const),
  ['head', model.head],
];

/** What the targets of an adapter may be, in the model's order. */
export const adapterTargets = (model: Model): string[] => [
  ...new Set(rowsOf(model).flatMap(([name, rows]) => rows.flatMap((row) => modulesOf(row, model, name)).map(lastPart))),
];

const lastPart = (module: string): string => module.slice(module.lastIndexOf('.') + 1);

/** Of a linear row; the head's is `lm_head`, though a tied one has the token table's weight. */
function modulesOf(row: Operation, { vocabulary }: Model, block: BlockName): string[] {
  if (row.op !== 'linear') return [];
  if (block === 'head' && row.outWidth === vocabulary) return [HEAD];
  return row.weights.map((name) => name.slice(0, -WEIGHT.length));
}

function adapterOf(
  { weights, inWidth, outWidth }: Linear,
  modules: readonly string[],
  elements: ReadonlyMap<string, number>,
  { rank, alpha, targets, rslora }: Adapter,
): LinearAdapter | null {
  let from = 0;
  const parts = weights.flatMap((weight, index) => {
    const width = weights.length === 1 ? outWidth : (elements.get(weight) ?? 0) / inWidth;
    from += width;
    const module = modules[index] ?? '';
    return targets.includes(lastPart(module)) ? [{ module, width, from: from - width }] : [];
  });
  if (parts.length === 0) return null;
  return {
    scale: alpha / (rslora ? Math.sqrt(rank) : rank),
    rank,
    a: parts.map(({ module }) => `${module}.lora_A${WEIGHT}`),
    parts: parts.map((part, index) => ({
      ...{ b: `${part.module}.lora_B${WEIGHT}`, from: part.from, width: part.width },
      at: index * rank,
    })),
  };
}

/** The A's of a row side by side, then its B's. */
function tensorsOf(row: Operation): TensorRow[] {
  if (row.op !== 'linear' || !row.adapter) return [];
  const { rank, a, parts } = row.adapter;
  return [
    ...a.map(
      (name, index): TensorRow => ({
        ...{ name, shape: [rank, row.inWidth], initial: 'uniform' },
        ...(index > 0 && { joined: true }),
      }),
    ),
    ...parts.map(({ b, width }): TensorRow => ({ name: b, shape: [width, rank], initial: 'zeros' })),
  ];
}
