/**
 * Where a block's tensors lie in a GPU buffer. A block's elements are counted without gaps everywhere (plans, shards,
 * frames, checkpoints); in a buffer each tensor begins at a multiple of 64 floats (of 128 halves: then its gradients,
 * which are floats, lie at the same elements), since WebGPU binds at multiples of 256 bytes, except that a joined one lies right behind the one before. An arena is the one translation between the two:
 * gaps stay zero, so norms may run over whole arenas.
 */
import { invariant, overlap, type Range } from '../base.ts';
import { type Compute, ELEMENT_BYTES } from '../precision.ts';
import { INT8_BLOCK, INT8_BLOCK_WORDS } from '../wire.ts';
import {
  type Block,
  type BlockUse,
  block,
  type Model,
  type PackedBase,
  standingBlock,
  type TensorSpec,
} from './model.ts';

const ALIGNMENT_FLOATS = 64;
const BINDING_BYTES = 4 * ALIGNMENT_FLOATS;
/** Elements between places where a binding may begin, in a buffer of floats or of halves. */
export const alignmentOf = (kept: Compute | PackedBase = 'f32'): number =>
  kept === 'int8' ? INT8_BLOCK * ALIGNMENT_FLOATS : BINDING_BYTES / ELEMENT_BYTES[kept];
/** The longest piece of a block that travels as one tensor frame sequence, or is read back at once. */
export const SLICE_ELEMENTS = 1_048_576;

/** The tensors of a block within a range of it, in its elements. */
export const tensorParts = ({ tensors }: Pick<Block, 'tensors'>, range: Range): Range[] =>
  tensors.flatMap(({ offset, elements }) => {
    const part = overlap(range, [offset, offset + elements]);
    return part ? [part] : [];
  });

/** A run of elements that is contiguous on both sides. */
export interface Segment {
  readonly tensor: TensorSpec;
  /** First element of the block. */
  readonly from: number;
  readonly length: number;
  /** Float position in the arena. */
  readonly at: number;
}

export interface Arena {
  /** Covered elements of the block in order: one segment a tensor (or part of a tensor). */
  readonly segments: readonly Segment[];
  /** Floats, gaps included. */
  readonly floats: number;
}

/** The arena of some ranges of a block (a whole block, a tied head's token table, a shard). */
export function arena(source: Block, ranges: readonly Range[], kept?: Compute | PackedBase): Arena {
  const alignment = alignmentOf(kept);
  const segments: Segment[] = [];
  let end = 0;
  const aligned = (): number => Math.ceil(end / alignment) * alignment;
  for (const range of ranges) {
    for (const tensor of source.tensors) {
      const part = overlap(range, [tensor.offset, tensor.offset + tensor.elements]);
      if (!part) continue;
      const isBehind = tensor.joined && range[0] < tensor.offset;
      const at = isBehind ? end : aligned();
      segments.push({ tensor, from: part[0], length: part[1] - part[0], at });
      end = at + part[1] - part[0];
    }
  }
  return { segments, floats: aligned() };
}

/** The parts of an arena that hold `range`, clipped to it, in order. What the arena does not cover is left out. */
export function segmentsIn({ segments }: Arena, range: Range): Segment[] {
  const found: Segment[] = [];
  for (const segment of segments) {
    const part = overlap(range, [segment.from, segment.from + segment.length]);
    if (!part) continue;
    found.push({
      tensor: segment.tensor,
      from: part[0],
      length: part[1] - part[0],
      at: segment.at + part[0] - segment.from,
    });
  }
  return found;
}

/** Where whole tensors lie, for binding them: one, or several that are joined in this order. */
export function placeOf(
  { segments }: Arena,
  tensorNames: readonly string[],
): { readonly at: number; readonly elements: number } {
  const parts = tensorNames.map((name) => {
    const part = segments.find(({ tensor }) => tensor.name === name);
    invariant(part && part.length === part.tensor.elements, `the arena does not hold ${name} whole`);
    return part;
  });
  const [first] = parts;
  invariant(first, 'a place has a tensor');
  let end = first.at;
  for (const { at, length, tensor } of parts) {
    invariant(at === end, `${tensor.name} is not joined to the tensor before it`);
    end += length;
  }
  return { at: first.at, elements: end - first.at };
}

/** A range in pieces that travel. */
export function pieces([from, to]: Range): Range[] {
  const found: Range[] = [];
  for (let start = from; start < to; start += SLICE_ELEMENTS) found.push([start, Math.min(start + SLICE_ELEMENTS, to)]);
  return found;
}

/** What a stage's use of a block and a shard share, in pieces: both ends cut alike. */
export function slices(use: BlockUse, shard: Range): Range[] {
  return use.ranges.flatMap((range) => {
    const part = overlap(range, shard);
    return part ? pieces(part) : [];
  });
}

export const arenaOfUse = (model: Model, use: BlockUse, compute?: Compute): Arena =>
  arena(block(model, use.block), use.ranges, compute);

/** A buffer of a block that stands. */
export interface StandingPart {
  readonly name: string;
  readonly arena: Arena;
  /** How it lies there; null: as values that are computed with. */
  readonly packed: PackedBase | null;
}

/** What a stage's use of a block that stands lies in: vectors as they are computed with, matrices as the base is kept. */
export function standingParts(
  model: Model,
  { block: name, ranges }: BlockUse,
  compute: Compute = 'f32',
): StandingPart[] {
  const base = compute === 'f32' ? (model.base ?? null) : null;
  const source = standingBlock(model, name);
  const part = (packed: PackedBase | null): StandingPart => {
    const isIts = (tensor: TensorSpec): boolean => (isPackedAs(tensor, base) ? base : null) === packed;
    const tensors = source.tensors.filter(isIts);
    return {
      name: `${packed === null ? 'standing' : 'packed'}/${name}`,
      arena: arena({ ...source, tensors }, ranges, packed ?? compute),
      packed,
    };
  };
  const parts = base === null ? [part(null)] : [part(null), part(base)];
  return parts.filter(({ arena: { floats } }) => floats > 0);
}

/** Matrices alone; as codes those whose rows are whole blocks: then the blocks of the flat tensor are those of its rows. */
const isPackedAs = ({ shape }: TensorSpec, base: PackedBase | null): boolean =>
  shape.length > 1 && (base === 'f16' || (base === 'int8' && (shape.at(-1) ?? 1) % INT8_BLOCK === 0));

/** Floats that so many elements take. */
export const packedFloats = (elements: number, packed: PackedBase): number =>
  packed === 'f16' ? elements / 2 : (elements / INT8_BLOCK) * INT8_BLOCK_WORDS;
