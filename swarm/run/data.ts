/**
 * Which tokens a step reads: a pure function of (run, step), so that any peer can fetch its own. All files of a run are
 * one token list, cut into shards named by their SHA-256. In a list of text window w is tokens [w·T, w·T+T) with targets one
 * later; in a list of rows it is three times T numbers: inputs, targets, and the row at which each row's example begins.
 * Rules DA in SPEC.md.
 */
import { invariant, type Range } from '../base.ts';

export const SHARD_TOKENS = 65_536;

/** Tokens as files: shard k holds tokens [k·shardTokens, (k+1)·shardTokens), little-endian; only the last is shorter. */
export interface TokenList {
  /** Windows of examples; absent: text. */
  readonly kind?: 'rows';
  readonly tokens: number;
  readonly shardTokens: number;
  /** As few as every id of the vocabulary fits into; of rows, every number in them. */
  readonly bytesPerToken: TokenBytes;
  readonly shards: readonly string[];
  /** Of rows alone: the blob that says how many rows of each window count, four bytes a window. */
  readonly counted?: string;
  /** Of rows alone: how many of them count in all. */
  readonly countedRows?: number;
}

/** The target of a row that does not count. */
export const NO_TARGET = 0xffffffff;

export type TokenBytes = 1 | 2 | 4;
export type TokenIds = Uint8Array | Uint16Array | Uint32Array;

/** In which order the windows are trained on; held-out text is always read in sequence. */
export type Order = { readonly type: 'sequential' } | { readonly type: 'shuffled'; readonly seed: number };
export const SEQUENTIAL: Order = { type: 'sequential' };

/** Window w is the `length` tokens from w·`stride` on. */
function layoutOf({ kind }: Pick<TokenList, 'kind'>, sequenceLength: number) {
  return kind === 'rows'
    ? { stride: 3 * sequenceLength, length: 3 * sequenceLength }
    : { stride: sequenceLength, length: sequenceLength + 1 }; // the last target belongs to the next window
}

export function windowCount(list: Pick<TokenList, 'kind' | 'tokens'>, sequenceLength: number): number {
  const { stride, length } = layoutOf(list, sequenceLength);
  return Math.max(0, Math.floor((list.tokens - length + stride) / stride));
}

/** The window of a sample numbered over the whole run: sample i of step s is s·B + i. One time round is an epoch. */
export function windowOfSample(order: Order, sample: number, windows: number): number {
  const place = sample % windows;
  return order.type === 'sequential' ? place : permuted(place, windows, order.seed, Math.floor(sample / windows));
}

/** Places in the list, past each other. */
function tokensOfWindow(list: Pick<TokenList, 'kind'>, window: number, sequenceLength: number): Range {
  const { stride, length } = layoutOf(list, sequenceLength);
  return [window * stride, window * stride + length];
}

/** Indices of the shards that a window reads: one, or two neighbours (more only if a window exceeds a shard). */
export function shardsOfWindow(
  list: Pick<TokenList, 'kind' | 'shardTokens'>,
  window: number,
  sequenceLength: number,
): Range {
  const [from, to] = tokensOfWindow(list, window, sequenceLength);
  return [Math.floor(from / list.shardTokens), Math.floor((to - 1) / list.shardTokens) + 1];
}

/** For numbers from 0 to below `count`. */
export const bytesPerToken = (count: number): TokenBytes => (count <= 256 ? 1 : count <= 65_536 ? 2 : 4);

const ARRAYS = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array } as const;

/** A shard's bytes as ids. Typed arrays are little-endian wherever WebGPU runs. */
export const decodeShard = (bytes: ArrayBuffer, size: TokenBytes): TokenIds => new ARRAYS[size](bytes);

/** Room for so many ids, as a shard has them. */
export const emptyShard = (tokens: number, size: TokenBytes) => new ARRAYS[size](new ArrayBuffer(tokens * size));

