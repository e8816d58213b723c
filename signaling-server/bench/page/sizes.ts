/** Models that are timed under a name: small ones for software adapters, published ones for GPUs. */
import type { BenchSizes } from './step.ts';

export interface NamedSize extends BenchSizes {
  readonly batch: number;
}

const gpt2 = { family: 'gpt2' } as const;

export const BENCH_SIZES = {
  xs: { ...gpt2, layers: 2, width: 64, heads: 4, sequence: 64, batch: 4, vocabulary: 256 },
  s: { ...gpt2, layers: 2, width: 128, heads: 4, sequence: 64, batch: 4, vocabulary: 256 },
  m: { ...gpt2, layers: 4, width: 256, heads: 8, sequence: 128, batch: 4, vocabulary: 512 },
  /** DistilGPT-2, one sample of 512 tokens: what other WebGPU trainers report. */
  distilgpt2: { ...gpt2, layers: 6, width: 768, heads: 12, sequence: 512, batch: 1, vocabulary: 50_257 },
  /** GPT-2 small, 4,096 tokens. */
  'gpt2-small': { ...gpt2, layers: 12, width: 768, heads: 12, sequence: 1024, batch: 4, vocabulary: 50_257 },
} as const satisfies Readonly<Record<string, NamedSize>>;

export type BenchSize = keyof typeof BENCH_SIZES;
