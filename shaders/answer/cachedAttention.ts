/**
 * Attention of new rows over the cache of their conversations, each row at any position (paged as in vLLM: Kwon et al.
 * 2023). Row n sees the S_n keys of its own conversation, its own among them, which lie in pages of P rows: key j is row
 * pages_L[first_n + ⌊j/P⌋]·P + j mod P of the cache. For each head, with S = S_n:
 *   s_j = scale·q_n·k_j,   y_n = Σ_j softmax(s)_j·v_j
 *
 * A row's keys are walked once, with the largest score so far taken off (online softmax). On a software adapter an
 * invocation has one head of one row. On a GPU a workgroup has it: each of 64 invocations takes the score of one key of 64,
 * then all share the sum over these 64 values.
 *
 * seen_N2 holds first_n and S_n; no S_n is above T, by which the time is predicted. Of the S_n keys the last W are seen. K divides H, as in attention.ts.
 */
import { at, below } from '../../swarm/base.ts';
import { type Dims, kernel } from '../kernel/kernel.ts';
import { constantsText, lanePrelude, laneWidth } from '../kernel/lanes.ts';
import { f32, half, read, readWrite, u32 } from '../kernel/slots.ts';
import team from '../kernel/team.wgsl?raw';
import gpu from './cachedAttention.wgsl?raw';
import software from './cachedAttentionSoftware.wgsl?raw';
import places from './keyPlaces.wgsl?raw';

type CachedDims = Dims<'N' | 'H' | 'K' | 'D' | 'P' | 'T' | 'W' | 'scale' | 'R' | 'L'>;

/** Invocations of a workgroup: of a GPU a head of a row's, of a software adapter heads. */
const TEAM = 64;
const HEADS = 4;

export const cachedAttention = kernel({
  name: 'answer.attention',
  tensors: [
    half(read('qkv_NED')),
    half(read('cache_RFD')),
    read('pages_L', 'u32'),
    read('seen_N2', 'u32'),
    half(readWrite('y_NHD')),
  ],
  dims: [u32('N'), u32('H'), u32('K'), u32('D'), u32('P'), u32('T'), u32('W'), f32('scale')],
  // R rows of the cache and L pages in the list are no dims of the kernel, only of its cases.
  sizes: ({ N, H, K, D, R, L }: CachedDims) => ({
    ...{ qkv_NED: N * (H + 2 * K) * D, cache_RFD: 2 * R * K * D },
    ...{ pages_L: L, seen_N2: 2 * N, y_NHD: N * H * D },
  }),
  source(family, { D }) {
    const width = laneWidth(D);
    const isGpu = family === 'gpu';
    const chunks = D / width;
    const shares = Math.max(1, Math.floor(TEAM / chunks));
    const cut = isGpu ? { TEAM, SHARES: shares, OWN: Math.ceil(chunks / TEAM) } : { HEADS };
    return {
      key: `answer.attention by ${width} ${family} ${D}`,
      width,
      workgroupSize: isGpu ? TEAM : HEADS,
      body: () => {
        const constants = constantsText({ CHUNKS: chunks, ...cut });
        return lanePrelude(width) + constants + (isGpu ? team : '') + places + (isGpu ? gpu : software);
      },
      workgroups: ({ N, H }) => (isGpu ? [H, N, 1] : [Math.ceil((N * H) / HEADS), 1, 1]),
    };
  },
  cpu({ qkv_NED, cache_RFD, pages_L, seen_N2, y_NHD }, { N, H, K, D, P, W, scale }) {
    for (let n = 0; n < N; n++) {
      const [first, seen] = [at(seen_N2, 2 * n), at(seen_N2, 2 * n + 1)];
      const start = Math.max(0, seen - W);
      const row = (j: number): number => (at(pages_L, first + Math.floor(j / P)) * P + (j % P)) * 2 * K * D;
      for (let h = 0; h < H; h++) {
        const head = Math.floor(h / (H / K)) * D;
        const q = (d: number): number => at(qkv_NED, (n * (H + 2 * K) + h) * D + d);
        const s: number[] = [];
        for (let j = start; j < seen; j++) {
          let dot = 0;
          for (let d = 0; d < D; d++) dot += q(d) * at(cache_RFD, row(j) + head + d);
          s.push(dot * scale);
        }
        const most = Math.max(...s);
        const sum = s.reduce((total, value) => total + Math.exp(value - most), 0);
        for (let d = 0; d < D; d++) {
          const value = (j: number): number => at(cache_RFD, row(j) + K * D + head + d);
          y_NHD[(n * H + h) * D + d] = s.reduce(
            (y, score, j) => y + (Math.exp(score - most) / sum) * value(start + j),
            0,
          );
        }
      }
    }
  },
  cases: [
    { N: 1, H: 1, K: 1, D: 1, P: 1, T: 1, W: 1, scale: 1, R: 1, L: 1 },
    { N: 5, H: 3, K: 3, D: 5, P: 4, T: 36, W: 3, scale: 0.4, R: 24, L: 9 },
    { N: 3, H: 6, K: 2, D: 20, P: 16, T: 208, W: 208, scale: 0.25, R: 208, L: 13 },
    { N: 16, H: 4, K: 1, D: 64, P: 16, T: 640, W: 100, scale: 0.125, R: 512, L: 40 },
    { N: 2, H: 2, K: 2, D: 128, P: 16, T: 320, W: 320, scale: 0.1, R: 320, L: 20 },
    { N: 2, H: 2, K: 1, D: 258, P: 8, T: 64, W: 64, scale: 0.06, R: 64, L: 8 },
  ],
  /** Each row sees some pages of the list, the last of them in part. */
  fill({ pages_L, seen_N2 }, { N, P, R, L }, random) {
    for (let l = 0; l < L; l++) pages_L[l] = below(random, R / P);
    for (let n = 0; n < N; n++) {
      const first = below(random, L);
      seen_N2.set([first, 1 + below(random, (L - first) * P)], 2 * n);
    }
  },
  tolerance: { absolute: 3e-6, relative: 2e-6 },
  cost: ({ N, H, K, D, T, W }) => ({
    flops: 4 * N * H * Math.min(T, W) * D,
    bytes: 4 * N * D * (2 * Math.min(T, W) * K + 2 * H),
  }),
});