/** A window as steps compute with it: T rows. */
export interface WindowRows {
  readonly ids: Uint32Array;
  /** NO_TARGET where the row does not count. */
  readonly targets: Uint32Array;
  /** The row at which each row's example begins; null: the first one. */
  readonly firstRows: Uint32Array | null;
}

/** The rows of a window, out of the shards it reads. `vocabulary`: the number that stands in lists for no target. */
export function windowRows(
  shard: (index: number) => TokenIds,
  list: Pick<TokenList, 'kind' | 'shardTokens'>,
  window: number,
  { sequenceLength, vocabulary }: { readonly sequenceLength: number; readonly vocabulary: number },
): WindowRows {
  const tokens = tokensIn(shard, tokensOfWindow(list, window, sequenceLength), list.shardTokens);
  const ids = tokens.subarray(0, sequenceLength);
  if (list.kind !== 'rows') return { ids, targets: tokens.subarray(1), firstRows: null };
  const targets = tokens
    .subarray(sequenceLength, 2 * sequenceLength)
    .map((target) => (target === vocabulary ? NO_TARGET : target));
  return { ids, targets, firstRows: tokens.subarray(2 * sequenceLength) };
}

function tokensIn(shard: (index: number) => TokenIds, [from, to]: Range, shardTokens: number): Uint32Array {
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

/** Targets of a step: B·T of text, of examples their mean over all windows. */
export function stepTargets(
  list: Pick<TokenList, 'kind' | 'tokens' | 'countedRows'>,
  { globalBatchSize, sequenceLength }: { readonly globalBatchSize: number; readonly sequenceLength: number },
): number {
  const { countedRows } = list;
  if (countedRows === undefined) return globalBatchSize * sequenceLength;
  return (globalBatchSize * countedRows) / windowCount(list, sequenceLength);
}

/** How many rows count of samples `[from, to)`, numbered over the whole run. `counted`: of each window; null: each row of text. */
export function countedRows(
  counted: ArrayLike<number> | null,
  order: Order,
  [from, to]: Range,
  sequenceLength: number,
): number {
  if (counted === null) return (to - from) * sequenceLength;
  let sum = 0;
  for (let sample = from; sample < to; sample++) sum += counted[windowOfSample(order, sample, counted.length)] ?? 0;
  return sum;
}

/**
 * A random order of n things without a list of them: a permutation of `[0, n)` that is a pure function of (seed,
 * epoch), computed for one place at a time in constant memory, so that every peer knows every step's windows by itself.
 *
 * A generalised Feistel network (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002): a place is a pair
 * (left, right) in an a × b grid of at least n cells, and each round adds a hash of one half to the other one, modulo
 * that half's size. A round can be undone, so all of them together are a permutation of the grid. Where they lead out of
 * `[0, n)` they are applied again (cycle walking), which stays a permutation of `[0, n)`: the walk along a cycle that
 * began inside ends inside. With a = ⌈√n⌉ and b = ⌈n/a⌉ fewer than a of the cells lie outside, so one walk suffices
 * almost always.
 */
const ROUNDS = 8;

/** Where place `index` of epoch `epoch` goes. Numbers are whole; n is at least 1, index below n. */
export function permuted(index: number, n: number, seed: number, epoch: number): number {
  const a = Math.ceil(Math.sqrt(n));
  const b = Math.ceil(n / a);
  const key = mixed(mixed(mixed(0x9e3779b9, seed), epoch), n);
  let place = index;
  do {
    let left = Math.floor(place / b);
    let right = place % b;
    for (let round = 0; round < ROUNDS; round += 2) {
      left = (left + mixed(mixed(key, round), right)) % a;
      right = (right + mixed(mixed(key, round + 1), left)) % b;
    }
    place = left * b + right;
  } while (place >= n);
  return place;
}

/** A 32-bit hash of a word and a whole number of up to 53 bits: two rounds of MurmurHash3's finaliser. */
function mixed(word: number, value: number): number {
  return finalised(finalised((word ^ (value >>> 0)) | 0) ^ Math.floor(value / 4294967296));
}

function finalised(word: number): number {
  let hash = Math.imul(word ^ (word >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
