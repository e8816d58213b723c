/**
 * Causal attention, what its three kernels share. The one idea: scores are never stored. The forward keeps one number a
 * query and head, the log of the sum of its exponentials (lse_BHT); the backward computes p = exp(s − lse) anew. So
 * memory grows with T, not T², and nothing is added atomically: one kernel owns the rows of queries (dq), one those of
 * keys and values (dk, dv).
 *
 * Layout: qkv_N3C has queries, keys and values side by side, each H heads of D in a row; lse and delta are [B, H, T].
 *
 * How the work is cut: one invocation takes four rows of one head and accumulates a slice of the head's width, in lanes
 * of four floats where D divides by four. Heads no wider than a slice (32) need one invocation for each four rows and
 * compute every score once; wider ones compute the scores again for each slice. The backward has a text for each family:
 * on SwiftShader, holding the invocation's own rows halves its time.
 */
import code from './attention.wgsl?raw';
import type { AdapterFamily, Arrays, Dims, Variant } from './kernel.ts';
import { lanesOf } from './lanes.ts';
import { u32 } from './slots.ts';

export const ATTENTION_DIMS = [u32('B'), u32('T'), u32('H'), u32('D')] as const;

export const attentionSizes = ({ B, T, H, D }: Dims) => ({
  qkv: B * T * 3 * H * D,
  y: B * T * H * D,
  lse: B * H * T,
  delta: B * H * T,
  dy: B * T * H * D,
  dqkv: B * T * 3 * H * D,
});

export const ATTENTION_CASES: readonly Dims[] = [
  { B: 1, T: 1, H: 1, D: 1 },
  { B: 2, T: 7, H: 3, D: 5 },
  { B: 3, T: 37, H: 5, D: 12 },
  { B: 4, T: 64, H: 4, D: 32 },
  { B: 1, T: 70, H: 2, D: 80 },
  { B: 1, T: 18, H: 2, D: 128 },
  { B: 1, T: 1024, H: 1, D: 8 },
];

interface AttentionRequest {
  readonly name: string;
  readonly code: Readonly<Record<AdapterFamily, string>>;
  /** Widest slice that leaves a GPU's invocation enough registers. */
  readonly gpuSlice: 4 | 8;
}

export function attentionVariant(request: AttentionRequest, family: AdapterFamily, D: number): Variant {
  const lanes = lanesOf(D);
  const chunks = D / lanes.width;
  const slice = chunks <= 4 || (family === 'gpu' && request.gpuSlice === 4) ? 4 : 8;
  // Four heads in step fill a software adapter's four lanes; on a GPU neighbours are tiles of one head, which read the
  // same keys.
  const [heads, tiles] = family === 'gpu' ? [1, 32] : [4, 1];
  return {
    key: `${request.name}.${lanes.name}.${family}.${D}`,
    code: lanes.prelude + code + request.code[family],
    entryPoint: 'main',
    constants: { HEADS: heads, TILES: tiles, CHUNKS: chunks, SLICE: slice },
    subgroups: false,
    workgroups: ({ B, T, H }) => [
      Math.ceil((B * H) / heads),
      Math.ceil(Math.ceil(T / 4) / tiles),
      Math.ceil(chunks / slice),
    ],
  };
}

/** Where in qkv, y and lse a head's data lie. */
export const attentionAt = ({ T, H, D }: Dims, b: number, h: number) => ({
  q: (t: number, d: number) => ((b * T + t) * 3 * H + h) * D + d,
  k: (t: number, d: number) => ((b * T + t) * 3 * H + H + h) * D + d,
  v: (t: number, d: number) => ((b * T + t) * 3 * H + 2 * H + h) * D + d,
  y: (t: number, d: number) => ((b * T + t) * H + h) * D + d,
  row: (t: number) => (b * H + h) * T + t,
});

export function attentionForwardCpu({ qkv, y, lse }: Arrays, dims: Dims): void {
  const { B, T, H, D } = dims;
  for (let b = 0; b < B; b++) {
    for (let h = 0; h < H; h++) {
      const at = attentionAt(dims, b, h);
      for (let i = 0; i < T; i++) {
        const s: number[] = [];
        for (let j = 0; j <= i; j++) {
          let dot = 0;
          for (let d = 0; d < D; d++) dot += qkv[at.q(i, d)] * qkv[at.k(j, d)];
          s.push(dot / Math.sqrt(D));
        }
        const most = Math.max(...s);
        const logSum = most + Math.log(s.reduce((sum, value) => sum + Math.exp(value - most), 0));
        lse[at.row(i)] = logSum;
        for (let d = 0; d < D; d++) {
          let sum = 0;
          for (let j = 0; j <= i; j++) sum += Math.exp(s[j] - logSum) * qkv[at.v(j, d)];
          y[at.y(i, d)] = sum;
        }
      }
    }
  }
}

/** p_ij and ds_ij/√D of one head, float64, as functions of (i, j) with j ≤ i; delta_i = dy_i·y_i is given. */
export function attentionGradients({ qkv, lse, dy }: Arrays, delta: Arrays[string], dims: Dims, b: number, h: number) {
  const at = attentionAt(dims, b, h);
  const scale = 1 / Math.sqrt(dims.D);
  const p = (i: number, j: number): number => {
    let dot = 0;
    for (let d = 0; d < dims.D; d++) dot += qkv[at.q(i, d)] * qkv[at.k(j, d)];
    return Math.exp(dot * scale - lse[at.row(i)]);
  };
  const ds = (i: number, j: number): number => {
    let dp = 0;
    for (let d = 0; d < dims.D; d++) dp += dy[at.y(i, d)] * qkv[at.v(j, d)];
    return p(i, j) * (dp - delta[at.row(i)]) * scale;
  };
  return { p, ds };
}
