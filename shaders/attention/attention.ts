/**
 * Attention, what its three kernels share: each row sees the keys from its first one (firstKeys.ts) to its own. Scores are never stored. The forward keeps one number a query and
 * head, the log of the sum of its exponentials (lse_BHT); the backward computes p = exp(s − lse) anew. So memory grows
 * with T, not T², and nothing is added atomically: one kernel owns the rows of queries (dq), one those of keys and
 * values (dk, dv).
 *
 * Layout: a row of qkv has H heads of queries, K heads of keys and K of values side by side, each of D floats; lse and
 * delta are [B, H, T]. K divides H: H/K heads of queries in a row read the same keys and values (grouped queries), whose
 * gradients one invocation sums over these heads in order.
 *
 * How the work is cut on a GPU: a workgroup takes 32 rows of one head and walks over 32 others at a time, whose width it
 * stages in workgroup memory in strips of 32 elements (attentionTiles.wgsl). Each score is computed once, as long as the
 * sums of a head's width fit the registers: up to 128 elements. Where there are two sums, of keys and values, that is up to
 * 64; above, two teams of 64 invocations share both the scores and the sums of a tile.
 *
 * How it is cut on a software adapter: one invocation takes four rows of one head and accumulates a slice of the head's
 * width, in lanes of four floats where D divides by four. Heads no wider than a slice (32) need one invocation for each
 * four rows and compute every score once; wider ones compute the scores again for each slice. On SwiftShader, holding the
 * invocation's own rows in private memory halves its time. (They come and go by a loop over lanes, not over tiles: every
 * load and store in a text is a dozen branches, and the JIT takes 2 ms for each.)
 */

import { at } from '../../swarm/base.ts';
import type { GpuClass } from '../family/adapterFamily.ts';
import type { AdapterFamily, Arrays, Dims, Kernel, Source } from '../kernel/kernel.ts';
import { constantsText, lanePrelude, laneWidth } from '../kernel/lanes.ts';
import { f32, u32 } from '../kernel/slots.ts';
import code from './attention.wgsl?raw';
import tiles from './attentionTiles.wgsl?raw';
import { drawFirstRows, firstKeys } from './firstKeys.ts';
import { STRIP, scoresText, type Teams, TILE, type WrittenOut, weightedText } from './tileSteps.ts';
import tilesOfFloats from './tilesOfFloats.wgsl?raw';
import tilesOfLanes from './tilesOfLanes.wgsl?raw';

export const ATTENTION_DIMS = [u32('B'), u32('T'), u32('H'), u32('K'), u32('D'), f32('scale')] as const;

export const attentionSizes = ({ B, T, H, K, D }: AttentionDims) => ({
  first_BT: B * T,
  qkv_BTED: B * T * (H + 2 * K) * D,
  y_BTHD: B * T * H * D,
  lse_BHT: B * H * T,
  delta_BHT: B * H * T,
  dy_BTHD: B * T * H * D,
  dqkv_BTED: B * T * (H + 2 * K) * D,
});

/** Widths of heads come again where they can: each is a text of its own, and takes a second to compile. */
const SHAPES: readonly Omit<FirstKeyDims, 'scale'>[] = [
  { B: 1, T: 1, H: 1, K: 1, D: 1 },
  { B: 2, T: 150, H: 3, K: 3, D: 5, W: 40, L: 61 },
  { B: 3, T: 37, H: 5, K: 5, D: 20 },
  { B: 2, T: 105, H: 6, K: 2, D: 20, W: 200, L: 13 },
  { B: 3, T: 70, H: 2, K: 2, D: 20, W: 8 },
  { B: 1, T: 75, H: 2, K: 2, D: 80, W: 3 },
  { B: 1, T: 150, H: 3, K: 3, D: 5, W: 1 },
  { B: 2, T: 7, H: 3, K: 3, D: 5 },
  { B: 4, T: 64, H: 4, K: 4, D: 32 },
  { B: 1, T: 70, H: 2, K: 2, D: 80 },
  { B: 1, T: 70, H: 2, K: 2, D: 128 },
  { B: 1, T: 1024, H: 1, K: 1, D: 8 },
  { B: 3, T: 13, H: 6, K: 2, D: 20 },
  { B: 2, T: 38, H: 4, K: 1, D: 5 },
  { B: 1, T: 70, H: 6, K: 2, D: 64 },
  { B: 1, T: 75, H: 2, K: 1, D: 37 },
];
/** Scores by the width of a head, and by something else. */
export const ATTENTION_CASES: readonly FirstKeyDims[] = SHAPES.map((dims, i) => ({
  ...dims,
  scale: (i % 3 === 1 ? 1.4 : 1) * dims.D ** -0.5,
}));

