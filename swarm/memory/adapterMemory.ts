/**
 * What an adapter adds to a stage's memory: the weights that stand, whole and without gradients or moments, and room for
 * the B's of one row at a time, which all rows share. (What a row keeps for its backward is in the stage's program.)
 */
import type { Range } from '../base.ts';
import { packedFloats, standingParts } from '../model/layout.ts';
import { type Model, type Operation, standingOfStage } from '../model/model.ts';
import { lowWidth, type Program } from '../model/program.ts';
import { type Compute, ELEMENT_BYTES } from '../precision.ts';
import { type BufferSpec, storage, storageInParts } from './bufferSpec.ts';

/** Names of where the B's of a row lie side by side, and their gradient. */
export const ADAPTER = { b: 'adapter/b', gradient: 'adapter/gradient' } as const;

/** Names of which rows have the adapter, of preference pairs (1, else 0), and what each row's gradient counts in its pair's. */
export const PAIRS = { adapted: 'pairs/adapted', weights: 'pairs/weights' } as const;

/** Of a stage that trains on preference pairs, for each row of its largest micro-batch. */
export const pairBuffers = (
  { beta }: Pick<Model, 'beta'>,
  { last }: Pick<Program, 'last'>,
  rows: number,
): BufferSpec[] =>
  beta === undefined ? [] : [storage(PAIRS.adapted, rows), ...(last ? [storage(PAIRS.weights, rows)] : [])];

/** The buffers of what stands in a stage, of which kernels bind so many elements at once. */
export const standingBuffers = (model: Model, layers: Range, bound: number, compute: Compute): BufferSpec[] =>
  standingOfStage(model, layers).flatMap((use) =>
    standingParts(model, use, compute).map(({ name, arena, packed }) => {
      const floatsOf = (elements: number): number =>
        packed ? packedFloats(elements, packed) : (elements * ELEMENT_BYTES[compute]) / 4;
      return storageInParts(name, floatsOf(arena.floats), floatsOf(bound));
    }),
  );

/** Room for the B's of any one row, kept as weights are. */
export function adapterBuffers(
  { body, loss }: Pick<Program, 'body' | 'loss'>,
  keep: (name: string, elements: number) => BufferSpec,
): BufferSpec[] {
  const elements = Math.max(0, ...[...body, ...loss].map(({ operation }) => elementsOf(operation)));
  return elements === 0 ? [] : [keep(ADAPTER.b, elements), storage(ADAPTER.gradient, elements)];
}

const elementsOf = (operation: Operation): number =>
  operation.op === 'linear' ? lowWidth(operation) * operation.outWidth : 0;
