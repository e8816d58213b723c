/**
 * Which tokens a step reads: a pure function of (run, step), so that any peer can fetch its own. All files of a run are
 * one token list, cut into shards named by their SHA-256; window w is tokens [w·T, w·T+T) with targets one later.
 */
import { invariant, type Range } from './base.ts';

export const SHARD_TOKENS = 65_536;

/** Tokens as files: shard k holds tokens [k·shardTokens, (k+1)·shardTokens), little-endian; only the last is shorter. */
export interface TokenList {
  readonly tokens: number;
  readonly shardTokens: number;
  /** 2 where every id of the vocabulary fits, else 4. */
  readonly bytesPerToken: 2 | 4;
  readonly shards: readonly string[];
}

export type TokenIds = Uint16Array | Uint32Array;

export const windowCount = (tokens: number, sequenceLength: number): number =>
  Math.max(0, Math.floor((tokens - 1) / sequenceLength));

/** The window of sample `sample` of step `step`, sequential order. */
export const windowOfSample = (step: number, sample: number, globalBatchSize: number, windows: number): number =>
  (step * globalBatchSize + sample) % windows;

/** Tokens of a window, its last target included: T+1 of them. */
export const tokensOfWindow = (window: number, sequenceLength: number): Range => [
  window * sequenceLength,
  (window + 1) * sequenceLength + 1,
];

/** Indices of the shards that a window reads: one, or two neighbours (more only if T exceeds a shard). */
export function shardsOfWindow(window: number, sequenceLength: number, shardTokens: number): Range {
  const [from, to] = tokensOfWindow(window, sequenceLength);
  return [Math.floor(from / shardTokens), Math.floor((to - 1) / shardTokens) + 1];
}

export const bytesPerToken = (vocabulary: number): 2 | 4 => (vocabulary <= 65_536 ? 2 : 4);

/** A shard's bytes as ids. Typed arrays are little-endian wherever WebGPU runs. */
export function decodeShard(bytes: ArrayBuffer, bytesPerToken: 2 | 4): TokenIds {
  return bytesPerToken === 2 ? new Uint16Array(bytes) : new Uint32Array(bytes);
}

/** The T+1 tokens of a window, out of the shards it reads. */
export function windowTokens(
  shard: (index: number) => TokenIds,
  window: number,
  sequenceLength: number,
  shardTokens: number,
): Uint32Array {
  const [from, to] = tokensOfWindow(window, sequenceLength);
  const out = new Uint32Array(to - from);
  for (let token = from; token < to; ) {
    const index = Math.floor(token / shardTokens);
    const start = token - index * shardTokens;
    const part = shard(index).subarray(start, start + to - token);
    invariant(part.length > 0, `shard ${index} lacks token ${token}`);
    out.set(part, token - from);
    token += part.length;
  }
  return out;
}