export type AttentionDims = Dims<'B' | 'T' | 'H' | 'K' | 'D' | 'scale'>;
/**
 * With what first keys are made of, which is no dim of the kernels: windows of W rows (absent, or past T: none), by which a
 * launch's time is predicted, and examples of at most L rows at random (absent: one).
 */
type FirstKeyDims = AttentionDims & Partial<Dims<'W' | 'L'>>;

interface AttentionBody {
  readonly name: string;
  readonly code: Readonly<Record<AdapterFamily, string>>;
  /** Of 64 invocations of a GPU, which share a tile's sums: 2 where one invocation has no registers for both. Default 1. */
  readonly gpuTeams?: Teams;
  /** Whose rows an invocation takes: heads of queries, or of keys and values. */
  readonly heads: 'H' | 'K';
  /** How much of a tile's steps is written out for a GPU. */
  readonly writtenOut: WrittenOut;
}

const ofWide = new WeakMap<object, object>();

/** Of a kernel of tiles: on GPUs of many registers, whose drivers compile fast, all steps of a tile are written out. */
export function attentionKernel<Tensor extends string, Case extends string>(
  make: (writtenOut: WrittenOut) => Kernel<Tensor, Case>,
): Kernel<Tensor, Case> {
  const usual = make('some');
  ofWide.set(usual, make('all'));
  return usual;
}

/** The same kernel as a class of GPUs gets it; itself where it is none of these. */
export const inStepsOf = (kernel: Kernel, gpuClass: GpuClass): Kernel =>
  gpuClass === 'wide' ? ((ofWide.get(kernel) as Kernel | undefined) ?? kernel) : kernel;

export function fillFirstKeys(
  { first_BT }: Arrays<'first_BT'>,
  { B, T, W = T, L = 0 }: FirstKeyDims,
  random: () => number,
) {
  const firstRows = L > 0 ? drawFirstRows(B * T, T, L, random) : null;
  first_BT.set(firstKeys(B * T, T, firstRows, W));
}

/** What a backward is given: first keys, and what the forward leaves. */
export function fillFromForward(
  arrays: Arrays<'qkv_BTED' | 'first_BT' | 'y_BTHD' | 'lse_BHT'>,
  dims: AttentionDims,
  random: () => number,
): void {
  fillFirstKeys(arrays, dims, random);
  attentionForwardCpu(arrays, dims);
}

/** Pairs of a row and a key that it sees, of running text. */
export const seenPairs = ({ B, T, W = T }: FirstKeyDims): number => {
  const w = Math.min(W, T);
  return B * (w * T - (w * (w - 1)) / 2);
};

/** A GPU's invocations of a tile, or of a team, as in attentionTiles.wgsl. */
const TILE_INVOCATIONS = 64;
/** Most strips of the head's width whose sums leave one enough registers: 64 floats. */
export const MOST_STRIPS = 4;
/** On a software adapter four heads in step fill its four lanes, and each invocation takes four rows. */
const HEADS = 4;
const ROWS = 4;

/** Lanes in a head's width, and how many of them an invocation accumulates on a software adapter. */
export function cutOfHead(D: number): { readonly chunks: number; readonly slice: 4 | 8 } {
  const chunks = D / laneWidth(D);
  return { chunks, slice: chunks <= 4 ? 4 : 8 };
}

export function attentionSource(body: AttentionBody, family: AdapterFamily, D: number): Source<keyof AttentionDims> {
  const width = laneWidth(D);
  const { chunks, slice: softwareSlice } = cutOfHead(D);
  const isGpu = family === 'gpu';
  const slice = isGpu ? STRIP * Math.min(Math.ceil(chunks / STRIP), MOST_STRIPS) : softwareSlice;
  const { gpuTeams = 1, writtenOut } = body;
  const [heads, rows] = isGpu ? [1, TILE] : [HEADS, ROWS];
  // In the text, since they are lengths of arrays too.
  const cut = constantsText({ HEADS: heads, CHUNKS: chunks, SLICE: slice });
  return {
    key: `${body.name} by ${width} ${family} ${D}${isGpu ? ` ${writtenOut}` : ''}`,
    width,
    workgroupSize: isGpu ? gpuTeams * TILE_INVOCATIONS : HEADS,
    body: () => {
      const tile = width === 4 ? tilesOfLanes : tilesOfFloats;
      const steps = scoresText(chunks, gpuTeams, writtenOut) + weightedText(gpuTeams, writtenOut);
      return lanePrelude(width) + tile + cut + code + (isGpu ? tiles + steps : '') + body.code[family];
    },
    workgroups: (dims) => [
      Math.ceil((dims.B * dims[body.heads]) / heads),
      Math.ceil(dims.T / rows),
      Math.ceil(chunks / slice),
    ],
  };
}

