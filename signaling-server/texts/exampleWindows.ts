/** Examples as windows of T rows: inputs, targets, and the row at which each row's example begins. */

/** Tokens of an example, and the places among them of those that the loss counts as targets. */
export interface Example {
  readonly ids: Int32Array;
  readonly counted: readonly number[];
}

/** `late`: nothing counts in what a window has room for; `empty`: nothing of it counts. Both are left out. */
export type Fate = 'whole' | 'cut' | 'late' | 'empty';

export function fateOf({ ids, counted }: Example, sequenceLength: number): Fate {
  if (counted.length === 0) return 'empty';
  if (counted.every((place) => place > sequenceLength)) return 'late';
  return ids.length > sequenceLength + 1 ? 'cut' : 'whole';
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
  const end = (): Window[] => {
    if (filled === 0) return [];
    const window = { numbers, counted };
    for (; filled < sequenceLength; filled++) setRow(0, vocabulary, filled);
    filled = 0;
    return [window];
  };
  const setRow = (id: number, target: number, firstRow: number): void => {
    numbers[filled] = id;
    numbers[sequenceLength + filled] = target;
    numbers[2 * sequenceLength + filled] = firstRow;
  };
  return {
    add(example) {
      const fate = fateOf(example, sequenceLength);
      if (fate === 'late' || fate === 'empty') return [];
      const rows = Math.min(example.ids.length - 1, sequenceLength);
      const targets = new Set(example.counted.filter((place) => place <= rows));
      const full = !packing || filled + rows > sequenceLength ? end() : [];
      if (filled === 0) [numbers, counted] = [new Uint32Array(3 * sequenceLength), 0];
      const first = filled;
      for (let row = 0; row < rows; row++, filled++) {
        const target = targets.has(row + 1) ? example.ids[row + 1] : vocabulary;
        setRow(example.ids[row] ?? 0, target ?? vocabulary, first);
      }
      counted += targets.size;
      return full;
    },
    end,
  };
}
