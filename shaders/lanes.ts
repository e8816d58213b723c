/**
 * How a kernel reads memory: in lanes of four floats where every length it walks along divides by four, else in single
 * floats. One kernel text serves both: it is written in `Lane`s, and one of two preludes says what a lane is. (On a
 * software adapter four floats loaded at once cost 47 ns, four single loads 76; on a GPU it is one transaction for four.)
 */
import columns from './columns.wgsl?raw';
import type { AdapterFamily, Dims, Variant } from './kernel.ts';
import narrow from './narrow.wgsl?raw';
import wide from './wide.wgsl?raw';
import workgroup from './workgroup.wgsl?raw';

export interface Lanes {
  readonly name: 'wide' | 'narrow';
  /** Floats in a lane. */
  readonly width: number;
  readonly prelude: string;
}

const WIDE: Lanes = { name: 'wide', width: 4, prelude: wide };
const NARROW: Lanes = { name: 'narrow', width: 1, prelude: narrow };

/** The widest lane that divides all of these lengths and offsets. */
export const lanesOf = (...lengths: number[]): Lanes => (lengths.every((length) => length % 4 === 0) ? WIDE : NARROW);

/** Invocations of a workgroup, as in the preludes. Few where one walks along a whole row, so that all cores get some. */
export const GROUP = 64;
export const ROWS = 4;

// WebGPU's guaranteed maxComputeWorkgroupsPerDimension is 65,535.
const MAX_WORKGROUPS_X = 32_768;

/** A dispatch of at least `count` workgroups; the kernel numbers them row by row (`linear_group` in the preludes). */
export function spread(count: number): readonly [number, number, number] {
  const x = Math.max(1, Math.min(count, MAX_WORKGROUPS_X));
  return [x, Math.max(1, Math.ceil(count / x)), 1];
}

const spreadItems = (count: number): readonly [number, number, number] => spread(Math.ceil(count / GROUP));

interface VariantRequest {
  readonly name: string;
  readonly code: string;
  readonly lanes: Lanes;
  readonly constants?: Readonly<Record<string, number>>;
  /** Invocations of a GPU's workgroup that share a row; default TEAM. */
  readonly team?: number;
}

/** One invocation of entry `main` for each of `count` lanes. */
export function laneVariant({ name, code, lanes, constants }: VariantRequest, count: (dims: Dims) => number): Variant {
  return {
    key: `${name}.${lanes.name}`,
    code: lanes.prelude + code,
    entryPoint: 'main',
    ...(constants ? { constants } : {}),
    subgroups: false,
    workgroups: (dims) => spreadItems(count(dims) / lanes.width),
  };
}

/** Invocations that share a row on a GPU: few lanes each of a row of the stream, so that many rows are under way. */
const TEAM = 64;
/** The same where rows are few and long (logits, a whole gradient): those few must keep a GPU's memory busy. */
export const WIDE_TEAM = 256;

/** A row each for one invocation (entry `rows`) on a software adapter, for one workgroup (`workgroups`) on a GPU. */
export function rowVariant(request: VariantRequest, family: AdapterFamily, rows: (dims: Dims) => number): Variant {
  const shared = family === 'gpu';
  const entryPoint = shared ? 'workgroups' : 'rows';
  return {
    key: `${request.name}.${request.lanes.name}.${entryPoint}`,
    code: `${request.lanes.prelude}const TEAM = ${request.team ?? TEAM}u;\n${workgroup}${request.code}`,
    entryPoint,
    ...(request.constants ? { constants: request.constants } : {}),
    subgroups: false,
    workgroups: (dims) => spread(shared ? rows(dims) : Math.ceil(rows(dims) / ROWS)),
  };
}

// Lanes of the row that one workgroup sums: COLUMNS in columns.wgsl.
const COLUMNS = 4;

/** Sums down the columns (columns.wgsl): by one invocation a lane, or by a workgroup for COLUMNS lanes. */
export function columnVariant(request: VariantRequest, family: AdapterFamily): Variant {
  const shared = family === 'gpu';
  const entryPoint = shared ? 'column_groups' : 'columns';
  return {
    key: `${request.name}.${request.lanes.name}.${entryPoint}`,
    code: request.lanes.prelude + request.code + columns,
    entryPoint,
    subgroups: false,
    workgroups: ({ C }) => [Math.ceil(C / request.lanes.width / (shared ? COLUMNS : ROWS)), 1, 1],
  };
}
