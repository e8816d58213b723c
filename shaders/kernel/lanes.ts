/**
 * How a kernel reads memory: in lanes of four floats where every length it walks along divides by four, else in single
 * floats. One body serves both: it is written in `Lane`s, and one of two preludes says what a lane is. (On a software
 * adapter four floats loaded at once cost 47 ns, four single loads 76; on a GPU it is one transaction for four.)
 */
import alone from './alone.wgsl?raw';
import columns from './columns.wgsl?raw';
import type { Grid } from './grid.ts';
import type { AdapterFamily, Dims, Source } from './kernel.ts';
import narrow from './narrow.wgsl?raw';
import team from './team.wgsl?raw';
import wide from './wide.wgsl?raw';

/** Floats in a lane. */
export type LaneWidth = 1 | 4;

/** The widest lane that divides all of these lengths and offsets. */
export const laneWidth = (...lengths: number[]): LaneWidth => (lengths.every((length) => length % 4 === 0) ? 4 : 1);

export const lanePrelude = (width: LaneWidth): string => (width === 4 ? wide : narrow);

export const constantsText = (constants: Readonly<Record<string, number>>): string =>
  Object.entries(constants)
    .map(([name, value]) => `const ${name} = ${value}u;\n`)
    .join('');

/** Invocations of a workgroup, each with a lane; where one walks along a whole row, few, so that all cores get some. */
const GROUP = 64;
const ROWS = 4;

// WebGPU's guaranteed maxComputeWorkgroupsPerDimension is 65,535.
const MAX_WORKGROUPS_X = 32_768;

/** At least `count` workgroups; the kernel numbers them row by row. */
function spread(count: number): Grid {
  const x = Math.max(1, Math.min(count, MAX_WORKGROUPS_X));
  return [x, Math.max(1, Math.ceil(count / x)), 1];
}

interface LaneBody {
  readonly name: string;
  readonly code: string;
  readonly width: LaneWidth;
  readonly constants?: Readonly<Record<string, number>>;
  /** Invocations of a GPU's workgroup that share a row; default TEAM. */
  readonly team?: number;
}

/** The code's `item(i)` for each lane of so many floats, and for as many more as fill a workgroup. */
export function laneSource<Case extends string>(
  { name, code, width, constants = {} }: LaneBody,
  floats: (dims: Dims<Case>) => number,
): Source<Case> {
  return {
    key: `${name} by ${width}`,
    width,
    workgroupSize: GROUP,
    body: () => `${lanePrelude(width)}${constantsText(constants)}${code}
fn run(group: vec3u, groups: vec3u, local: u32) {
  item((group.y * groups.x + group.x) * ${GROUP}u + local);
}
`,
    workgroups: (dims) => spread(Math.ceil(floats(dims) / width / GROUP)),
  };
}

/** Invocations that share a row on a GPU: few lanes each of a row of the stream, so that many rows are under way. */
const TEAM = 64;
/** The same where rows are few and long (logits, a whole gradient): those few must keep a GPU's memory busy. */
export const WIDE_TEAM = 256;

const ROW_OF_ONE = `
fn run(group: vec3u, groups: vec3u, local: u32) {
  row((group.y * groups.x + group.x) * ${ROWS}u + local, 0u);
}
`;
const ROW_OF_TEAM = `
fn run(group: vec3u, groups: vec3u, local: u32) {
  row(group.y * groups.x + group.x, local);
}
`;

/** The code's `row(n, lane)`: a row each for one invocation on a software adapter, for one workgroup on a GPU. */
export function rowSource<Case extends string>(
  body: LaneBody,
  family: AdapterFamily,
  rows: (dims: Dims<Case>) => number,
): Source<Case> {
  const { name, code, width, constants = {} } = body;
  const isTeam = family === 'gpu';
  const size = body.team ?? TEAM;
  return {
    key: `${name} by ${width} ${isTeam ? 'team' : 'alone'}`,
    width,
    workgroupSize: isTeam ? size : ROWS,
    body: () => {
      const shared = isTeam ? constantsText({ TEAM: size }) + team : alone;
      return lanePrelude(width) + shared + constantsText(constants) + code + (isTeam ? ROW_OF_TEAM : ROW_OF_ONE);
    },
    workgroups: (dims) => spread(isTeam ? rows(dims) : Math.ceil(rows(dims) / ROWS)),
  };
}

/** Lanes of the row that one workgroup sums on a GPU, and shares that the rows are dealt to. */
const COLUMNS = 4;
const SHARES = 64;

const COLUMN_OF_ONE = `
fn run(group: vec3u, groups: vec3u, local: u32) {
  let c = group.x * ${ROWS}u + local;
  if (c >= dims.C / WIDTH) { return; }
  var sum = Sum();
  for (var n = 0u; n < dims.N; n++) { sum = plus(sum, term_of(c, n)); }
  add_to(c, sum);
}
`;

/** Sums down the columns of [N][C]: by one invocation a lane, or by a workgroup for COLUMNS lanes (columns.wgsl). */
export function columnSource({ name, code, width }: LaneBody, family: AdapterFamily): Source<'C'> {
  const isTeam = family === 'gpu';
  const shared = isTeam ? constantsText({ COLUMNS, SHARES }) + columns : COLUMN_OF_ONE;
  return {
    key: `${name} by ${width} ${isTeam ? 'team' : 'alone'}`,
    width,
    workgroupSize: isTeam ? COLUMNS * SHARES : ROWS,
    body: () => lanePrelude(width) + code + shared,
    workgroups: ({ C }) => [Math.ceil(C / width / (isTeam ? COLUMNS : ROWS)), 1, 1],
  };
}
