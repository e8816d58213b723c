/**
 * Which tensors an optimizer updates as whole matrices, and which element by element. AdamW updates every element by
 * itself. Muon takes each matrix of a linear row of a layer as one; embeddings, heads, norms and biases stay AdamW's. The
 * model table of a run carries the answer (`TensorSpec.matrices`), so whatever cuts, moves, allocates or updates state
 * reads it from there and knows no optimizer.
 */
import { invariant, overlap, type Range } from '../base.ts';
import type { Block, Model, Operation, TensorSpec } from './model.ts';

export type OptimizerType = 'adamw' | 'muon';

/** The model as a run with this optimizer trains it. */
export function trainedModel(model: Model, type: OptimizerType = 'adamw'): Model {
  if (type === 'adamw') return model;
  const counts = new Map<string, number>();
  for (let index = 0; index < model.layers; index++) {
    const rows = model.layer(index);
    for (const row of rows)
      if (row.op === 'linear') {
        for (const name of row.weights) counts.set(name, sideBySide(row, rows));
        const { a = [], parts = [] } = row.adapter ?? {};
        for (const name of [...a, ...parts.map(({ b }) => b)]) counts.set(name, 1);
      }
  }
  const marked = (tensor: TensorSpec): TensorSpec => {
    const matrices = counts.get(tensor.name);
    return matrices === undefined ? tensor : { ...tensor, matrices };
  };
  const blocks = model.blocks.map((block) => ({ ...block, tensors: block.tensors.map(marked) }));
  return { ...model, blocks };
}

/** GPT-2's c_attn is one tensor and three matrices: queries, keys and values. */
function sideBySide(linear: Extract<Operation, { op: 'linear' }>, rows: readonly Operation[]): number {
  if (linear.weights.length > 1) return 1;
  const attention = rows.find((row) => row.op === 'attention' && row.qkv === linear.y);
  if (attention?.op !== 'attention') return 1;
  const isEven = attention.heads === attention.keyValueHeads && linear.weightLayout === 'inOut';
  invariant(isEven, `${linear.weights[0]} holds queries, keys and values that are no three equal groups of columns`);
  return 3;
}

/** Whether some tensor of the model is updated whole. */
export const hasMatrices = ({ blocks }: Pick<Model, 'blocks'>): boolean =>
  blocks.some(({ tensors }) => tensors.some(({ matrices }) => matrices !== undefined));

/** Elements of a block that have one moment. */
export const matrixElements = ({ tensors }: Pick<Block, 'tensors'>): number =>
  tensors.reduce((sum, { elements, matrices }) => (matrices === undefined ? sum : sum + elements), 0);

/** A matrix inside its tensor. */
export interface WholeMatrix {
  /** First element in the tensor. */
  readonly at: number;
  readonly rows: number;
  readonly columns: number;
  /** Elements from a row to the next. */
  readonly stride: number;
}

/** The matrices of a tensor that are updated whole; none: it is updated element by element. */
export function matricesOf({ name, shape, matrices = 0 }: TensorSpec): WholeMatrix[] {
  const [rows = 0, stride = 0] = shape;
  const columns = stride / matrices;
  invariant(matrices === 0 || (shape.length === 2 && Number.isInteger(columns)), `${name} is no ${matrices} matrices`);
  return Array.from({ length: matrices }, (_, index) => ({ at: index * columns, rows, columns, stride }));
}

/** Of a range of a block what is updated element by element, or as whole matrices, in order; what lies side by side is one range. */
export function updatedParts({ tensors }: Pick<Block, 'tensors'>, range: Range, as: 'elements' | 'matrices'): Range[] {
  const found: Range[] = [];
  for (const { offset, elements, matrices } of tensors) {
    const isOne = (matrices === undefined) === (as === 'elements');
    const part = isOne ? overlap(range, [offset, offset + elements]) : null;
    const last = found.at(-1);
    if (part && last?.[1] === part[0]) found[found.length - 1] = [last[0], part[1]];
    else if (part) found.push(part);
  }
  return found;
}
