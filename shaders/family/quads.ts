/**
 * How the operands of a tile of C come to workgroup memory where invocations multiply: in strips of quads, four
 * neighbouring rows of C (columns, for B) at one step of K. An operand whose rows in storage run along the side is copied; of
 * one whose rows run along K an invocation loads four rows by four steps and turns them over in registers, so that every
 * store is a whole quad: WGSL lets a store to one component write its neighbours.
 *
 * Halves become floats on their way to workgroup memory, not when they are loaded: a conversion waits for the load, and
 * what is loaded ahead would be waited for before the multiplications that were to hide it.
 *
 * Past the last step of K a strip is zero. Past the last row it repeats that row, whose products nobody stores. Every
 * index into a strip is a remainder by the strip's own size: Tint then knows its range, and adds no clamp.
 */

import type { LaneWidth } from '../kernel/lanes.ts';
import type { GpuTile } from './epilogue.ts';
import type { Product } from './product.ts';
import { LAST_STEP } from './slices.ts';
import type { GpuShape } from './tiles.ts';
import { aRow, bRow, dimText, plus, range, widths } from './widths.ts';

/** One quad more than a step holds, so that the turned stores of neighbours lie in different banks. */
const PADDING_QUADS = 1;

/** A strip of an operand: `quads` times four rows of C (columns, for B) by `depth` steps of K. */
export interface QuadStrip {
  readonly operand: 'a' | 'b';
  /** In storage, and in registers until it is staged. */
  readonly element: 'f32' | 'f16';
  /** Of the operand's rows in storage: floats read at once, and their length. */
  readonly width: LaneWidth;
  readonly rowLength: number;
  /** Where those rows run along the side: the last quad of the matrix. */
  readonly lastQuad: number;
  readonly quads: number;
  readonly depth: number;
  /** Quads between steps of K in workgroup memory. */
  readonly pitch: number;
  /** Whether the operand's rows in storage run along K. */
  readonly alongDepth: boolean;
  /** First row (column) of the tile, and what it must stay below; null: no tile reaches past it. */
  readonly start: string;
  readonly limit: string | null;
  /** What steps must stay below; null: the last stretch of K is as long as the others. */
  readonly kLimit: string | null;
}

type StripTile = GpuTile & Pick<GpuShape, 'ofHalves'>;

export function quadStrips(product: Product, tile: StripTile): [QuadStrip, QuadStrip] {
  const { layout, m, n, k, slices } = product;
  const { depth, ofHalves } = tile;
  const element: QuadStrip['element'] = ofHalves ? 'f16' : 'f32';
  const width = widths(product);
  const kLimit = k !== 'runtime' && k % depth === 0 ? null : lastStepText(product);
  const strip = (operand: 'a' | 'b', side: number, dim: number | 'runtime') => ({
    ...{ operand, element, depth, kLimit: slices ? LAST_STEP : kLimit, width: width[operand], quads: side / 4 },
    pitch: side / 4 + PADDING_QUADS,
    lastQuad: dim === 'runtime' ? 0 : dim / 4 - 1,
    limit: dim !== 'runtime' && dim % side === 0 ? null : dimText(dim, 'M'),
  });
  return [
    { ...strip('a', tile.rows, m), rowLength: aRow(product), alongDepth: layout !== 'TN', start: 'firstRow' },
    { ...strip('b', tile.columns, n), rowLength: bRow(product), alongDepth: layout === 'NT', start: 'firstColumn' },
  ];
}

/** Where the steps of a workgroup end. */
export const lastStepText = ({ k, slices }: Product): string => (slices ? LAST_STEP : dimText(k, 'K'));

const QUAD_BYTES = 16;

export const quadBytes = (both: readonly QuadStrip[]): number =>
  both.reduce((sum, { depth, pitch }) => sum + QUAD_BYTES * depth * pitch, 0);

export const quadMemoryText = (both: readonly QuadStrip[]): string =>
  both.map(({ operand, depth, pitch }) => `var<workgroup> ${operand}Strip: array<vec4f, ${depth * pitch}>;\n`).join('');

const QUAD = { f32: 'vec4f', f16: 'vec4h' } as const;

/** Steps of K that one turn of an invocation loads: a block of four rows by four steps, or a quad. */
const stepsAtOnce = ({ alongDepth, width }: QuadStrip): 1 | 4 => (alongDepth && width === 4 ? 4 : 1);

/** One load of an invocation: the strip, which of its turns, and by which invocations. */
interface Turn {
  readonly strip: QuadStrip;
  readonly name: string;
  /** Of its invocation in the strip's order; where the turn needs not all of them, what it must stay below. */
  readonly index: string;
  readonly below: number | null;
}

/** What is loaded and stored for each stretch of K, and the words for it. */
interface Stage {
  /** Before the loop: where each turn's quad lies. */
  readonly places: readonly string[];
  /** `var` of each value that is under way, zero; and made zero anew, where not every step of K sets it. */
  readonly values: readonly string[];
  readonly clears: readonly string[];
  /** From storage, for the steps from `k` on. */
  loads(k: string): string[];
  /** To workgroup memory. */
  readonly stores: readonly string[];
}

