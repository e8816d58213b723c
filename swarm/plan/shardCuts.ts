/**
 * How long a shard is, and where one may begin. Anywhere, but for two reasons. A matrix that the run updates whole has one
 * owner. And at a meeting each keeper packs what it keeps by itself, so with
 * islands a shard begins where a sparse run and a block of int8 codes do, counted from the beginning of each tensor.
 */
import type { Range } from '../base.ts';
import type { Block } from '../model/model.ts';
import type { Islands } from '../run/runFile.ts';
import { INT8_BLOCK } from '../wire.ts';

export type Packing = Pick<Islands, 'exchange' | 'publish'> | undefined;

/** Elements of a shard. */
export const sizeOf = ({ range: [from, to] }: { readonly range: Range }): number => to - from;

/** Elements of a tensor between places where a shard may begin. */
export function cutElements(islands: Packing): number {
  const run = !islands || islands.exchange === 'f32' ? 1 : islands.exchange.chunk;
  const codes = islands?.publish === 'int8' ? INT8_BLOCK : 1;
  return (run * codes) / greatestDivisor(run, codes);
}

const greatestDivisor = (a: number, b: number): number => (b === 0 ? a : greatestDivisor(b, a % b));

/** The last place up to this one where a shard may begin. */
export function shardCutUpTo(block: Pick<Block, 'tensors'>, islands: Packing, place: number): number {
  const whole = block.tensors.find(
    ({ matrices, offset, elements }) => matrices !== undefined && offset < place && place < offset + elements,
  );
  return whole ? whole.offset : cutUpTo(block, islands, place);
}

/** The last place up to this one where what a meeting packs may be cut. */
export function cutUpTo({ tensors }: Pick<Block, 'tensors'>, islands: Packing, place: number): number {
  const tensor = tensors.findLast(({ offset }) => offset <= place);
  if (!tensor || place >= tensor.offset + tensor.elements) return place;
  return place - ((place - tensor.offset) % cutElements(islands));
}
