/**
 * A table of which a device does not bind all at once, in pieces of whole rows: each has kernels of its own, over the same
 * buffers. Where it fits there is one piece, and everything is as it were for the whole.
 */
import type { BufferSlice } from '../../../shaders/kernel/launch.ts';
import { PIECE_ROWS } from '../../../swarm/memory/boundParts.ts';

/** Rows of a table, or of the vocabulary. */
export interface TablePiece {
  readonly first: number;
  readonly rows: number;
}

/** Of `rows` rows of so many floats, as their gradients are: about equal ones, each but the last of whole PIECE_ROWS. */
export function tablePieces(rows: number, width: number, bindingBytes: number): TablePiece[] {
  const most = Math.max(1, Math.floor(bindingBytes / (4 * width * PIECE_ROWS))) * PIECE_ROWS;
  const count = Math.ceil(rows / most);
  const each = count === 1 ? rows : Math.ceil(rows / count / PIECE_ROWS) * PIECE_ROWS;
  const pieces: TablePiece[] = [];
  for (let first = 0; first < rows; first += each) pieces.push({ first, rows: Math.min(each, rows - first) });
  return pieces;
}

/** From `bytes` of a slice on, so many; null: to its end. */
export const partOf = (slice: BufferSlice, bytes: number, size: number | null): BufferSlice => ({
  buffer: slice.buffer,
  offset: (slice.offset ?? 0) + bytes,
  ...(size !== null ? { size } : slice.size !== undefined && { size: slice.size - bytes }),
});
