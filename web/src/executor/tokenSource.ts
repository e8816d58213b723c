/**
 * The tokens of any micro-batch, from shards fetched ahead of need and kept. Any peer can say which windows a step
 * reads, so it asks for the next step's shards while it computes this one.
 */
import type { Range } from '../../../swarm/base.ts';
import {
  decodeShard,
  shardsOfWindow,
  type TokenIds,
  type TokenList,
  windowCount,
  windowTokens,
} from '../../../swarm/data.ts';
import type { MicroTokens } from './engine.ts';

/** Shards kept: 64 of 65,536 two-byte tokens are 8 MiB. */
const KEPT_SHARDS = 64;

export class TokenSource {
  readonly windows: number;
  readonly #list: TokenList;
  readonly #sequence: number;
  readonly #fetchShard: (hash: string) => Promise<ArrayBuffer>;
  /** In order of last use: the first is the next to go. */
  readonly #shards = new Map<number, Promise<TokenIds>>();

  constructor(list: TokenList, sequence: number, fetchShard: (hash: string) => Promise<ArrayBuffer>) {
    this.#list = list;
    this.#sequence = sequence;
    this.#fetchShard = fetchShard;
    this.windows = windowCount(list.tokens, sequence);
  }

  /** Begins to fetch what these samples read; `first` numbers sample 0 over the whole run (step·B). */
  prefetch(first: number, samples: Range): void {
    for (let sample = samples[0]; sample < samples[1]; sample++) {
      const [from, to] = this.#shardsOf(first + sample);
      for (let index = from; index < to; index++) void this.#shard(index).catch(() => undefined);
    }
  }

  /** Samples `[from, to)` counted from `first` = step·B; past the last window they begin again. */
  async read(first: number, samples: Range): Promise<MicroTokens> {
    const rows = (samples[1] - samples[0]) * this.#sequence;
    const ids = new Uint32Array(rows);
    const targets = new Uint32Array(rows);
    for (let sample = samples[0]; sample < samples[1]; sample++) {
      const window = (first + sample) % this.windows;
      const [from, to] = this.#shardsOf(first + sample);
      const held = new Map<number, TokenIds>();
      for (let index = from; index < to; index++) held.set(index, await this.#shard(index));
      const tokens = windowTokens(
        (index) => held.get(index) ?? new Uint32Array(),
        window,
        this.#sequence,
        this.#list.shardTokens,
      );
      const at = (sample - samples[0]) * this.#sequence;
      ids.set(tokens.subarray(0, this.#sequence), at);
      targets.set(tokens.subarray(1), at);
    }
    return { ids, targets };
  }

  #shardsOf(sample: number): Range {
    return shardsOfWindow(sample % this.windows, this.#sequence, this.#list.shardTokens);
  }

  #shard(index: number): Promise<TokenIds> {
    const known = this.#shards.get(index);
    if (known) {
      this.#shards.delete(index);
      this.#shards.set(index, known);
      return known;
    }
    const fetched = this.#fetchShard(this.#list.shards[index] ?? '').then((bytes) =>
      decodeShard(bytes, this.#list.bytesPerToken),
    );
    // A failed fetch is tried again by the next who asks.
    fetched.catch(() => this.#shards.delete(index));
    this.#shards.set(index, fetched);
    for (const oldest of this.#shards.keys()) {
      if (this.#shards.size <= KEPT_SHARDS) break;
      this.#shards.delete(oldest);
    }
    return fetched;
  }
}
