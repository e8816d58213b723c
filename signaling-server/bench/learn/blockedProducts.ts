/**
 * Products of matrices on the CPU, as a WebAssembly module that is written here byte by byte: four float32 at a time, each
 * product and each sum rounded by itself, so that every machine gets the same bits. Several times as fast as SwiftShader on
 * the same cores: that is what makes learning curves of many runs affordable where there is no GPU.
 */
import { arrayOf, at, invariant } from '../../../swarm/base.ts';
import type { Products, View } from '../../../swarm/reference/products.ts';

/** A tile of C that is kept in registers: rows, and columns in vectors of four. */
const TILE_ROWS = 4;
const TILE_VECTORS = 2;
const TILE_COLUMNS = 4 * TILE_VECTORS;
/** 256 MiB, in pages of 64 KiB. */
const PAGES = 4096;
const FLOAT_BYTES = 4;

export class BlockedProducts implements Products {
  readonly #memory = new WebAssembly.Memory({ initial: PAGES, maximum: PAGES });
  readonly #product: (...numbers: number[]) => void;
  #end = 0;
  #turned: Float32Array = new Float32Array();

  constructor() {
    const instance = new WebAssembly.Instance(new WebAssembly.Module(moduleBytes()), { e: { m: this.#memory } });
    const { p } = instance.exports;
    invariant(typeof p === 'function', 'the module exports its product');
    this.#product = p as (...numbers: number[]) => void;
  }

  /** In the module's memory, which alone products can read and write. */
  zeros(length: number): Float32Array {
    const from = this.#end;
    this.#end += Math.ceil((length * FLOAT_BYTES) / 16) * 16;
    invariant(this.#end <= this.#memory.buffer.byteLength, 'the model has room in the memory of its products');
    return new Float32Array(this.#memory.buffer, from, length);
  }

  /** m is a multiple of 4, n of 8. */
  add([m, n, k]: readonly [m: number, n: number, k: number], a: View, b: View, c: View): void {
    invariant(m % TILE_ROWS === 0 && n % TILE_COLUMNS === 0, `a product of ${m}×${n} is made of whole tiles`);
    const place = ({ values, from = 0 }: View): number => values.byteOffset + FLOAT_BYTES * from;
    const [aRow, aColumn] = [FLOAT_BYTES * a.row, FLOAT_BYTES * (a.column ?? 1)];
    const rows = (b.column ?? 1) === 1 ? b : this.#inRows(b, k, n);
    this.#product(m, n, k, place(a), aRow, aColumn, place(rows), FLOAT_BYTES * rows.row, place(c), FLOAT_BYTES * c.row);
  }

  /** A copy of B [k, n] in which the elements of a row are adjacent, for the time of one product. */
  #inRows({ values, from = 0, row, column = 1 }: View, k: number, n: number): View {
    if (this.#turned.length < k * n) this.#turned = this.zeros(k * n);
    const into = this.#turned;
    // Along B's columns, whose elements are adjacent.
    for (let j = 0; j < n; j++) for (let q = 0; q < k; q++) into[q * n + j] = values[from + q * row + j * column] ?? 0;
    return { values: into, row: n };
  }
}

type Code = readonly number[];

const [I32, V128] = [0x7f, 0x7b];
const PARAMETERS = ['m', 'n', 'k', 'a', 'aRow', 'aColumn', 'b', 'bRow', 'c', 'cRow'] as const;
const NUMBERS = ['i', 'j', 'left', 'cell', 'line'] as const;
const POINTERS = arrayOf(TILE_ROWS, (row) => `p${row}`);
const SUMS = arrayOf(TILE_ROWS * TILE_VECTORS, (index) => `s${index}`);
const VECTORS = [...SUMS, ...arrayOf(TILE_VECTORS, (index) => `v${index}`), 'x'];
const LOCALS: readonly string[] = [...PARAMETERS, ...NUMBERS, ...POINTERS, ...VECTORS];

/** Unsigned LEB128; every number here is small and not negative. */
const leb = (value: number): number[] =>
  value < 128 ? [value] : [(value & 127) | 128, ...leb(Math.floor(value / 128))];

const local = (name: string): number[] => {
  const index = LOCALS.indexOf(name);
  invariant(index >= 0, `a local variable ${name}`);
  return leb(index);
};
const get = (name: string): Code => [0x20, ...local(name)];
const set = (name: string, ...value: Code[]): Code => [...value.flat(), 0x21, ...local(name)];
/** Below 64, where signed and unsigned numbers are written alike. */
const number = (value: number): Code => [0x41, value];
const plus = (a: Code, b: Code): Code => [...a, ...b, 0x6a];
const times = (a: Code, b: Code): Code => [...a, ...b, 0x6c];
const minus = (a: Code, b: Code): Code => [...a, ...b, 0x6b];
const vectorsPlus = (a: Code, b: Code): Code => [...a, ...b, 0xfd, 0xe4, 0x01];
const vectorsTimes = (a: Code, b: Code): Code => [...a, ...b, 0xfd, 0xe6, 0x01];
const loaded = (pointer: Code, offset: number): Code => [...pointer, 0xfd, 0x00, 2, ...leb(offset)];
const splat = (pointer: Code): Code => [...pointer, 0xfd, 0x09, 2, 0];
const store = (pointer: Code, value: Code, offset: number): Code => [
  ...pointer,
  ...value,
  0xfd,
  0x0b,
  2,
  ...leb(offset),
];
/** Again while the number is not 0; the first time in any case. */
const repeat = (whileNotZero: Code, ...body: Code[]): Code => [
  ...[0x03, 0x40],
  ...body.flat(),
  ...whileNotZero,
  ...[0x0d, 0x00, 0x0b],
];

/** for each panel of columns, for each tile of rows: C's tile in registers, plus the products of k columns of A with rows of B. */
function productCode(): Code {
  const rows = POINTERS.map((pointer, row) => ({
    pointer,
    sums: SUMS.slice(row * TILE_VECTORS, (row + 1) * TILE_VECTORS),
  }));
  const vectors = VECTORS.slice(SUMS.length, -1);
  const step = [
    ...vectors.map((vector, v) => set(vector, loaded(get('line'), 16 * v))),
    ...rows.flatMap(({ pointer, sums }) => [
      set('x', splat(get(pointer))),
      ...sums.map((sum, v) => set(sum, vectorsPlus(get(sum), vectorsTimes(get('x'), get(at(vectors, v)))))),
      set(pointer, plus(get(pointer), get('aColumn'))),
    ]),
    set('line', plus(get('line'), get('bRow'))),
    set('left', minus(get('left'), number(1))),
  ];
  const cells = (row: number): Code => plus(get('cell'), times(number(row), get('cRow')));
  const tile = [
    ...rows.flatMap(({ pointer, sums }, row) => [
      set(pointer, plus(get('a'), times(plus(get('i'), number(row)), get('aRow')))),
      ...sums.map((sum, v) => set(sum, loaded(cells(row), 16 * v))),
    ]),
    set('line', plus(get('b'), get('j'))),
    set('left', get('k')),
    repeat(get('left'), ...step),
    ...rows.flatMap(({ sums }, row) => sums.map((sum, v) => store(cells(row), get(sum), 16 * v))),
    set('i', plus(get('i'), number(TILE_ROWS))),
    set('cell', plus(get('cell'), times(number(TILE_ROWS), get('cRow')))),
  ];
  const panel = [
    set('i', number(0)),
    set('cell', plus(get('c'), get('j'))),
    repeat(minus(get('m'), get('i')), ...tile),
    set('j', plus(get('j'), number(FLOAT_BYTES * TILE_COLUMNS))),
  ];
  return repeat(minus(times(get('n'), number(FLOAT_BYTES)), get('j')), ...panel);
}

function moduleBytes(): Uint8Array<ArrayBuffer> {
  const section = (id: number, content: Code): Code => [id, ...leb(content.length), ...content];
  const text = (letter: string): Code => [1, letter.charCodeAt(0)];
  const code = [...[2, NUMBERS.length + POINTERS.length, I32, VECTORS.length, V128], ...productCode(), 0x0b];
  return new Uint8Array([
    ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00],
    ...section(1, [1, 0x60, PARAMETERS.length, ...PARAMETERS.map(() => I32), 0]),
    ...section(2, [1, ...text('e'), ...text('m'), 0x02, 0x00, 0]),
    ...section(3, [1, 0]),
    ...section(7, [1, ...text('p'), 0x00, 0]),
    ...section(10, [1, ...leb(code.length), ...code]),
  ]);
}