export function stageOf(both: readonly QuadStrip[], invocations: number): Stage {
  const turns = turnsOf(both, invocations);
  const valuesOf = (some: readonly Turn[]): string[] =>
    some.flatMap(({ strip, name }) => range(stepsAtOnce(strip)).map((j) => `${name}_${j} = ${QUAD[strip.element]}();`));
  return {
    places: turns.flatMap(placeText),
    values: valuesOf(turns).map((line) => `var ${line}`),
    clears: valuesOf(turns.filter(({ strip }) => strip.kLimit !== null)),
    loads: (k) => turns.flatMap((turn) => loadText(turn, k)),
    stores: turns.flatMap(storeText),
  };
}

function turnsOf(both: readonly QuadStrip[], invocations: number): Turn[] {
  const turns: Turn[] = [];
  let busy = 0; // invocations that an incomplete turn has taken: the next such turn is others'
  for (const strip of both) {
    const count = (strip.quads * strip.depth) / stepsAtOnce(strip);
    for (let first = 0; first < count; first += invocations) {
      const left = count - first;
      const name = `${strip.operand}${first / invocations}`;
      if (left >= invocations) {
        turns.push({ strip, name, index: plus('local', first), below: null });
        continue;
      }
      const shift = busy + left <= invocations ? busy : 0;
      const own = shift === 0 ? 'local' : `(local + ${invocations - shift}u) % ${invocations}u`;
      turns.push({ strip, name, index: plus(own, first), below: first + left });
      busy = shift + left;
    }
  }
  return turns;
}

function placeText({ strip, name, index }: Turn): string[] {
  const { quads, depth, alongDepth } = strip;
  const steps = depth / stepsAtOnce(strip);
  const [quad, step] = alongDepth
    ? [`${name}Index / ${steps}u % ${quads}u`, `${name}Index % ${steps}u`]
    : [`${name}Index % ${quads}u`, `${name}Index / ${quads}u % ${steps}u`];
  const first = stepsAtOnce(strip) === 4 ? `4u * (${step})` : step;
  return [`let ${name}Index = ${index};`, `let ${name}Quad = ${quad};`, `let ${name}Step = ${first};`];
}

function loadText({ strip, name, below }: Turn, k: string): string[] {
  const { operand, element, width, rowLength, lastQuad, alongDepth, start, limit, kLimit } = strip;
  const line = (j: number): string => {
    const own = `${start} + ${plus(`4u * ${name}Quad`, j)}`;
    return limit === null ? own : `min(${own}, ${limit} - 1u)`;
  };
  const step = `${k} + ${name}Step`;
  const place = (j: number): string =>
    alongDepth ? `${factor(line(j))} * ${rowLength}u + ${step}` : `(${step}) * ${rowLength}u + ${line(j)}`;
  const wholeQuads = rowLength / 4;
  const quadPlace = (j: number): string => {
    if (alongDepth) return `${factor(line(j))} * ${wholeQuads}u + (${step}) / 4u`;
    const own = `${start} / 4u + ${name}Quad`;
    return `(${step}) * ${wholeQuads}u + ${limit === null ? own : `min(${own}, ${lastQuad}u)`}`;
  };
  const load = (i: string): string => (element === 'f16' ? `${operand}[${i}]` : `load_${operand}(${i})`);
  const values =
    width === 4
      ? range(stepsAtOnce(strip)).map((j) => load(quadPlace(j)))
      : [
          `${QUAD[element]}(${range(4)
            .map((j) => load(place(j)))
            .join(', ')})`,
        ];
  const sets = values.map((value, j) => `${name}_${j} = ${value};`);
  const conditions = [
    ...(below === null ? [] : [`${name}Index < ${below}u`]),
    ...(kLimit === null ? [] : [`${step} < ${kLimit}`]),
  ];
  return conditions.length === 0 ? sets : [`if (${conditions.join(' && ')}) {`, ...inner(sets), '}'];
}

function storeText({ strip, name, below }: Turn): string[] {
  const { operand, element, pitch } = strip;
  const asFloats = (quad: string): string => (element === 'f16' ? `vec4f(${quad})` : quad);
  const set = (step: number, value: string): string =>
    `${operand}Strip[${factor(plus(`${name}Step`, step))} * ${pitch}u + ${name}Quad] = ${asFloats(value)};`;
  const sets =
    stepsAtOnce(strip) === 4
      ? ['x', 'y', 'z', 'w'].map((part, step) =>
          set(
            step,
            `${QUAD[element]}(${range(4)
              .map((j) => `${name}_${j}.${part}`)
              .join(', ')})`,
          ),
        )
      : [set(0, `${name}_0`)];
  return below === null ? sets : [`if (${name}Index < ${below}u) {`, ...inner(sets), '}'];
}

/** Of a multiplication: a sum needs brackets. */
const factor = (text: string): string => (/^\w+(\(.*\))?$/.test(text) ? text : `(${text})`);
const inner = (lines: readonly string[]): string[] => lines.map((line) => `  ${line}`);