/** Where in qkv, y and lse the data of a head of queries lie, and of the keys and values that it reads. */
export const attentionPlace = ({ T, H, K, D }: AttentionDims, b: number, h: number) => {
  const lane = (t: number, head: number) => ((b * T + t) * (H + 2 * K) + head) * D;
  const keyHead = Math.floor(h / (H / K));
  return {
    q: (t: number, d: number) => lane(t, h) + d,
    k: (t: number, d: number) => lane(t, H + keyHead) + d,
    v: (t: number, d: number) => lane(t, H + K + keyHead) + d,
    y: (t: number, d: number) => ((b * T + t) * H + h) * D + d,
    row: (t: number) => (b * H + h) * T + t,
  };
};

/** Row i of one head: y, and the log of the sum of its exponentials. */
export function attentionRow(
  { qkv_BTED, first_BT }: Arrays<'qkv_BTED' | 'first_BT'>,
  dims: AttentionDims,
  [b, h, i]: readonly [number, number, number],
): { readonly y_D: readonly number[]; readonly logSum: number } {
  const { T, D, scale } = dims;
  const place = attentionPlace(dims, b, h);
  const s: number[] = [];
  const first = at(first_BT, b * T + i);
  for (let j = first; j <= i; j++) {
    let dot = 0;
    for (let d = 0; d < D; d++) dot += at(qkv_BTED, place.q(i, d)) * at(qkv_BTED, place.k(j, d));
    s.push(dot * scale);
  }
  const most = s.reduce((largest, value) => Math.max(largest, value), Number.NEGATIVE_INFINITY);
  const logSum = most + Math.log(s.reduce((sum, value) => sum + Math.exp(value - most), 0));
  const y_D = Array.from({ length: D }, (_, d) =>
    s.reduce((sum, value, j) => sum + Math.exp(value - logSum) * at(qkv_BTED, place.v(first + j, d)), 0),
  );
  return { y_D, logSum };
}

export function attentionForwardCpu(
  arrays: Arrays<'qkv_BTED' | 'first_BT' | 'y_BTHD' | 'lse_BHT'>,
  dims: AttentionDims,
): void {
  const { y_BTHD, lse_BHT } = arrays;
  const { B, T, H } = dims;
  for (let b = 0; b < B; b++) {
    for (let h = 0; h < H; h++) {
      const place = attentionPlace(dims, b, h);
      for (let i = 0; i < T; i++) {
        const { y_D, logSum } = attentionRow(arrays, dims, [b, h, i]);
        lse_BHT[place.row(i)] = logSum;
        y_D.forEach((y, d) => {
          y_BTHD[place.y(i, d)] = y;
        });
      }
    }
  }
}

/** Rows of some heads at random, which have `count` elements. */
export function drawRows(
  { B, T, D }: AttentionDims,
  heads: number,
  random: () => number,
  count: number,
): (readonly [number, number, number])[] {
  const below = (end: number): number => Math.floor(random() * end);
  return Array.from({ length: Math.ceil(count / D) }, () => [below(B), below(heads), below(T)] as const);
}

/** What a backward is given where its forward has not run: as if each query saw T/2 keys alike. */
export const attentionSpread = ({ T }: AttentionDims) => ({ lse_BHT: [Math.log((T + 1) / 2) + 0.5, 0.1] as const });
/** Sums over T rows, of sums over D. */
export const attentionSlack = ({ T }: AttentionDims): number => Math.max(1, Math.sqrt(T) / 8);

/** p_ij and scale·ds_ij of one head, float64, as functions of (i, j) with a key j that row i sees; delta_i = dy_i·y_i is given. */
export function attentionGradients(
  { qkv_BTED, lse_BHT, dy_BTHD }: Arrays<'qkv_BTED' | 'lse_BHT' | 'dy_BTHD'>,
  delta_BHT: Arrays[string],
  dims: AttentionDims,
  b: number,
  h: number,
) {
  const place = attentionPlace(dims, b, h);
  const { scale } = dims;
  const p = (i: number, j: number): number => {
    let dot = 0;
    for (let d = 0; d < dims.D; d++) dot += at(qkv_BTED, place.q(i, d)) * at(qkv_BTED, place.k(j, d));
    return Math.exp(dot * scale - at(lse_BHT, place.row(i)));
  };
  const ds = (i: number, j: number): number => {
    let dp = 0;
    for (let d = 0; d < dims.D; d++) dp += at(dy_BTHD, place.y(i, d)) * at(qkv_BTED, place.v(j, d));
    return p(i, j) * (dp - at(delta_BHT, place.row(i))) * scale;
  };
  return { p, ds };
}
