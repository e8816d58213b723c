/**
 * Examples as windows of T rows: inputs, targets, and the row at which each row's example begins. A preference pair has a
 * window of its own, in whose halves it stands twice: for the adapter, and for the model without it.
 */
import { at, totalOf } from '../../swarm/base.ts';

/** Tokens of an example, and the places among them of those that the loss counts as targets. */
interface OneText {
  readonly ids: Int32Array;
  readonly counted: readonly number[];
}

export interface Example extends OneText {
  /** Of a preference pair, whose chosen answer is the example's own; absent: it is none. */
  readonly rejected?: OneText;
}

/** How many rows of it are in a window. */
interface Part {
  readonly text: OneText;
  readonly rows: number;
}

/** What is in a window of an example, or of a pair, whose texts are in half of it: the longer is cut first, then both alike. */
export function windowParts({ rejected, ...text }: Example, sequenceLength: number): readonly Part[] {
  const rowsOf = ({ ids }: OneText): number => Math.max(0, ids.length - 1);
  if (rejected === undefined) return [{ text, rows: Math.min(rowsOf(text), sequenceLength) }];
  const half = sequenceLength / 2;
  const rows = Math.min(rowsOf(rejected), Math.max(Math.floor(half / 2), half - rowsOf(text)));
  return [
    { text, rows: Math.min(rowsOf(text), half - rows) },
    { text: rejected, rows },
  ];
}

/** `late`: nothing counts in what a window has room for; `empty`: nothing of it counts. Both are left out, as are such pairs. */
export type Fate = 'whole' | 'cut' | 'late' | 'empty';

export function fateOf(example: Example, sequenceLength: number): Fate {
  const parts = windowParts(example, sequenceLength);
  if (parts.some(({ text: { counted } }) => counted.length === 0)) return 'empty';
  if (parts.some(({ text: { counted }, rows }) => at(counted, 0) > rows)) return 'late';
  return parts.some(({ text: { ids }, rows }) => ids.length > rows + 1) ? 'cut' : 'whole';
}

interface Packing {
  readonly sequenceLength: number;
  /** Stands for the target of a row that does not count. */
  readonly vocabulary: number;
  /** Examples follow each other in a window while they fit whole; else each has its own. */
  readonly packing: boolean;
}

/** 3·T numbers, and how many of the rows count. */
interface Window {
  readonly numbers: Uint32Array;
  readonly counted: number;
}

interface WindowPacker {
  /** The windows that are full by it. */
  add(example: Example): Window[];
  /** The last one. */
  end(): Window[];
}

export function windowPacker({ sequenceLength, vocabulary, packing }: Packing): WindowPacker {
  let numbers = new Uint32Array();
  let counted = 0;
  let filled = 0;
  const setRow = (id: number, target: number, firstRow: number): void => {
    numbers[filled] = id;
    numbers[sequenceLength + filled] = target;
    numbers[2 * sequenceLength + filled] = firstRow;
  };
  const pad = (end: number): void => {
    for (; filled < end; filled++) setRow(0, vocabulary, filled);
  };
  const end = (): Window[] => {
    if (filled === 0) return [];
    pad(sequenceLength);
    filled = 0;
    return [{ numbers, counted }];
  };
  /** How many of its rows count. */
  const write = ({ text: { ids, counted: places }, rows }: Part): number => {
    const targets = new Set(places.filter((place) => place <= rows));
    const first = filled;
    for (let row = 0; row < rows; row++, filled++) {
      const target = targets.has(row + 1) ? ids[row + 1] : vocabulary;
      setRow(ids[row] ?? 0, target ?? vocabulary, first);
    }
    return targets.size;
  };
  return {
    add(example) {
      const fate = fateOf(example, sequenceLength);
      if (fate === 'late' || fate === 'empty') return [];
      const parts = windowParts(example, sequenceLength);
      const full = !packing || filled + totalOf(parts, ({ rows }) => rows) > sequenceLength ? end() : [];
      if (filled === 0) [numbers, counted] = [new Uint32Array(3 * sequenceLength), 0];
      counted += totalOf(parts, write);
      if (example.rejected === undefined) return full;
      pad(sequenceLength / 2);
      for (const part of parts) write(part);
      return [...full, ...end()];
    },
    end,
  };
}
