/**
 * How much of a block's tensors a kernel binds at once. A device binds less than it keeps in one buffer: WebGPU guarantees
 * 128 MiB of 256, and GPT-2's token table has 147. So whoever works on whole arrays does it a part at a time, and so do the
 * kernels of tables: an embedding's rows, and the rows of a linear weight without bias, activation and residual. Of all other
 * tensors a kernel binds the whole.
 */
import { type BlockName, layerBlock, type Model, type Operation } from '../model/model.ts';

/** Pieces of a table begin at multiples of so many rows: where halves may be bound, and where a product's panels begin. */
export const PIECE_ROWS = 128;

type Linear = Extract<Operation, { op: 'linear' }>;

/** May the rows of its weight be bound a piece at a time? */
export const isCutByRows = ({ weightLayout, bias, activation, residual }: Linear): boolean =>
  weightLayout === 'outIn' && bias === null && activation === 'none' && residual === null;

/** Elements of the largest part of a block's tensors that a kernel of its rows has to bind. */
export function boundElements(model: Model, name: BlockName): number {
  const known = boundOf.get(model) ?? boundOfBlocks(model);
  boundOf.set(model, known);
  if (name === 'embedding') return known.embedding;
  return name === 'head' ? known.head : known.layer;
}

const boundOf = new WeakMap<Model, ReturnType<typeof boundOfBlocks>>();

function boundOfBlocks(model: Model) {
  // A tied head's table is the embedding's, which is cut in both.
  return {
    embedding: largest(model, model.embedding, 'embedding'),
    layer: model.layers > 0 ? largest(model, model.layer(0), layerBlock(0)) : 0,
    head: largest(model, model.head, 'head'),
  };
}

function largest(model: Model, rows: readonly Operation[], name: BlockName): number {
  const tensors = model.blocks.find((block) => block.name === name)?.tensors ?? [];
  const elements = new Map(tensors.map((tensor) => [tensor.name, tensor.elements]));
  return Math.max(0, ...rows.map((row) => boundOfRow(row, (tensor) => elements.get(tensor) ?? 0)));
}

function boundOfRow(row: Operation, elementsOf: (tensor: string) => number): number {
  switch (row.op) {
    case 'embed':
      return row.position === null ? 0 : elementsOf(row.position);
    case 'linear':
      return isCutByRows(row) ? PIECE_ROWS * row.inWidth : row.inWidth * row.outWidth;
    default:
      return 0;
  }
}
