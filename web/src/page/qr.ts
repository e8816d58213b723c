/**
 * QR codes of short texts (ISO/IEC 18004): bytes, error correction level L, versions 1 to 9. The text's bits and their
 * Reed-Solomon words fill a square in a zigzag around its fixed patterns; of eight masks the one with the fewest confusing
 * runs is laid over it.
 */

/** Of version 1 on: blocks, data words a block, correction words a block. */
const VERSIONS = [
  [1, 19, 7],
  [1, 34, 10],
  [1, 55, 15],
  [1, 80, 20],
  [1, 108, 26],
  [2, 68, 18],
  [2, 78, 20],
  [2, 97, 24],
  [2, 116, 30],
] as const;
/** Centres of the small squares, of version 1 on. */
const ALIGNED: readonly (readonly number[])[] = [
  [],
  [6, 18],
  [6, 22],
  [6, 26],
  [6, 30],
  [6, 34],
  [6, 22, 38],
  [6, 24, 42],
  [6, 26, 46],
];
/** Mode and length of the text. */
const HEAD_BITS = 12;
const FILLERS = [0xec, 0x11];

/** In GF(256) with x⁸ + x⁴ + x³ + x² + 1. */
function product(a: number, b: number): number {
  let sum = 0;
  for (let bit = 7; bit >= 0; bit--) {
    sum = (sum << 1) ^ ((sum >> 7) * 0x11d);
    sum ^= ((b >> bit) & 1) * a;
  }
  return sum;
}

/** The rest of data · xⁿ over (x − 1)(x − 2)…(x − 2ⁿ⁻¹). */
export function correctionOf(data: readonly number[], count: number): number[] {
  let generator = [1];
  for (let i = 0, root = 1; i < count; i++, root = product(root, 2)) {
    const next = [...generator, 0];
    for (const [at, factor] of generator.entries()) next[at + 1] = (next[at + 1] ?? 0) ^ product(factor, root);
    generator = next;
  }
  const rest = [...data, ...new Array<number>(count).fill(0)];
  for (let at = 0; at < data.length; at++) {
    const factor = rest[at] ?? 0;
    for (const [i, coefficient] of generator.entries())
      rest[at + i] = (rest[at + i] ?? 0) ^ product(coefficient, factor);
  }
  return rest.slice(data.length);
}

function remainder(value: number, bits: number, generator: number, width: number): number {
  let rest = value << width;
  for (let bit = bits + width - 1; bit >= width; bit--) if ((rest >> bit) & 1) rest ^= generator << (bit - width);
  return (value << width) | rest;
}
/** Level L and the mask, in 15 bits. */
export const formatBits = (mask: number): number => remainder(0b01000 | mask, 5, 0x537, 10) ^ 0x5412;
/** From version 7 on, in 18 bits. */
export const versionBits = (version: number): number => remainder(version, 6, 0x1f25, 12);

export const MASKS: readonly ((row: number, column: number) => boolean)[] = [
  (r, c) => (r + c) % 2 === 0,
  (r) => r % 2 === 0,
  (_, c) => c % 3 === 0,
  (r, c) => (r + c) % 3 === 0,
  (r, c) => (Math.floor(r / 2) + Math.floor(c / 3)) % 2 === 0,
  (r, c) => ((r * c) % 2) + ((r * c) % 3) === 0,
  (r, c) => (((r * c) % 2) + ((r * c) % 3)) % 2 === 0,
  (r, c) => (((r + c) % 2) + ((r * c) % 3)) % 2 === 0,
];

/** Bytes that the text, its head and what fills the rest come to, block by block; and behind them their correction. */
function wordsOf(bytes: Uint8Array, [blocks, dataWords, correctionWords]: (typeof VERSIONS)[number]): number[] {
  const bits = [0, 1, 0, 0];
  const write = (value: number): void => {
    for (let bit = 7; bit >= 0; bit--) bits.push((value >> bit) & 1);
  };
  write(bytes.length);
  for (const byte of bytes) write(byte);
  bits.push(0, 0, 0, 0);
  const data: number[] = [];
  for (let at = 0; at + 8 <= bits.length; at += 8) data.push(Number.parseInt(bits.slice(at, at + 8).join(''), 2));
  const text = data.length;
  while (data.length < blocks * dataWords) data.push(FILLERS[(data.length - text) % 2] ?? 0);
  const each = Array.from({ length: blocks }, (_, block) => data.slice(block * dataWords, (block + 1) * dataWords));
  const corrections = each.map((block) => correctionOf(block, correctionWords));
  const woven = (lists: readonly (readonly number[])[], length: number): number[] =>
    Array.from({ length }, (_, at) => lists.map((list) => list[at] ?? 0)).flat();
  return [...woven(each, dataWords), ...woven(corrections, correctionWords)];
}

type Square = (boolean | null)[][];

