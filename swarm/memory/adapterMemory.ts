/**
 * What an adapter adds to a stage's memory: the weights that stand, whole and without gradients or moments, and room for
 * the B's of one row at a time, which all rows share. (What a row keeps for its backward is in the stage's program.)
 */
import type { BlockName, Operation } from '../model/model.ts';
import { lowWidth, type Program } from '../model/program.ts';
import { type BufferSpec, storage } from './bufferSpec.ts';

/** Names of where the B's of a row lie side by side, and their gradient. */
export const ADAPTER = { b: 'adapter/b', gradient: 'adapter/gradient' } as const;

/** The buffer of a block that stands. */
export const standingName = (name: BlockName): string => `standing/${name}`;

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
