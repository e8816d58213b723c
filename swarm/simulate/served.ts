/**
 * Requests that are answered in a schedule's idle time (BubbleTea, 2024): every idle interval of every peer takes as many
 * whole pieces of work as fit before its end, less a guard. The intervals are known before the step, and pieces keep within
 * them, so that training goes as it would without: what is counted here never feeds back into the timeline.
 */
import { float, int, totalOf } from '../base.ts';
import { inStartOrder, type TimelineColumns } from '../timeline/columns.ts';

export interface Requests {
  /** What one piece of a request takes, above 0. */
  readonly pieceSeconds: number;
  /** Left free at the end of every interval, so that a late piece does not delay the action behind it. */
  readonly guardSeconds: number;
}

/** Pieces that follow each other in one idle interval, from its beginning on. */
interface PieceRow {
  readonly peer: number;
  readonly start: number;
  readonly pieces: number;
}

export interface Served extends Requests {
  readonly pieces: number;
  readonly busyRatio: number;
  readonly rows: readonly PieceRow[];
}

interface Trained {
  readonly peers: number;
  readonly makespanSeconds: number;
  /** Of all peers. */
  readonly busySeconds: number;
  readonly columns: TimelineColumns;
  readonly peerOf: Int32Array;
}

/** Sums of times may miss a whole number by their last bits. */
const ROUNDING = 1e-9;

export function serve(trained: Trained, { pieceSeconds, guardSeconds }: Requests): Served {
  const { peers, makespanSeconds, busySeconds, columns, peerOf } = trained;
  const rows: PieceRow[] = [];
  const freeFrom = new Float64Array(peers);
  const fill = (peer: number, until: number): void => {
    const start = float(freeFrom, peer);
    const pieces = Math.max(0, Math.floor((until - start - guardSeconds) / pieceSeconds + ROUNDING));
    if (pieces > 0) rows.push({ peer, start, pieces });
  };
  for (const work of inStartOrder(columns)) {
    const peer = int(peerOf, work);
    fill(peer, float(columns.startSeconds, work));
    freeFrom[peer] = Math.max(float(freeFrom, peer), float(columns.endSeconds, work));
  }
  for (let peer = 0; peer < peers; peer++) fill(peer, makespanSeconds);
  const pieces = totalOf(rows, (row) => row.pieces);
  const whole = peers * makespanSeconds;
  const busyRatio = whole === 0 ? 1 : (busySeconds + pieces * pieceSeconds) / whole;
  return { pieceSeconds, guardSeconds, pieces, busyRatio, rows };
}