/** The fixed patterns; null: free for data. Format and version are left light. */
export function frameOf(version: number): Square {
  const size = 17 + 4 * version;
  const square: Square = Array.from({ length: size }, () => new Array<boolean | null>(size).fill(null));
  const set = (row: number, column: number, isDark: boolean): void => {
    const line = square[row];
    if (line && column >= 0 && column < size) line[column] = isDark;
  };
  for (let at = 0; at < size; at++) {
    set(6, at, at % 2 === 0);
    set(at, 6, at % 2 === 0);
  }
  for (const [top, left] of [
    [0, 0],
    [0, size - 7],
    [size - 7, 0],
  ] as const)
    for (let r = -1; r <= 7; r++)
      for (let c = -1; c <= 7; c++) {
        const ring = Math.max(Math.abs(r - 3), Math.abs(c - 3));
        set(top + r, left + c, ring !== 2 && ring !== 4);
      }
  const centres = ALIGNED[version - 1] ?? [];
  const last = centres.at(-1);
  for (const row of centres)
    for (const column of centres) {
      if ((row === 6 && (column === 6 || column === last)) || (row === last && column === 6)) continue;
      for (let r = -2; r <= 2; r++)
        for (let c = -2; c <= 2; c++) set(row + r, column + c, Math.max(Math.abs(r), Math.abs(c)) !== 1);
    }
  for (let at = 0; at < 9; at++) {
    if (square[8]?.[at] == null) set(8, at, false);
    if (square[at]?.[8] == null) set(at, 8, false);
    if (at < 8) {
      set(8, size - 1 - at, false);
      set(size - 1 - at, 8, at === 7);
    }
  }
  if (version >= 7) writeVersion(set, version, size);
  return square;
}

type Set = (row: number, column: number, isDark: boolean) => void;

function writeVersion(set: Set, version: number, size: number): void {
  const bits = versionBits(version);
  for (let bit = 0; bit < 18; bit++) {
    const isDark = ((bits >> bit) & 1) === 1;
    set(Math.floor(bit / 3), size - 11 + (bit % 3), isDark);
    set(size - 11 + (bit % 3), Math.floor(bit / 3), isDark);
  }
}

/** Both copies, around the corners. */
function writeFormat(set: Set, mask: number, size: number): void {
  const bits = formatBits(mask);
  for (let bit = 0; bit < 15; bit++) {
    const isDark = ((bits >> bit) & 1) === 1;
    set(bit < 6 ? bit : bit < 8 ? bit + 1 : size - 15 + bit, 8, isDark);
    set(8, bit < 8 ? size - 1 - bit : bit === 8 ? 7 : 14 - bit, isDark);
  }
}

/** Free places in the order of the data: two columns at a time, up and down, from the right. */
export function* zigzag(frame: readonly (readonly (boolean | null)[])[]): Generator<readonly [number, number]> {
  const size = frame.length;
  let isUp = true;
  for (let right = size - 1; right > 0; right -= 2, isUp = !isUp) {
    // The column of the timing pattern is left out.
    if (right === 6) right = 5;
    for (let at = 0; at < size; at++) {
      const row = isUp ? size - 1 - at : at;
      for (const column of [right, right - 1]) if (frame[row]?.[column] === null) yield [row, column];
    }
  }
}

/** Runs of five and more alike, squares of four alike, and how far it is from half dark. */
function penalty(square: readonly (readonly boolean[])[]): number {
  const size = square.length;
  let [points, dark] = [0, 0];
  for (let a = 0; a < size; a++) {
    for (const at of [(b: number) => square[a]?.[b], (b: number) => square[b]?.[a]]) {
      for (let from = 0, to = 1; to <= size; to++) {
        if (to < size && at(to) === at(from)) continue;
        if (to - from >= 5) points += to - from - 2;
        from = to;
      }
    }
    for (let b = 0; b < size; b++) {
      const own = square[a]?.[b];
      if (own) dark++;
      const others = [square[a]?.[b + 1], square[a + 1]?.[b], square[a + 1]?.[b + 1]];
      if (others.every((other) => other === own)) points += 3;
    }
  }
  return points + 10 * Math.floor(Math.abs((100 * dark) / size ** 2 - 50) / 5);
}

/** Rows of dark and light; null: the text is too long (more than 230 bytes). */
export function qrCode(text: string): readonly (readonly boolean[])[] | null {
  const bytes = new TextEncoder().encode(text);
  const place = VERSIONS.findIndex(([blocks, words]) => 8 * (blocks * words - bytes.length) >= HEAD_BITS);
  const shape = VERSIONS[place];
  if (shape === undefined) return null;
  const frame = frameOf(place + 1);
  const words = wordsOf(bytes, shape);
  const masked = MASKS.map((isFlipped, mask) => {
    const square = frame.map((row) => row.map((cell) => cell ?? false));
    let bit = 0;
    for (const [row, column] of zigzag(frame)) {
      const isDark = (((words[bit >> 3] ?? 0) >> (7 - (bit & 7))) & 1) === 1;
      const line = square[row];
      if (line) line[column] = isDark !== isFlipped(row, column);
      bit++;
    }
    writeFormat(
      (row, column, isDark) => {
        const line = square[row];
        if (line) line[column] = isDark;
      },
      mask,
      square.length,
    );
    return square;
  });
  return masked.toSorted((one, other) => penalty(one) - penalty(other))[0] ?? null;
}
